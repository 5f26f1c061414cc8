"""Calls of Kafka Connect for the pages, and the secrets in configurations of connectors."""
