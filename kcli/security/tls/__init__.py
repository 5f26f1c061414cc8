"""TLS: loads stores, makes contexts, and maps certificates to user names. Uses no sockets."""
