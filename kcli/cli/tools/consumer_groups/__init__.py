"""Replaces kafka-consumer-groups.sh of Apache Kafka."""
