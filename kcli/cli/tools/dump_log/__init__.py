"""Replaces kafka-dump-log.sh of Apache Kafka."""
