"""The tools: a module or package for each tool of Kafka's bin/, with its declaration `command`."""
