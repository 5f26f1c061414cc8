"""The asyncio client of the admin tools: connections, metadata, routing, retries, and one coroutine for each call."""
