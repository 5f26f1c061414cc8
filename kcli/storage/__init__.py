"""The partition log on disk, in Kafka's format (docs/architecture.md has the theory of operation)."""
