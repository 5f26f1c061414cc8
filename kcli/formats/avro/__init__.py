"""Avro schemas and values, as Apache Avro for Java and Confluent's registry treat them."""
