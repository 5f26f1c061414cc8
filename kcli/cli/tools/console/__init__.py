"""kafka-console-producer.sh and kafka-console-consumer.sh."""
