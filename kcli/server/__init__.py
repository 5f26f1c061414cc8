"""The asyncio shell of a node: sockets, dispatch, housekeeping, and the composition of the layers below."""
