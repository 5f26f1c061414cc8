"""kafka-dump-log.sh."""
