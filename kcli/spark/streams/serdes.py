"""Serdes for keys and values of records: bytes, text, JSON, or Java's 8-byte longs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kcli.spark.streams.record import KEY, WINDOW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

LONG_HEX_DIGITS = 16


class Serde(Protocol):
    """Converts bytes to a column and back. A null stays null, because a null value is a tombstone."""

    def decode(self, raw: Column) -> Column: ...

    def encode(self, column: Column) -> Column: ...


@dataclass(frozen=True, slots=True)
class Binary:
    """Passes bytes unchanged."""

    def decode(self, raw: Column) -> Column:
        return raw

    def encode(self, column: Column) -> Column:
        return column.cast("binary")


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 text.

    Spark casts other types to strings when it writes, and to `type` ("bigint", "double", …) when it reads.
    """

    type: str | DataType = "string"

    def decode(self, raw: Column) -> Column:
        return raw.cast("string").cast(self.type)

    def encode(self, column: Column) -> Column:
        return column.cast("string").cast("binary")


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON document. Reading needs its `schema` in DDL: `"id bigint, items array<string>"`.

    If a value does not parse, the query fails. If `skip_malformed` is True, such a value becomes null instead.
    """

    schema: str | DataType | None = None
    skip_malformed: bool = False

    def decode(self, raw: Column) -> Column:
        from pyspark.sql import functions as F

        if self.schema is None:
            raise ValueError("Json() has no schema: reading a topic needs Json('field type, …')")
        text = raw.cast("string")
        if not self.skip_malformed:
            return F.from_json(text, self.schema, {"mode": "FAILFAST"})
        return _well_formed(text, self.schema)

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.to_json(column).cast("binary")


def _well_formed(text: Column, schema: str | DataType) -> Column:
    """Parses JSON. Text that is not JSON becomes null.

    Spark itself returns a struct of nulls for such text. So an additional column marks invalid text.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import DataType, StructType

    from kcli.spark.jobs.records.column_names import free_name

    data_type = schema if isinstance(schema, DataType) else DataType.fromDDL(schema)
    if not isinstance(data_type, StructType):
        return F.from_json(text, data_type)
    malformed = free_name(_MALFORMED, data_type.names)
    noted = StructType([*data_type.fields]).add(malformed, "string")
    parsed = F.from_json(text, noted, {"columnNameOfCorruptRecord": malformed})
    return F.when(parsed[malformed].isNull(), parsed.dropFields(malformed))


_MALFORMED = "_malformed"


@dataclass(frozen=True, slots=True)
class Long:
    """An integer of eight bytes, big-endian. Java's LongSerializer writes this format, and Kafka Streams uses it for
    counts.
    """

    def decode(self, raw: Column) -> Column:
        from pyspark.sql import functions as F

        digits, half = F.hex(raw), LONG_HEX_DIGITS // 2
        high, low = (F.conv(F.substring(digits, at, half), 16, 10).cast("bigint") for at in (1, half + 1))
        whole = F.shiftleft(high, 32).bitwiseOR(low)
        said = F.concat(F.lit("Long() reads 8 bytes, but the value has "), F.length(raw), F.lit(": "), digits)
        return F.when(F.length(raw) == half, whole).when(raw.isNotNull(), F.raise_error(said))

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.unhex(F.lpad(F.hex(column.cast("bigint")), LONG_HEX_DIGITS, "0"))


def serde_for(type_: DataType) -> Serde:
    """Returns the default serde of a type. This serde can read the bytes that it writes.

    Bytes are unchanged. Structs, arrays and maps become JSON, and all other types become text.
    """
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    if isinstance(type_, BinaryType):
        return Binary()
    return Json(type_) if isinstance(type_, (StructType, ArrayType, MapType)) else Text(type_)


def keyed_by_window(frame: DataFrame) -> DataFrame:
    """Changes the key of a windowed frame to a struct of `key`, `start` and `end` (in ms), so that each window has its
    own key.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    if WINDOW not in frame.columns:
        return frame
    bounds = [F.unix_millis(F.col(WINDOW)[name]).alias(name) for name in ("start", "end")]
    is_binary = isinstance(frame.schema[KEY].dataType, BinaryType)
    key = F.col(KEY).cast("string") if is_binary else F.col(KEY)  # JSON has no type for bytes
    return frame.withColumn(KEY, F.struct(key.alias(KEY), *bounds)).drop(WINDOW)
