"""The asyncio client: `connect_async` and what it gives, and the driver that moves its bytes."""
