"""Java's orders, dates and numbers, as Kafka's tools print them."""
