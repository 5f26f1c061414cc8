"""One module per tool of Kafka's bin/, each with its `command`."""
