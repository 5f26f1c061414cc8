"""How commands are declared and how Kafka's two parsers read them."""
