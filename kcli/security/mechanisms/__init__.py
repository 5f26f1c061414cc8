"""SASL mechanisms that take and return bytes, so that blocking and asyncio connections can use the same code."""
