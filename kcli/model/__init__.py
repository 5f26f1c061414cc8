"""Types for Kafka's basic terms: ids, special values, enums of the wire protocol, topic names, addresses."""
