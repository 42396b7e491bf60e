"""Our workloads, and the peers beside them in one run."""
