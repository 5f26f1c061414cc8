"""The REST API of Confluent's schema registry 8.1."""
