"""kcli: event streaming without the JVM. A Kafka-compatible broker and its command-line tools."""

KAFKA_VERSION = "4.1.0"
"""The Apache Kafka release whose wire, disk and command line this version matches."""
