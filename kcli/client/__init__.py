"""The asyncio client of the admin tools: connections, metadata, routing, retries, one coroutine per call."""
