"""kafka-reassign-partitions.sh."""
