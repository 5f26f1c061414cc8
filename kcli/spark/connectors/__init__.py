"""Connectors of Kafka Connect whose work is a job of Spark."""
