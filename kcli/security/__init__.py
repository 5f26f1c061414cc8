"""Security for brokers, clients and Spark: principals, TLS, JAAS, SASL mechanisms, the authorizer. Uses no sockets."""
