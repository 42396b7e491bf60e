"""The brokers we measure against."""
