"""Replaces kafka-transactions.sh of Apache Kafka."""
