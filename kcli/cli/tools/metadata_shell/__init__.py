"""Replaces kafka-metadata-shell.sh of Apache Kafka."""
