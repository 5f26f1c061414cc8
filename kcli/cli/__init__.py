"""The command line: what commands are, how Kafka's two parsers read them, and how results are written."""
