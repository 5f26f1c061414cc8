"""Replaces kafka-verifiable-producer.sh and kafka-verifiable-consumer.sh of Apache Kafka."""
