"""The demo: a year of flights through a cluster, every one accounted for."""
