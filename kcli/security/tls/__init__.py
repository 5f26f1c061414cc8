"""TLS: stores, contexts, and the names of users from certificates. Uses no sockets."""
