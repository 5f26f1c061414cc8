"""The tool `kcli top`, which Apache Kafka does not have."""
