"""librdkafka, behaving as the producer and the consumer of Java do."""
