"""The asyncio client of the admin tools: connections, metadata, the choice of the server, retries, and one coroutine
for each admin call.
"""
