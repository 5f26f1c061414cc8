"""The decisions of Kafka Connect, as pure functions and values: assignments, the state of configurations, restarts."""
