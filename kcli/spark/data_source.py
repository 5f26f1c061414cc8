"""The data source `kcli`. It does the same work as Spark's own Kafka source, but in Python: it reads and writes batches
and streams.

The code runs in Spark's Python workers. `schema` and the planning of partitions run on the driver. `read` runs in the
executors.

    spark.read.format("kcli").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Spark does not report to a Python source which columns a query uses. To decode only some columns, pass a schema that has
only these columns, in any order: `.schema("value binary, offset bigint")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kcli.model.java_text import trim
from kcli.spark.options import sink_options, source_options
from kcli.spark.source.readers import FIELDS, HEADERS, KcliReader, KcliStreamReader, checked_schema
from kcli.spark.worker_memory import freeze_imports

if TYPE_CHECKING:
    from kcli.spark.sink.writers import BatchWriter, StreamWriter


class KcliDataSource(DataSource):
    """The class whose methods Spark calls for `format("kcli")`. An error for an invalid option contains its name."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        freeze_imports()

    @classmethod
    def name(cls) -> str:
        return "kcli"

    def schema(self) -> StructType:
        includes_headers = trim(self.options.get("includeheaders", "false")).lower() == "true"
        return StructType([*FIELDS, HEADERS] if includes_headers else list(FIELDS))

    def reader(self, schema: StructType) -> KcliReader:
        return KcliReader(source_options(self.options, streaming=False), checked_schema(schema))

    def streamReader(self, schema: StructType) -> KcliStreamReader:
        return KcliStreamReader(source_options(self.options, streaming=True), checked_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from kcli.spark.sink.writers import BatchWriter

        if overwrite:
            raise ValueError("a topic cannot be overwritten: use mode('append')")
        return BatchWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from kcli.spark.sink.writers import StreamWriter

        if overwrite:
            raise ValueError("a topic cannot be overwritten: use outputMode('append') or 'update'")
        return StreamWriter(sink_options(self.options), schema)
