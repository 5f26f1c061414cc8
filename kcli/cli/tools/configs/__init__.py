"""Replaces kafka-configs.sh of Apache Kafka."""
