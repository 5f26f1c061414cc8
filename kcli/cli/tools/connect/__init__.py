"""The commands of Kafka Connect: workers, and the control of connectors."""
