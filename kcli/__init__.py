"""kcli: event streaming without the JVM. A Kafka-compatible broker and its command-line tools."""

VERSION = "0.9.0"
"""The release of kcli itself."""

KAFKA_VERSION = "4.1.0"
"""The Apache Kafka release that has the same wire protocol, disk format and command line as this version of kcli."""
