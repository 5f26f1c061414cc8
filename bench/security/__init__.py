"""Measures of security: decisions of the authorizer, and throughput over TLS."""
