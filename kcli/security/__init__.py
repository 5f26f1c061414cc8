"""Security for server, client and Spark: principals, TLS, JAAS text, SASL mechanisms, the authorizer. No sockets."""
