"""kafka-verifiable-producer.sh and kafka-verifiable-consumer.sh."""
