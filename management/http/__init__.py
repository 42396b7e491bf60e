"""The HTTP API of a cluster, with RabbitMQ's paths and names where objects match (see `../README.md`)."""
