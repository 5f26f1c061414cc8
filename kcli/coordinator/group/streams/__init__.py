"""Streams groups (KIP-1071). This broker lists them, but does not serve their members yet."""
