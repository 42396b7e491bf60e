"""Committed events, reported to the tap once and kept as rows for Spark."""
