"""The framing of coordinators' records: a key is `int16 record type | fields`, a value `int16 version | fields`.

A tombstone has a null value. Before Kafka 4.1, the record type was called the version of the key. The bytes have not
changed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Generic, TypeVar

from kcli.errors import CorruptRecordError
from kcli.protocol.records.schema import Json, decode, encode, schema_of, to_json

K = TypeVar("K")
V = TypeVar("V")

_INT16 = struct.Struct(">h")


class UnknownRecordTypeError(CorruptRecordError):
    """The key of a record has a type that this release does not know. Coordinators skip such records (KIP-915)."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"Unknown record type {record_type}")
        self.record_type = record_type


class CoordinatorRecords(Generic[K, V]):
    """The records of one coordinator's topic. Each key class has a value class, and a version in which values are
    written."""

    def __init__(self, types: Mapping[type[K], tuple[type[V], int]]) -> None:
        self._types = types
        self._keys = {schema_of(cls).key: cls for cls in types}
        self._write_versions = dict(types.values())

    def encode_key(self, key: K) -> bytes:
        return _INT16.pack(schema_of(type(key)).key) + encode(key, 0)

    def decode_key(self, key: bytes) -> K:
        """Decodes a key. Raises UnknownRecordTypeError for a type of a newer Kafka, and CorruptRecordError for invalid
        bytes."""
        record_type = _leading_int16(key, "key")
        cls = self._keys.get(record_type)
        if cls is None:
            raise UnknownRecordTypeError(record_type)
        return decode(cls, 0, key, 2, exact=False)

    def encode_value(self, value: V, version: int | None = None) -> bytes:
        """Encodes a value, by default in the version that Kafka 4.1 writes."""
        if version is None:
            version = self._write_versions[type(value)]
        return _INT16.pack(version) + encode(value, version)

    def decode_value(self, key: K, value: bytes) -> tuple[V, int]:
        """Decodes the value of a record with this key. Returns the value and its version."""
        version = _leading_int16(value, "value")
        return decode(self._types[type(key)][0], version, value, 2, exact=False), version

    def key_to_json(self, key: K) -> dict[str, Json]:
        """Converts a key to JSON: `{"type", "data"}`. The type is a number, as in the formatters of
        console-consumer. dump-log prints it as a string."""
        return {"type": schema_of(type(key)).key, "data": to_json(key, 0)}

    def value_to_json(self, value: V, version: int) -> dict[str, Json]:
        return {"version": version, "data": to_json(value, version)}


def _leading_int16(buffer: bytes, part: str) -> int:
    if len(buffer) < 2:
        raise CorruptRecordError(f"A coordinator record's {part} of {len(buffer)} bytes has no version")
    number: int = _INT16.unpack_from(buffer)[0]
    return number
