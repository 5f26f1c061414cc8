"""Writes rows to topics: partitions, encoding, the idempotent producer, and its transactions."""
