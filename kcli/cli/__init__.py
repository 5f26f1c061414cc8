"""The command line: the commands, the parsers of Kafka's two syntaxes, and the output of results."""
