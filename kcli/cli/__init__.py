"""The command line: the commands, the parsers of Kafka's two command-line syntaxes, and the output of results."""
