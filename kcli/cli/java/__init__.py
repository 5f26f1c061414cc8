"""Java's dates, ids and random numbers, as Kafka's tools read and print them."""
