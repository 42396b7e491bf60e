"""The cluster stream's state: exchanges, queues and bindings, who uses a queue, and whether flow control is on."""
