"""Many values of several schemas become columns of one schema, and equal those of the deserializer for one value."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kcli.formats.codec import FormatError, Value
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.columns import ColumnDeserializer, column_type, row_encoder
from kcli.formats.registry.deserializer import Deserializer
from kcli.formats.registry.errors import RegistryError
from kcli.formats.registry.framing import guid_prefix, id_prefix, path_bytes
from kcli.formats.registry.payloads import value_decode, value_encoder
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings
from kcli.formats.registry.settings import RegistrySettings
from kcli.formats.schemas import SchemaType
from rigs.schema_registry import MemoryRegistry, memory_registry

V1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"gone","type":"string"}]}'
V2 = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"long"},'
    '{"name":"b","type":["null","string"],"default":null}]}'
)
P1 = 'syntax = "proto3"; package p; message A { int32 a = 1; } message B { string b = 1; }'
P2 = 'syntax = "proto3"; package p; message Z { bool z = 9; } message A { int32 a = 1; string c = 2; }'
J1 = '{"type":"object","properties":{"a":{"type":"integer"},"s":{"type":"string"}}}'


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as registry:
        yield registry


def schemas_of(registry: MemoryRegistry) -> Schemas:
    return Schemas(
        RegistryClient(RegistrySettings.of({"schema.registry.url": registry.url, "max.retries": "0"}))
    )


def encode(kind: str, text: str, value: Value, message: str | None = None) -> bytes:
    encoder = value_encoder(LoadedSchema(SchemaType(kind), text), message)
    return encoder.path + encoder.encode(value)


def columns_of(registry: MemoryRegistry, subject: str, message: str | None = None) -> ColumnDeserializer:
    schemas = schemas_of(registry)
    return ColumnDeserializer(schemas, asyncio.run(schemas.latest(subject)), message=message)


def rows(columns: ColumnDeserializer, values: list[bytes | None]) -> list[Any]:
    """The values, with the error in place of a value that has one."""
    decoded = columns.decode(pa.array(values, pa.binary()))
    assert len(decoded.values) == len(decoded.errors) == len(values)
    assert decoded.values.type == columns.type
    pairs = zip(decoded.values.to_pylist(), decoded.errors.to_pylist(), strict=True)
    return [value if error is None else error for value, error in pairs]


def test_avro_values_of_all_versions_have_the_columns_of_the_latest(registry: MemoryRegistry) -> None:
    first, second = registry.put("t-value", V1), registry.put("t-value", V2)
    guid = uuid.UUID(registry.subjects["t-value"][0]["guid"])
    old, new = encode("AVRO", V1, {"a": 1, "gone": "x"}), encode("AVRO", V2, {"a": 2, "b": "y"})
    values = [
        id_prefix(second) + new,
        None,
        id_prefix(first) + old,
        guid_prefix(guid) + old,
        b"plain",
        id_prefix(99) + old,
        id_prefix(first) + b"\2",
        id_prefix(second) + new,
    ]
    columns = columns_of(registry, "t-value")
    assert columns.type == pa.struct([("a", pa.int64()), ("b", pa.string())])
    found = rows(columns, values)
    assert [found[nth] for nth in (0, 1, 2, 3, 7)] == [
        {"a": 2, "b": "y"},
        None,
        {"a": 1, "b": None},
        {"a": 1, "b": None},
        {"a": 2, "b": "y"},
    ]
    assert found[4].startswith("Unknown magic byte! The value has no registry prefix")
    assert found[5] == "Schema 99 not found" and "too early" in found[6]


def test_the_columns_equal_the_values_of_the_deserializer(registry: MemoryRegistry) -> None:
    ids = (registry.put("t-value", V1), registry.put("t-value", V2))
    values = [
        id_prefix(ids[nth % 2])
        + encode("AVRO", V1 if nth % 2 == 0 else V2, {"a": nth, "gone": "g", "b": str(nth)})
        for nth in range(200)
    ]
    mine = Deserializer(schemas_of(registry), SerdeSettings(use_latest=True), value_decode)
    assert rows(columns_of(registry, "t-value"), values) == [mine.deserialize("t", value) for value in values]


def test_protobuf_values_are_found_by_their_paths(registry: MemoryRegistry) -> None:
    first, second = registry.put("t-value", P1, "PROTOBUF"), registry.put("t-value", P2, "PROTOBUF")
    values = [
        id_prefix(first) + encode("PROTOBUF", P1, {"a": 1}, "p.A"),
        id_prefix(second) + encode("PROTOBUF", P2, {"a": 2, "c": "x"}, "p.A"),
        id_prefix(first) + b"\2\0\x08\x03",
        id_prefix(first) + encode("PROTOBUF", P1, {"b": "other"}, "p.B"),
        id_prefix(first) + path_bytes((7,)),
        id_prefix(first),
        None,
    ]
    found = rows(columns_of(registry, "t-value", "p.A"), values)
    assert found[:3] == [{"a": 1, "c": ""}, {"a": 2, "c": "x"}, {"a": 3, "c": ""}]
    assert found[3:] == [
        "the value is a message p.B, expected p.A",
        "the schema has no message with the indexes [7]",
        "the value ends inside the path of its message type",
        None,
    ]
    assert columns_of(registry, "t-value").type == pa.struct([("z", pa.bool_())]), (
        "the first message of the schema"
    )


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def header_rows(
    columns: ColumnDeserializer, records: list[tuple[bytes | None, list[tuple[str, bytes | None]] | None]]
) -> list[Any]:
    values = pa.array([value for value, _ in records], pa.binary())
    listed = [
        None if headers is None else [{"key": key, "value": content} for key, content in headers]
        for _, headers in records
    ]
    # A slice has offsets that do not begin at 0.
    headers = pa.array([[{"key": "__value_schema_id", "value": b"before"}], *listed], HEADERS)[1:]
    decoded = columns.decode(values, headers)
    pairs = zip(decoded.values.to_pylist(), decoded.errors.to_pylist(), strict=True)
    return [value if error is None else error for value, error in pairs]


def test_a_header_names_the_schema_of_a_value(registry: MemoryRegistry) -> None:
    first, second = registry.put("t-value", V1), registry.put("t-value", V2)
    old, new = (uuid.UUID(held["guid"]) for held in registry.subjects["t-value"])
    name = "__value_schema_id"
    payloads = encode("AVRO", V1, {"a": 1, "gone": "x"}), encode("AVRO", V2, {"a": 2, "b": "y"})
    found = header_rows(
        columns_of(registry, "t-value"),
        [
            (payloads[0], [("other", b"x"), (name, guid_prefix(old))]),
            (id_prefix(second) + payloads[1], [("other", b"x")]),
            (payloads[1], [(name, None), (name, guid_prefix(new)), (name, guid_prefix(old))]),
            (None, [(name, guid_prefix(old))]),
            (id_prefix(first) + payloads[0], None),
            (payloads[0], [(name, b"\1short")]),
            (payloads[0], [("__key_schema_id", guid_prefix(old))]),
            (payloads[1], [(name, id_prefix(second))]),
            (payloads[1], [(name, guid_prefix(uuid.UUID(int=5)))]),
        ],
    )
    both = [{"a": 1, "b": None}, {"a": 2, "b": "y"}]
    assert found[:5] == [both[0], both[1], both[1], None, both[0]]
    assert found[5] == "Unknown magic byte! The header __value_schema_id has no guid of a schema"
    assert found[6].startswith("Unknown magic byte! The value has no registry prefix")
    assert found[7] == both[1]
    assert found[8] == "Schema 00000000-0000-0000-0000-000000000005 not found"
    mine = Deserializer(schemas_of(registry), SerdeSettings(use_latest=True), value_decode)
    assert mine.deserialize("t", payloads[0], [(name, guid_prefix(old))]) == both[0]


def test_a_header_has_the_path_of_a_protobuf_message(registry: MemoryRegistry) -> None:
    registry.put("t-value", P1, "PROTOBUF")
    prefix = guid_prefix(uuid.UUID(registry.subjects["t-value"][0]["guid"]))
    name = "__value_schema_id"
    found = header_rows(
        columns_of(registry, "t-value", "p.B"),
        [
            (b"\x0a\x01x", [(name, prefix + path_bytes((1,)))]),
            (b"\x08\x01", [(name, prefix + path_bytes((0,)))]),
            (b"\x0a\x01y", [(name, prefix + path_bytes((1,)))]),
            (b"\x0a\x01y", [(name, prefix)]),
        ],
    )
    assert [found[0], found[2]] == [{"b": "x"}, {"b": "y"}]
    assert found[1] == "the value is a message p.A, expected p.B"
    assert found[3] == "the value ends inside the path of its message type"
    registry.put("j-value", J1, "JSON")
    json_prefix = guid_prefix(uuid.UUID(registry.subjects["j-value"][0]["guid"]))
    columns = columns_of(registry, "j-value")
    assert header_rows(columns, [(b'{"a":1}', [(name, json_prefix)])]) == [{"a": 1, "s": None}]


def test_json_values_have_the_columns_of_their_schema(registry: MemoryRegistry) -> None:
    number = registry.put("t-value", J1, "JSON")
    values = [id_prefix(number) + b'{"a": 1, "s": "x", "more": 2}', id_prefix(number) + b'{"a": "x"}', None]
    found = rows(columns_of(registry, "t-value"), values)
    assert found[0] == {"a": 1, "s": "x"} and isinstance(found[1], str) and found[2] is None


def test_values_of_another_language_are_errors(registry: MemoryRegistry) -> None:
    avro, other = registry.put("t-value", V1), registry.put("other", J1, "JSON")
    found = rows(columns_of(registry, "t-value"), [id_prefix(other) + b"{}", id_prefix(avro) + b"\2\0"])
    assert found == [f"schema {other} is JSON, and its reader's schema is AVRO", {"a": 1, "gone": ""}]


def test_an_unknown_schema_is_requested_once(registry: MemoryRegistry) -> None:
    registry.put("t-value", V1)
    columns = columns_of(registry, "t-value")
    for _ in range(3):
        assert rows(columns, [id_prefix(9) + b"x", id_prefix(9) + b"y"]) == ["Schema 9 not found"] * 2
    assert registry.targets.count("GET /schemas/ids/9") == 1


def test_a_silent_registry_is_an_error_of_all_values(registry: MemoryRegistry) -> None:
    registry.put("t-value", V1)
    columns = columns_of(registry, "t-value")
    registry.failures.append((503, {}, b""))
    with pytest.raises(RegistryError):
        columns.decode(pa.array([id_prefix(1) + b"\2\0"], pa.binary()))
    assert rows(columns, [id_prefix(1) + b"\2\0"]) == [{"a": 1, "gone": ""}], "it is requested again"


@pytest.mark.parametrize(
    ("kind", "text", "row"),
    [
        (
            "AVRO",
            (
                '{"type":"record","name":"R","fields":[{"name":"u","type":["int","string"]},'
                '{"name":"m","type":{"type":"map","values":"int"}}]}'
            ),
            {"u": {"int": None, "string": "x"}, "m": [("k", 1)]},
        ),
        ("PROTOBUF", P2, {"z": True}),
        ("JSON", J1, {"a": 1, "s": "x"}),
    ],
)
def test_rows_of_columns_are_encoded(registry: MemoryRegistry, kind: str, text: str, row: Any) -> None:
    schema = LoadedSchema(SchemaType(kind), text)
    raw = id_prefix(registry.put("t", text, kind)) + (b"\0" if kind == "PROTOBUF" else b"")
    assert rows(columns_of(registry, "t"), [raw + row_encoder(schema)(row)]) == [row]


@pytest.mark.parametrize("values", [[], [None, None]])
def test_columns_without_values(registry: MemoryRegistry, values: list[bytes | None]) -> None:
    registry.put("t-value", V1)
    assert rows(columns_of(registry, "t-value"), values) == values


def test_slices_and_large_arrays_are_decoded(registry: MemoryRegistry) -> None:
    number = registry.put("t-value", V1)
    value = id_prefix(number) + encode("AVRO", V1, {"a": 7, "gone": ""})
    array = pa.array([b"not this", value, None, value], pa.large_binary()).slice(1)
    decoded = columns_of(registry, "t-value").decode(array)
    assert [row and row["a"] for row in decoded.values.to_pylist()] == [7, None, 7]


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(FormatError, match="has no columns"):
        column_type(LoadedSchema(SchemaType.JSON, '{"type":"string"}'))
