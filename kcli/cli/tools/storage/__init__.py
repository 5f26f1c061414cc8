"""Replaces kafka-storage.sh of Apache Kafka."""
