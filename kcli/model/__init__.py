"""Kafka's nouns, declared once: ids, sentinels, enums of the wire, names of topics, addresses."""
