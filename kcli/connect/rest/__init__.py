"""The REST API of Kafka Connect."""
