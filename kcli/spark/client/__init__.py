"""The blocking client of a Kafka cluster that the source and the sink use."""
