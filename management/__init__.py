"""What operators see of a cluster: one model, and what reads it (see `README.md`)."""
