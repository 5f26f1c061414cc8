"""The converters whose schemas are in a registry: subjects, versions, settings and errors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest

from kcli.config.definition import ConfigError
from kcli.formats.connect.avro.converter import AvroConverter
from kcli.formats.connect.converter import NULL, SchemaAndValue
from kcli.formats.connect.errors import DataException, RetriableException, java_chain
from kcli.formats.connect.json_typed.converter import JsonSchemaConverter
from kcli.formats.connect.protobuf.converter import ProtobufConverter
from kcli.formats.connect.registry_converter import RegistryConverter
from kcli.formats.connect.schema import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from rigs.schema_registry import MemoryRegistry, memory_registry

ORDER = struct_schema({"id": INT32_SCHEMA, "note": OPTIONAL_STRING_SCHEMA}, name="shop.Order")
VALUE = Struct(ORDER, {"id": 1, "note": "x"})


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as memory:
        yield memory


def converter(
    registry: MemoryRegistry,
    kind: type[RegistryConverter] = AvroConverter,
    *,
    is_key: bool = False,
    **config: str,
) -> RegistryConverter:
    made = kind()
    keys = {name.replace("_", "."): text for name, text in config.items()}
    made.configure({"schema.registry.url": registry.url, **keys}, is_key=is_key)
    return made


def prefix_of(number: int) -> bytes:
    return struct.pack(">bI", 0, number)


def avro(fields: list[dict[str, object]]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def test_a_schema_is_registered_once_for_each_topic(registry: MemoryRegistry) -> None:
    avro_converter = converter(registry)
    first = avro_converter.from_connect("orders", ORDER, VALUE)
    assert first == avro_converter.from_connect("orders", ORDER, VALUE) == prefix_of(1) + b"\2\2\2x"
    assert [*registry.subjects] == ["orders-value"]
    calls = len(registry.calls)
    avro_converter.from_connect("orders", ORDER, VALUE)
    assert len(registry.calls) == calls
    assert converter(registry, is_key=True).from_connect("orders", INT64_SCHEMA, 3) == prefix_of(2) + b"\6"
    assert [*registry.subjects] == ["orders-value", "orders-key"]


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_a_value_is_read_with_the_version_of_its_subject(
    registry: MemoryRegistry, kind: type[RegistryConverter]
) -> None:
    avro_converter = converter(registry, kind)
    for topic in ("orders", "other"):
        data = avro_converter.from_connect(topic, ORDER, VALUE)
        schema, value = avro_converter.to_connect(topic, data)
        assert isinstance(schema, Schema) and isinstance(value, Struct)
        assert (schema.version, value.values) == (1, VALUE.values)
    calls = len(registry.calls)
    assert avro_converter.to_connect("orders", data).value == value
    assert len(registry.calls) == calls


def test_a_copied_topic_is_read_without_a_version(registry: MemoryRegistry) -> None:
    data = converter(registry).from_connect("orders", ORDER, VALUE)
    schema, _ = converter(registry).to_connect("copy.of.orders", data)
    assert isinstance(schema, Schema) and schema.version is None


def test_a_null_has_no_bytes_and_registers_nothing(registry: MemoryRegistry) -> None:
    avro_converter = converter(registry)
    for schema in (None, OPTIONAL_STRING_SCHEMA):
        assert avro_converter.from_connect("t", schema, None) is None
    assert avro_converter.to_connect("t", None) == NULL == SchemaAndValue(None, None)
    with pytest.raises(DataException, match="Found null value for non-optional schema"):
        avro_converter.from_connect("t", STRING_SCHEMA, None)
    assert not registry.subjects


def test_protobuf_has_no_bytes_for_any_null(registry: MemoryRegistry) -> None:
    assert converter(registry, ProtobufConverter).from_connect("t", STRING_SCHEMA, None) is None
    with pytest.raises(DataException, match="values without a schema"):
        converter(registry, ProtobufConverter).from_connect("t", None, "x")


def test_a_message_of_any_path_is_read(registry: MemoryRegistry) -> None:
    registry.put("t-value", 'syntax = "proto3";\nmessage A {}\nmessage B { int32 n = 1; }\n', "PROTOBUF")
    _, value = converter(registry, ProtobufConverter).to_connect("t", prefix_of(1) + b"\2\2\x08\5")
    assert isinstance(value, Struct) and value.values == [5]
    for broken in (b"\2\6\x08\5", b"\2\2\x08", b""):
        with pytest.raises(DataException, match="Failed to deserialize data for topic t to Protobuf:"):
            converter(registry, ProtobufConverter).to_connect("t", prefix_of(1) + broken)


def test_the_subject_may_be_the_name_of_the_record(registry: MemoryRegistry) -> None:
    strategy = {
        "value_subject_name_strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    }
    avro_converter = converter(registry, **strategy)
    data = avro_converter.from_connect("orders", ORDER, VALUE)
    assert [*registry.subjects] == ["orders-shop.Order"]
    schema, _ = avro_converter.to_connect("orders", data)
    assert isinstance(schema, Schema) and schema.version == 1


def test_the_latest_version_writes_the_values(registry: MemoryRegistry) -> None:
    registry.put("orders-value", avro([{"name": "id", "type": "long"}, {"name": "new", "type": "int", "default": 9},
                                       {"name": "note", "type": ["null", "string"]}]))  # fmt: skip
    config = {"use_latest_version": "true", "auto_register_schemas": "false"}
    avro_converter = converter(registry, **config)
    data = avro_converter.from_connect("orders", ORDER, VALUE)
    assert data == prefix_of(1) + b"\2\x12\2\2x"
    _, value = avro_converter.to_connect("orders", data)
    assert isinstance(value, Struct) and value.values == [1, 9, "x"]
    assert len(registry.subjects["orders-value"]) == 1


def test_values_are_read_as_those_of_the_latest_version(registry: MemoryRegistry) -> None:
    data = converter(registry).from_connect("orders", ORDER, VALUE)
    registry.put(
        "orders-value", avro([{"name": "note", "type": ["null", "string"]}, {"name": "id", "type": "long"}])
    )
    _, value = converter(registry, use_latest_version="true", auto_register_schemas="false").to_connect(
        "orders", data
    )
    assert isinstance(value, Struct) and value.values == ["x", 1]


def test_a_latest_version_that_cannot_read_the_values_is_refused(registry: MemoryRegistry) -> None:
    registry.put("orders-value", avro([{"name": "id", "type": "string"}]))
    config = {"use_latest_version": "true", "auto_register_schemas": "false"}
    with pytest.raises(DataException, match="Failed to serialize Avro data from topic orders:") as caught:
        converter(registry, **config).from_connect("orders", ORDER, VALUE)
    assert "cannot read values of the own schema" in java_chain(caught.value)[1][1]


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_schema_is_chosen_by_its_id(registry: MemoryRegistry, strict: str) -> None:
    number = registry.put("any", avro([{"name": "id", "type": "int"}, {"name": "more", "type": "int"}]))
    config = {
        "use_schema_id": str(number),
        "auto_register_schemas": "false",
        "id_compatibility_strict": strict,
    }
    with pytest.raises(DataException) as caught:
        converter(registry, **config).from_connect("orders", ORDER, VALUE)
    is_checked = "cannot read values" in " ".join(text for _, text in java_chain(caught.value))
    assert is_checked == (strict == "true")


def test_a_schema_is_looked_up_without_registration(registry: MemoryRegistry) -> None:
    data = converter(registry).from_connect("orders", ORDER, VALUE)
    avro_converter = converter(registry, auto_register_schemas="false", normalize_schemas="true")
    assert avro_converter.from_connect("orders", ORDER, VALUE) == data
    with pytest.raises(DataException, match="Failed to serialize Avro data from topic orders:"):
        avro_converter.from_connect("orders", INT32_SCHEMA, 1)


# Errors


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\5\0\0\0\1", b"{}"])
def test_bytes_without_the_id_of_a_schema_are_refused(registry: MemoryRegistry, data: bytes) -> None:
    with pytest.raises(DataException, match="Failed to deserialize data for topic t to Avro:") as caught:
        converter(registry).to_connect("t", data)
    chain = java_chain(caught.value)
    assert chain[1][0] == "org.apache.kafka.common.errors.SerializationException"
    assert chain[1][1].startswith("Unknown magic byte!")


def test_bytes_that_do_not_fit_the_schema_are_refused(registry: MemoryRegistry) -> None:
    avro_converter = converter(registry)
    data = avro_converter.from_connect("t", ORDER, VALUE)
    assert data is not None
    for broken in (data[:-1], data + b"\0", data[:5]):
        with pytest.raises(DataException, match="Failed to deserialize data for topic t to Avro:"):
            avro_converter.to_connect("t", broken)


def test_an_unknown_id_is_refused(registry: MemoryRegistry) -> None:
    with pytest.raises(DataException, match="Failed to deserialize data for topic t to Avro:"):
        converter(registry).to_connect("t", prefix_of(77) + b"\2")


def test_a_silent_registry_may_be_tried_again() -> None:
    avro_converter = AvroConverter()
    config = {"schema.registry.url": "http://127.0.0.1:9", "max.retries": "0"}
    avro_converter.configure(config, is_key=False)
    with pytest.raises(RetriableException, match="Failed to serialize Avro data from topic t:"):
        avro_converter.from_connect("t", ORDER, VALUE)
    with pytest.raises(RetriableException, match="Failed to deserialize data for topic t to Avro:"):
        avro_converter.to_connect("t", prefix_of(1))


def test_a_refused_login_is_an_error_of_the_configuration(registry: MemoryRegistry) -> None:
    registry.failures.append((401, {}, json.dumps({"error_code": 401, "message": "Unauthorized"}).encode()))
    with pytest.raises(ConfigError, match="Failed to access Avro data from topic t : Unauthorized"):
        converter(registry, max_retries="0").from_connect("t", ORDER, VALUE)


@pytest.mark.parametrize(
    ("key", "text"),
    [("context.name.strategy", "a.Mine"), ("use.schema.guid", "x"), ("schema.backup.enabled", "true")],
)
def test_a_setting_that_kcli_cannot_obey_is_refused(registry: MemoryRegistry, key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        converter(registry, **{key: text})


def test_a_setting_without_an_effect_is_logged(
    registry: MemoryRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    converter(registry, max_schemas_per_subject="5")
    assert "max.schemas.per.subject has no effect" in caplog.text


def test_wrong_settings_are_refused(registry: MemoryRegistry) -> None:
    for config in (
        {"connect.meta.data": "maybe"},
        {"schemas.cache.config": "-1"},
        {"value.schema.id.serializer": "HeaderSchemaIdSerializer"},
        {"value.subject.name.strategy": "Mine"},
        {"schema.registry.url": "nowhere"},
    ):
        with pytest.raises(ConfigError):
            converter(registry, **config)
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        AvroConverter().configure({}, is_key=False)


def test_the_memory_of_schemas_is_bounded(registry: MemoryRegistry) -> None:
    avro_converter = converter(registry, schemas_cache_config="1")
    data = [
        avro_converter.from_connect("t", schema, 1) for schema in (INT32_SCHEMA, INT64_SCHEMA, INT32_SCHEMA)
    ]
    assert data[0] == data[2] != data[1]
    for raw in data:
        assert avro_converter.to_connect("t", raw).value == 1
