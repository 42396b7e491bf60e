"""The catalogue: the checkpoint of the cluster's wiring, in SQL or in the transaction log."""
