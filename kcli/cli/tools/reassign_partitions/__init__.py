"""Replaces kafka-reassign-partitions.sh of Apache Kafka."""
