"""The asyncio client of the admin tools: connections, metadata, routing, retries, and one coroutine per call."""
