"""What operators watch: counts on the hot path, beans under Kafka's names, and the endpoint that shows them."""
