"""Stores as an operator looks after them, with no broker running: what is there, whether it is whole, what to keep."""
