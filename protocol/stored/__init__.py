"""Processes that keep logs, with their broker's store in front of them."""
