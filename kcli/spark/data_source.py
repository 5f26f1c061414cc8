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
from kcli.spark.options import single_topic, sink_options, source_options, value_spec
from kcli.spark.source.readers import (
    FIELDS,
    HEADERS,
    VALUE_ERROR,
    KcliReader,
    KcliStreamReader,
    checked_schema,
)
from kcli.spark.worker_memory import freeze_imports

if TYPE_CHECKING:
    from kcli.spark.registry_values import ReadColumns
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
        fields = [*FIELDS, HEADERS] if self._is_true("includeheaders") else [*FIELDS]
        values = self._values()
        if values is not None:
            fields = [values.field if field.name == "value" else field for field in fields]
            fields += [VALUE_ERROR] if self._is_true("includevalueerrors") else []
        return StructType(fields)

    def reader(self, schema: StructType) -> KcliReader:
        values = self._values()
        options = source_options(self.options, streaming=False)
        return KcliReader(options, checked_schema(schema, values), values)

    def streamReader(self, schema: StructType) -> KcliStreamReader:
        values = self._values()
        options = source_options(self.options, streaming=True)
        return KcliStreamReader(options, checked_schema(schema, values), values)

    def _is_true(self, name: str) -> bool:
        return trim(self.options.get(name, "false")).lower() == "true"

    def _values(self) -> ReadColumns | None:
        """Asks the schema registry for the columns of the values, if the source decodes them."""
        spec = value_spec(self.options)
        if spec is None:
            return None
        from kcli.spark.registry_values import read_columns

        return read_columns(spec, single_topic(self.options))

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
