"""The Supervisor's shell: it starts, replaces, adds and removes members, and tells how the cluster is."""
