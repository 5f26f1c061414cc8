"""Sockets: listeners, connections, limits on them."""
