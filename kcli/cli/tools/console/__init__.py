"""Replaces kafka-console-producer.sh and kafka-console-consumer.sh of Apache Kafka."""
