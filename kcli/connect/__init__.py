"""Kafka Connect: workers that run connectors and their tasks, alone or as a group."""
