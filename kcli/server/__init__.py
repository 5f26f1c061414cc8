"""The asyncio shell of a node: sockets, dispatch, housekeeping, and the composition of all rooms below."""
