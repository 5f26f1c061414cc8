"""Writes rows to topics: partitions, encoding, the producer and its transactions."""
