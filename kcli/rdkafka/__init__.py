"""Producers and consumers of librdkafka that behave like the clients of Java."""
