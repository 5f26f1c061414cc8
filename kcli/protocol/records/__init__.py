"""The records that Kafka keeps in its internal topics, every version of each."""
