"""kafka-metadata-shell.sh."""
