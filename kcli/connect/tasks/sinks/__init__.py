"""The loop of a sink task: the consumer, deliveries to the task, and its commits."""
