"""The partition log on disk, in Kafka's format. docs/architecture.md explains how it works."""
