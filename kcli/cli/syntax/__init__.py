"""The declaration of commands, and the parsers of Kafka's two syntaxes."""
