"""The synchronous client: `connect` and what it gives, and the thread that moves its bytes."""
