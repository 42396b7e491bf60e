"""Durable storage: comes with a later milestone. See the README."""
