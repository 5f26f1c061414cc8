"""Producers and consumers of librdkafka that behave like Java's."""
