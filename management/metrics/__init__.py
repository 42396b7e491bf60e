"""Metrics of a cluster, from one table: as text for whoever scrapes, as dashboards, and as a page of the docs."""
