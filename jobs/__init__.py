"""The Spark pipeline over the cluster's events: comes with a later milestone. See the README."""
