"""kafka-transactions.sh."""
