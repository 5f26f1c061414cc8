"""Java connectors that many people use, and what takes their place here."""

from __future__ import annotations

from collections.abc import Mapping

_OBJECTS = (
    "the connector io.confluent.connect.s3.S3SinkConnector writes to many stores (docs/connect-objects.md)"
)
_TABLES = "the Spark job `kcli spark-submit export` writes topics to tables (docs/spark.md)"

REPLACEMENTS: Mapping[str, str | None] = {
    "io.confluent.connect.gcs.": _OBJECTS,
    "io.confluent.connect.azure.": _OBJECTS,
    "io.confluent.connect.hdfs": _OBJECTS,
    "io.aiven.kafka.connect.s3.": _OBJECTS,
    "io.aiven.kafka.connect.gcs.": _OBJECTS,
    "io.tabular.iceberg.": _TABLES,
    "org.apache.iceberg.": _TABLES,
    "io.confluent.": None,
    "io.debezium.": None,
    "io.aiven.": None,
    "io.lenses.": None,
    "com.mongodb.": None,
    "com.snowflake.": None,
    "com.wepay.": None,
    "com.clickhouse.": None,
    "com.github.": None,
    "org.apache.camel.": None,
    "org.opensearch.": None,
}
"""The beginnings of class names. The first entry that fits counts. None means that nothing here does the same."""


def replacement(class_name: str) -> str | None:
    """The error for a Java class of a well-known connector. None if the class belongs to no such connector."""
    for prefix, advice in REPLACEMENTS.items():
        if class_name.startswith(prefix):
            return (
                f"{class_name} is a Java class, and this worker runs plugins that are written in Python. "
                + (f"In its place, {advice}. " if advice else "")
                + "A Python package can take its place with a connector whose `java_class` is this name "
                "(kcli/connectors/interface.py)"
            )
    return None
