"""Durable storage: logs, their catalogue, and what looks after them; the event table. See the README."""
