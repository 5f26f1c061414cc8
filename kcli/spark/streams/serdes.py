"""How keys and values are written in records: as bytes, text, JSON, or Java's 8-byte longs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kcli.spark.streams.record import KEY, WINDOW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

LONG_HEX_DIGITS = 16
MILLISECONDS = 1000


class Serde(Protocol):
    """Bytes to a column of some type and back. Null stays null: it is a tombstone, not a value."""

    def decode(self, raw: Column) -> Column: ...

    def encode(self, column: Column) -> Column: ...


@dataclass(frozen=True, slots=True)
class Binary:
    """The bytes as they are."""

    def decode(self, raw: Column) -> Column:
        return raw

    def encode(self, column: Column) -> Column:
        return column.cast("binary")


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8; any other type is written as Spark casts it to a string."""

    def decode(self, raw: Column) -> Column:
        return raw.cast("string")

    def encode(self, column: Column) -> Column:
        return column.cast("string").cast("binary")


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON document. `schema` is what it holds, in DDL (`"id bigint, items array<string>"`), for reading.

    A value that is no such document fails the query; with `skip_malformed` it counts as null.
    """

    schema: str | DataType | None = None
    skip_malformed: bool = False

    def decode(self, raw: Column) -> Column:
        from pyspark.sql import functions as F

        if self.schema is None:
            raise ValueError("Json() has no schema: reading a topic needs Json('field type, …')")
        mode = "PERMISSIVE" if self.skip_malformed else "FAILFAST"
        return F.from_json(raw.cast("string"), self.schema, {"mode": mode})

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.to_json(column).cast("binary")


@dataclass(frozen=True, slots=True)
class Long:
    """Eight bytes, big-endian: what Java's LongSerializer writes, and Kafka Streams for counts."""

    def decode(self, raw: Column) -> Column:
        from pyspark.sql import functions as F

        digits, half = F.hex(raw), LONG_HEX_DIGITS // 2
        high, low = (F.conv(F.substring(digits, at, half), 16, 10).cast("bigint") for at in (1, half + 1))
        return F.shiftleft(high, 32).bitwiseOR(low)

    def encode(self, column: Column) -> Column:
        from pyspark.sql import functions as F

        return F.unhex(F.lpad(F.hex(column.cast("bigint")), LONG_HEX_DIGITS, "0"))


def serde_for(type_: DataType) -> Serde:
    """What a column is written as where nobody says: bytes and text as they are, structs as JSON, the rest as text."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

    if isinstance(type_, BinaryType):
        return Binary()
    return Json() if isinstance(type_, (StructType, ArrayType, MapType)) else Text()


def encoded_key(frame: DataFrame, serde: Serde | None) -> Column:
    """The key's bytes. One of a window becomes `{"key": …, "start": ms, "end": ms}`, so that each has its own."""
    from pyspark.sql import functions as F

    if WINDOW not in frame.columns:
        return (serde or serde_for(frame.schema[KEY].dataType)).encode(frame[KEY])
    bounds = [
        (F.unix_micros(frame[WINDOW][name]) / MILLISECONDS).cast("bigint").alias(name)
        for name in ("start", "end")
    ]
    key = frame[KEY].cast("string") if _is_binary(frame) else frame[KEY]
    return Json().encode(F.struct(key.alias("key"), *bounds))


def _is_binary(frame: DataFrame) -> bool:
    from pyspark.sql.types import BinaryType

    return isinstance(frame.schema[KEY].dataType, BinaryType)
