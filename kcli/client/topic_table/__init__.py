"""A compacted topic as a table: each key has its last value, and a record without a value deletes its key.

Programs on a cluster keep their state so: the configurations and offsets of Kafka Connect, the schemas of a registry.
"""
