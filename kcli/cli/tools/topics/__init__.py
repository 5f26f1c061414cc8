"""Replaces kafka-topics.sh of Apache Kafka."""
