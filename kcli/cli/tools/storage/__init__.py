"""kafka-storage.sh."""
