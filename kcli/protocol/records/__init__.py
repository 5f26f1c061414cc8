"""The records of Kafka's internal topics, with all versions of each record."""
