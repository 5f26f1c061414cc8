"""Writes rows to topics: chooses partitions, encodes records, and sends them with an idempotent or transactional
producer.
"""
