"""Who may connect: the TLS and the logins of each listener, and the security of the connections to other nodes."""
