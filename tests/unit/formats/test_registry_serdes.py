"""Serializers and deserializers of the three formats, judged by those of confluent-kafka."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import json
import pickle
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from kcli.formats.codec import FormatError, Value
from kcli.formats.protobuf.language import ProtobufSchema
from kcli.formats.protobuf.messages import message_type
from kcli.formats.registry import unused_keys
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.deserializer import Deserializer
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.errors import RegistryError, RegistryRefused
from kcli.formats.registry.expiring import Expiring
from kcli.formats.registry.framing import UnknownMagicByte
from kcli.formats.registry.payloads import (
    json_decode,
    json_encoder,
    record_name,
    value_decode,
    value_encoder,
)
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import (
    SERDE_KEYS,
    SerdeSettings,
    is_registry_key,
    unused_registry_keys,
)
from kcli.formats.registry.serializer import Serializer
from kcli.formats.registry.settings import CLIENT_KEYS, RegistrySettings
from kcli.formats.schemas import SchemaReference, SchemaType
from rigs.schema_registry import MemoryRegistry, memory_registry

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string", "int"], "default": None},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        ],
    }
)
VALUE: dict[str, Value] = {
    "id": 7,
    "note": "quick",
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC),
    "price": decimal.Decimal("12.50"),
    "tags": {"a": [1, 2], "b": []},
}
JSON_SCHEMA = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id"],
    }
)
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  repeated string tags = 2;
  google.protobuf.Timestamp at = 3;
  message Line { string item = 1; int32 count = 2; }
  repeated Line lines = 4;
}
message Other { string name = 1; }
"""


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with memory_registry() as registry:
        yield registry


def schemas_of(registry: MemoryRegistry) -> Schemas:
    return Schemas(
        RegistryClient(RegistrySettings.of({"schema.registry.url": registry.url, "max.retries": "0"}))
    )


def serde_settings(**properties: str) -> SerdeSettings:
    return SerdeSettings.of({name.replace("_", "."): text for name, text in properties.items()})


def serializer(
    registry: MemoryRegistry, text: str, kind: str, message: str | None = None, **properties: str
) -> Serializer[Value]:
    return Serializer(
        schemas_of(registry),
        serde_settings(**properties),
        lambda schema: value_encoder(schema, message),
        own=SchemaDefinition(text, kind),
        record_name=lambda schema: record_name(schema, message),
    )


def deserializer(registry: MemoryRegistry, **properties: str) -> Deserializer[Value]:
    return Deserializer(
        schemas_of(registry), serde_settings(**properties), value_decode, record_name=record_name
    )


def judge_client(registry: MemoryRegistry) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": registry.url})


def judge_context() -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext("orders", MessageField.VALUE, [])


def judge_conf(place: str, part: str) -> dict[str, Any]:
    """The settings of the judge for the header form."""
    from confluent_kafka import schema_registry

    return {f"schema.id.{part}": getattr(schema_registry, f"{place}_schema_id_{part}")}


def test_avro_values_are_the_same_for_the_judge(registry: MemoryRegistry) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    raw, headers = serializer(registry, ORDER, "AVRO").serialize("orders", VALUE)
    assert not headers
    assert AvroDeserializer(judge_client(registry))(raw, judge_context()) == VALUE
    theirs = AvroSerializer(judge_client(registry), ORDER)(VALUE, judge_context())
    assert theirs == raw
    assert deserializer(registry).deserialize("orders", theirs) == VALUE
    assert list(registry.subjects) == ["orders-value"], "both chose one subject and one schema"


def test_json_values_are_the_same_for_the_judge(registry: MemoryRegistry) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    value: Value = {"id": 1, "name": "ä"}
    raw, _ = serializer(registry, JSON_SCHEMA, "JSON").serialize("orders", value)
    assert JSONDeserializer(JSON_SCHEMA)(raw, judge_context()) == value
    theirs = JSONSerializer(JSON_SCHEMA, judge_client(registry))(value, judge_context())
    assert deserializer(registry).deserialize("orders", theirs) == value
    assert len(registry.subjects["orders-value"]) == 1


def value_class(schema: LoadedSchema, name: str) -> Any:
    """The class of a message, as the judge takes it."""
    parsed = schema.parsed
    assert isinstance(parsed, ProtobufSchema)
    return message_type(parsed, name)


MESSAGES: list[tuple[str, Value]] = [
    (
        "shop.Order",
        {
            "id": 7,
            "tags": ["a", "b"],
            "at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
            "lines": [{"item": "x", "count": 2}],
        },
    ),
    ("shop.Order.Line", {"item": "y", "count": 3}),
    ("shop.Other", {"name": "z"}),
]


@pytest.mark.parametrize("place", ["prefix", "header"])
@pytest.mark.parametrize(("name", "value"), MESSAGES)
def test_protobuf_values_are_the_same_for_the_judge(
    registry: MemoryRegistry, name: str, value: Value, place: str
) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    made = value_class(LoadedSchema(SchemaType.PROTOBUF, PROTO), name)
    properties = {"value_schema_id_serializer": f"{place.title()}SchemaIdSerializer"}
    raw, headers = serializer(registry, PROTO, "PROTOBUF", name, **properties).serialize("orders", value)
    assert raw is not None and len(headers) == (place == "header")
    context = judge_context()
    context.headers.extend(headers)
    client = judge_client(registry)
    read = ProtobufDeserializer(made, {**judge_conf("dual", "deserializer")}, client)(raw, context)
    assert read == made.FromString(raw[raw.rindex(read.SerializeToString()) :])
    context = judge_context()
    theirs = ProtobufSerializer(made, client, judge_conf(place, "serializer"))(read, context)
    mine = deserializer(registry)
    assert mine.deserialize("orders", theirs, context.headers) == value


def test_the_header_form_of_avro_and_json(registry: MemoryRegistry) -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer

    form = {"value_schema_id_serializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"}
    raw, headers = serializer(registry, ORDER, "AVRO", **form).serialize("orders", VALUE)
    context = judge_context()
    context.headers.extend(headers)
    assert (
        AvroDeserializer(judge_client(registry), conf=judge_conf("dual", "deserializer"))(raw, context)
        == VALUE
    )
    context = judge_context()
    conf = {**judge_conf("header", "serializer"), "auto.register.schemas": True}
    theirs = AvroSerializer(judge_client(registry), ORDER, conf=conf)(VALUE, context)
    assert theirs == raw and context.headers == list(headers)
    assert deserializer(registry).deserialize("orders", theirs, context.headers) == VALUE
    with pytest.raises(UnknownMagicByte):
        deserializer(registry).deserialize("orders", theirs)
    raw, headers = serializer(registry, JSON_SCHEMA, "JSON", **form).serialize("json", {"id": 1})
    context = judge_context()
    context.headers.extend(headers)
    judge = JSONDeserializer(JSON_SCHEMA, conf=judge_conf("dual", "deserializer"))
    assert raw == b'{"id":1}' and judge(raw, context) == {"id": 1}


LINE_TYPE = '{"type":"record","name":"Line","namespace":"shop","fields":[{"name":"item","type":"string"}]}'
BASKET = (
    '{"type":"record","name":"Basket","namespace":"shop","fields":'
    '[{"name":"lines","type":{"type":"array","items":"shop.Line"}}]}'
)


def test_references_of_the_three_languages(registry: MemoryRegistry) -> None:
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry import SchemaReference as JudgeReference
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    registry.put("lines", LINE_TYPE)
    own = SchemaDefinition(BASKET, "AVRO", (SchemaReference("shop.Line", "lines", 1),))
    mine = Serializer(schemas_of(registry), serde_settings(), value_encoder, own=own)
    value: Value = {"lines": [{"item": "a"}]}
    raw, _ = mine.serialize("orders", value)
    assert AvroDeserializer(judge_client(registry))(raw, judge_context()) == value
    judge = Schema(BASKET, "AVRO", [JudgeReference("shop.Line", "lines", 1)])
    assert AvroSerializer(judge_client(registry), judge)(value, judge_context()) == raw
    assert deserializer(registry).deserialize("orders", raw) == value

    registry.put(
        "line.proto", 'syntax = "proto3"; package shop; message Line { string item = 1; }', "PROTOBUF"
    )
    text = 'syntax = "proto3"; package shop; import "line.proto"; message Basket { repeated Line lines = 1; }'
    own = SchemaDefinition(text, "PROTOBUF", (SchemaReference("line.proto", "line.proto", 1),))
    mine = Serializer(schemas_of(registry), serde_settings(), value_encoder, own=own)
    raw, _ = mine.serialize("baskets", value)
    assert deserializer(registry).deserialize("baskets", raw) == value


def test_the_judge_registers_the_imports_of_a_message(registry: MemoryRegistry) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    line = LoadedSchema(
        SchemaType.PROTOBUF, 'syntax = "proto3"; package shop; message Line { string item = 1; }'
    )
    text = 'syntax = "proto3"; package shop; import "line.proto"; message Basket { repeated Line lines = 1; }'
    basket = LoadedSchema(SchemaType.PROTOBUF, text, resolved={"line.proto": line.text})
    made = value_class(basket, "shop.Basket")
    message = made()
    message.lines.add(item="a")
    theirs = ProtobufSerializer(made, judge_client(registry))(message, judge_context())
    assert deserializer(registry).deserialize("orders", theirs) == {"lines": [{"item": "a"}]}
    assert "line.proto" in registry.subjects


V1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
V2 = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"long"},'
    '{"name":"b","type":"string","default":"new"}]}'
)
V3 = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


def test_a_reader_sees_every_value_in_the_latest_version(registry: MemoryRegistry) -> None:
    old, _ = serializer(registry, V1, "AVRO").serialize("t", {"a": 1})
    new, _ = serializer(registry, V2, "AVRO").serialize("t", {"a": 2, "b": "x"})
    mine = deserializer(registry, use_latest_version="true")
    assert [mine.deserialize("t", raw) for raw in (old, new)] == [{"a": 1, "b": "new"}, {"a": 2, "b": "x"}]
    assert deserializer(registry).deserialize("t", old) == {"a": 1}
    given = LoadedSchema(SchemaType.AVRO, V1)
    back = Deserializer(schemas_of(registry), serde_settings(), value_decode, reader=given)
    assert back.deserialize("t", old) == {"a": 1}
    with pytest.raises(FormatError, match="long cannot be read as int"):
        back.deserialize("t", new)
    with pytest.raises(FormatError, match="is JSON, expected AVRO"):
        other = LoadedSchema(SchemaType.JSON, "{}")
        Deserializer(schemas_of(registry), serde_settings(), value_decode, reader=other).deserialize("t", old)


def test_a_protobuf_reader_finds_its_message_by_name(registry: MemoryRegistry) -> None:
    old = 'syntax = "proto3"; package p; message A { int32 x = 1; } message B { string y = 1; }'
    new = 'syntax = "proto3"; package p; message B { string y = 1; bool z = 2; } message A { int32 x = 1; }'
    raw, _ = serializer(registry, old, "PROTOBUF", "p.B").serialize("t", {"y": "v"})
    serializer(registry, new, "PROTOBUF").serialize("t", {"y": "w"})
    assert deserializer(registry, use_latest_version="true").deserialize("t", raw) == {"y": "v", "z": False}
    assert deserializer(registry).deserialize("t", raw) == {"y": "v"}


def test_a_schema_is_looked_up_or_chosen_by_its_id_or_as_the_latest(registry: MemoryRegistry) -> None:
    with pytest.raises(RegistryRefused, match="Schema not found"):
        serializer(registry, V1, "AVRO", auto_register_schemas="false").serialize("t", {"a": 1})
    first, second = registry.put("t-value", V1), registry.put("t-value", V2)
    raw, _ = serializer(registry, V1, "AVRO", auto_register_schemas="false").serialize("t", {"a": 1})
    assert raw == b"\0" + first.to_bytes(4, "big") + b"\2"
    raw, _ = serializer(registry, V1, "AVRO", use_latest_version="true").serialize("t", {"a": 1})
    assert raw == b"\0" + second.to_bytes(4, "big") + b"\2" + b"\6new", "the default fills the new field"
    raw, _ = serializer(registry, V1, "AVRO", use_schema_id=str(second)).serialize("u", {"a": 1})
    assert raw is not None and raw.startswith(b"\0" + second.to_bytes(4, "big"))
    bare = Serializer(schemas_of(registry), serde_settings(), value_encoder, subject="t-value")
    assert bare.serialize("anything", {"a": 1, "b": "x"})[0] == b"\0" + second.to_bytes(4, "big") + b"\2\2x"
    assert not [target for target in registry.targets if target.startswith("POST /subjects/t-value/versions")]


def test_the_latest_version_may_be_chosen_by_its_metadata(registry: MemoryRegistry) -> None:
    for text, release in ((V1, "1"), (V2, "1"), (V3, "2")):
        metadata = {"properties": {"release": release, "team": "a"}}
        registry.register("t-value", {"schema": text, "metadata": metadata})
    chosen = {"use.latest.with.metadata": "release=1, team=a", "auto.register.schemas": "false"}
    settings = SerdeSettings.of(chosen)
    made = Serializer(schemas_of(registry), settings, value_encoder, own=SchemaDefinition(V1, "AVRO"))
    raw, _ = made.serialize("t", {"a": 1})
    assert raw == b"\0\0\0\0\2\2\6new"
    mine = Deserializer(schemas_of(registry), settings, value_decode)
    assert mine.deserialize("t", b"\0\0\0\0\1\2") == {"a": 1, "b": "new"}
    none = SerdeSettings.of({"use.latest.with.metadata": "release=3"})
    with pytest.raises(RegistryRefused, match="not found"):
        Serializer(schemas_of(registry), none, value_encoder).serialize("t", {"a": 1})


def test_an_id_has_its_own_check_of_compatibility(registry: MemoryRegistry) -> None:
    number = str(registry.put("t-value", V3))
    with pytest.raises(FormatError, match="cannot read values of the own schema"):
        serializer(registry, V1, "AVRO", use_schema_id=number, latest_compatibility_strict="false").serialize(
            "t", {"a": 1}
        )
    loose = serializer(registry, V1, "AVRO", use_schema_id=number, id_compatibility_strict="false")
    assert loose.serialize("t", {"a": "x"})[0] == b"\0\0\0\0\1\2x"


def test_tags_of_the_version_before_are_kept_on_request(registry: MemoryRegistry) -> None:
    for tags in ("true", "false"):
        serializer(registry, V1, "AVRO", propagate_schema_tags=tags).serialize("t", {"a": 1})
    bodies = [call.body for call in registry.calls if call.method == "POST"]
    assert [body.get("propagateSchemaTags") for body in bodies] == [True, None]


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({"mode": "WRITEREAD"}, True),
        ({"mode": "WRITE", "kind": "CONDITION", "type": "CEL"}, True),
        ({"mode": "READ"}, False),
        ({"mode": "WRITE", "disabled": True}, False),
    ],
)
@pytest.mark.parametrize("rules", ["domainRules", "encodingRules"])
def test_a_value_that_a_rule_must_change_is_not_written(
    registry: MemoryRegistry, rules: str, changes: dict[str, Any], is_refused: bool
) -> None:
    rule = {"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT", **changes}
    registry.register("t-value", {"schema": V1, "schemaType": "AVRO", "ruleSet": {rules: [rule]}})
    for settings in ({"use_latest_version": "true"}, {"use_schema_id": "1"}):
        writer = serializer(registry, V1, "AVRO", **settings)
        if is_refused:
            with pytest.raises(FormatError, match=r"schema 1 has the rule hide .* kcli executes no rules"):
                writer.serialize("t", {"a": 1})
        else:
            assert writer.serialize("t", {"a": 1})[0] is not None


CONFLUENTS_KEYS = """
auto.register.schemas context.name.strategy execution.environment id.compatibility.strict key.schema.id.deserializer
key.schema.id.serializer key.subject.name.strategy latest.cache.size latest.compatibility.strict
max.schemas.per.subject normalize.schemas propagate.schema.tags rule.actions rule.executors rule.metrics.enable
rule.service.loader.enable schema.format schema.reflection schema.registry.url schema.registry.url.randomize
use.latest.version use.latest.with.metadata use.schema.guid use.schema.id validation.rules.executor.class
validation.rules.fail.fast value.schema.id.deserializer value.schema.id.serializer value.subject.name.strategy
basic.auth.credentials.source basic.auth.user.info bearer.auth.cache.expiry.buffer.seconds bearer.auth.client.id
bearer.auth.client.secret bearer.auth.credentials.source bearer.auth.custom.provider.class
bearer.auth.identity.pool.id bearer.auth.issuer.endpoint.url bearer.auth.logical.cluster bearer.auth.scope
bearer.auth.scope.claim.name bearer.auth.sub.claim.name bearer.auth.token bearer.auth.uami.endpoint.query
bearer.auth.uami.endpoint.url http.connect.timeout.ms http.read.timeout.ms latest.cache.ttl.sec max.retries
missing.cache.size missing.id.cache.ttl.sec missing.schema.cache.ttl.sec missing.version.cache.ttl.sec proxy.host
proxy.port retries.max.wait.ms retries.wait.ms url.randomize use.apache.http.client avro.reflection.allow.null
avro.remove.java.properties avro.use.logical.type.converters validation.rules.execution avro.fail.on.trailing.data
specific.avro.key.type specific.avro.reader specific.avro.value.type reference.lookup.only
reference.subject.name.strategy skip.known.types derive.type specific.protobuf.key.type specific.protobuf.value.type
json.default.property.inclusion json.envelope.detection json.fail.invalid.schema json.fail.unknown.properties
json.indent.output json.oneof.for.nullables json.schema.scan.packages json.schema.spec.version
json.validate.before.domain.rules json.write.dates.iso8601 json.key.type json.type.allowed.packages json.value.type
type.property
"""
"""The keys of Confluent's serializers and clients in Java, 8.1."""


def test_every_key_of_confluents_serializers_has_a_meaning() -> None:
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    classes = (AvroDeserializer, AvroSerializer, JSONDeserializer, JSONSerializer)
    keys = set(CONFLUENTS_KEYS.split())
    for made in (*classes, ProtobufDeserializer, ProtobufSerializer):
        keys |= set(made._default_conf)
    assert [key for key in sorted(keys) if not is_registry_key(key)] == []
    used = {*CLIENT_KEYS, *SERDE_KEYS}
    assert not used & {*unused_keys.CLIENT, *unused_keys.SERDE}, "a key has one meaning"


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("skip.known.types", "false", "kcli registers no schemas of google.protobuf"),
        (
            "reference.subject.name.strategy",
            "io.x.DefaultReferenceSubjectNameStrategy",
            "name them in value.refs",
        ),
        ("specific.avro.reader", "true", "kcli makes no Java objects"),
        ("schema.registry.url.randomize", "true", "in their order"),
    ],
)
def test_a_key_without_effect_is_named(key: str, text: str, reason: str) -> None:
    (sentence,) = unused_registry_keys({"group.id": "g", "auto.register.schemas": "true", key: text})
    assert sentence.startswith(f"{key} has no effect: ") and reason in sentence
    SerdeSettings.of({key: text})


def test_a_key_that_asks_for_what_kcli_does_has_no_warning() -> None:
    properties = {
        "skip.known.types": "true",
        "specific.avro.reader": "False",
        "url.randomize": "false",
        "value.schema.id.deserializer": "io.confluent.DualSchemaIdDeserializer",
        "context.name.strategy": "io.confluent.NullContextNameStrategy",
        "use.deprecated.format": "false",
        "validation.rules.execution": "DISABLED",
    }
    assert unused_registry_keys(properties) == []
    assert SerdeSettings.of(properties) == SerdeSettings()


def test_a_latest_version_that_cannot_read_the_own_schema_is_refused(registry: MemoryRegistry) -> None:
    registry.put("t-value", V3)
    with pytest.raises(FormatError, match=r"schema 1 cannot read values of the own schema: .*INT"):
        serializer(registry, V1, "AVRO", use_latest_version="true").serialize("t", {"a": 1})
    registry.put("t-value", JSON_SCHEMA, "JSON")
    with pytest.raises(FormatError, match="schema 2 is JSON, and the own schema is AVRO"):
        serializer(registry, V1, "AVRO", use_latest_version="true").serialize("t", {"a": 1})
    loose = {"use_latest_version": "true", "latest_compatibility_strict": "false"}
    assert serializer(registry, V1, "AVRO", **loose).serialize("t", {"a": 1})[0] == b'\0\0\0\0\2{"a":1}'


@pytest.mark.parametrize(
    ("text", "kind", "message", "name"),
    [
        (ORDER, "AVRO", None, "shop.Order"),
        (JSON_SCHEMA, "JSON", None, "Order"),
        (PROTO, "PROTOBUF", None, "shop.Order"),
        (PROTO, "PROTOBUF", "shop.Other", "shop.Other"),
    ],
)
def test_the_record_name_is_the_subject(
    registry: MemoryRegistry, text: str, kind: str, message: str | None, name: str
) -> None:
    for key, strategy, subject in (
        ("value_subject_name_strategy", "RecordNameStrategy", name),
        ("value_subject_name_strategy", "TopicRecordNameStrategy", f"t-{name}"),
        ("subject_name_strategy_type", "RECORD", name),
    ):
        registry.subjects.clear()
        properties = {key: strategy}
        asyncio.run(serializer(registry, text, kind, message, **properties).prepare("t"))
        assert subject in registry.subjects


def test_a_tombstone_stays_null_without_a_request(registry: MemoryRegistry) -> None:
    assert serializer(registry, V1, "AVRO").serialize("t", None) == (None, ())
    assert deserializer(registry).deserialize("t", None) is None
    assert registry.calls == []


def test_a_schema_is_requested_once(registry: MemoryRegistry) -> None:
    made = serializer(registry, V1, "AVRO")
    raws = [made.serialize("t", {"a": number})[0] for number in range(5)]
    mine = deserializer(registry)
    calls = len(registry.calls)
    assert [mine.deserialize("t", raw) for raw in raws] == [{"a": number} for number in range(5)]
    assert registry.targets[calls:] == [
        "GET /associations/resources/-/t?resourceType=topic&associationType=value",
        "GET /schemas/ids/1?subject=t-value",
    ]


def test_the_latest_version_is_requested_again_after_a_time(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("kcli.formats.registry.expiring.time.monotonic", lambda: now)
    registry.put("t-value", V1)
    mine = serializer(registry, V1, "AVRO", use_latest_version="true", latest_cache_ttl_sec="10")
    assert mine.serialize("t", {"a": 1})[0] == b"\0\0\0\0\1\2"
    registry.put("t-value", V2)
    assert mine.serialize("t", {"a": 1})[0] == b"\0\0\0\0\1\2"
    now = 10.0
    assert mine.serialize("t", {"a": 1})[0] == b"\0\0\0\0\2\2\6new"


def test_a_full_memory_is_emptied() -> None:
    memory: Expiring[int, int] = Expiring(float("inf"), 2)
    for number in range(5):
        memory.put(number, number)
    assert [number for number in range(5) if memory.get(number) is not None] == [4]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"a": 1}', r"Unknown magic byte! The value has no registry prefix: it begins with 0x7b \(JSON\)"),
        (b"\0\0\0\0\1", "does not fit schema 1: the value ends too early"),
        (b"\0\0\0\0\1\2\2", "does not fit schema 1: 1 bytes are left over"),
        (b"\0\0\0\0\2nonsense", "does not fit schema 2: no valid JSON"),
        (b"\0\0\0\0\2" + b"[" * 100_000, "does not fit schema 2: "),
        (b"\0\0\0\0\3", "the value ends inside the path of its message type"),
        (b"\0\0\0\0\3\2\x10", r"the schema has no message with the indexes \[8\]"),
        (b"\0\0\0\0\3\0\xff\xff", "does not fit schema 3: "),
    ],
)
def test_values_that_cannot_be_read_are_errors_in_one_line(
    registry: MemoryRegistry, raw: bytes, reason: str
) -> None:
    for text, kind in ((V1, "AVRO"), (JSON_SCHEMA, "JSON"), (PROTO, "PROTOBUF")):
        registry.put(kind, text, kind)
    with pytest.raises(FormatError, match=reason) as wrong:
        deserializer(registry).deserialize("t", raw)
    assert "\n" not in str(wrong.value)


def test_an_unknown_schema_or_type_is_an_error(registry: MemoryRegistry) -> None:
    with pytest.raises(RegistryError, match="Schema 9 not found"):
        deserializer(registry).deserialize("t", b"\0\0\0\0\x09x")
    registry.put("x", "{}", "XML")
    with pytest.raises(FormatError, match="unknown schema type XML"):
        deserializer(registry).deserialize("t", b"\0\0\0\0\1x")
    registry.put("y", "{", "AVRO")
    with pytest.raises(FormatError, match="schema 2 is invalid: "):
        deserializer(registry).deserialize("t", b"\0\0\0\0\2x")


def test_values_of_another_type_are_not_encoded(registry: MemoryRegistry) -> None:
    for text, kind, value in (
        (V1, "AVRO", {"a": "x"}),
        (V1, "AVRO", {}),
        (PROTO, "PROTOBUF", {"id": "x"}),
        (PROTO, "PROTOBUF", {"nothing": 1}),
        (JSON_SCHEMA, "JSON", {"id": b"bytes"}),
    ):
        with pytest.raises(FormatError, match="the value does not fit schema"):
            serializer(registry, text, kind).serialize("t", value)


JSON_LINES = [
    (
        ORDER,
        "AVRO",
        '{"id":7,"note":{"string":"q"},"at":1767323045678,"price":"\\u0004\\u00E2","tags":{"a":[1]}}',
    ),
    (ORDER, "AVRO", '{"id":7,"note":null,"at":0,"price":"\\u0000","tags":{}}'),
    (JSON_SCHEMA, "JSON", '{"id": 1.50, "name": "ä"}'),
    (
        PROTO,
        "PROTOBUF",
        '{"id":"7","tags":["a"],"at":"2026-01-02T03:04:05Z","lines":[{"item":"x","count":2}]}',
    ),
]


@pytest.mark.parametrize(("text", "kind", "line"), JSON_LINES)
def test_lines_of_json_are_read_and_printed(
    registry: MemoryRegistry, text: str, kind: str, line: str
) -> None:
    mine = Serializer(schemas_of(registry), serde_settings(), json_encoder, own=SchemaDefinition(text, kind))
    raw, _ = mine.serialize("t", line)
    back = Deserializer(schemas_of(registry), serde_settings(), json_decode).deserialize("t", raw)
    assert back is not None and json.loads(back) == json.loads(line)
    with pytest.raises(FormatError, match="does not fit schema 1"):
        mine.serialize("t", "{")


def test_json_values_are_validated_if_the_settings_say_so() -> None:
    schema = LoadedSchema(SchemaType.JSON, JSON_SCHEMA)
    assert json_encoder(schema).encode('{"id": "x"}') == b'{"id": "x"}'
    assert value_encoder(schema).encode({"id": "x"}) == b'{"id":"x"}'
    with pytest.raises(ValueError, match="integer"):
        json_encoder(schema, validates=True).encode('{"id": "x"}')
    with pytest.raises(ValueError, match="integer"):
        value_encoder(schema, validates=True).encode({"id": "x"})
    for text in ('{"id": 1} x', '{"id": NaN}', ""):
        with pytest.raises(ValueError):
            json_encoder(schema).encode(text)


def test_json_over_several_lines_becomes_one_line(registry: MemoryRegistry) -> None:
    registry.put("t", "{}", "JSON")
    mine = Deserializer(schemas_of(registry), serde_settings(), json_decode)
    assert mine.deserialize("t", b'\0\0\0\0\1{\n  "a": 1,\r\n  "b": "\xc3\xa4"\n}') == '{"a": 1, "b": "ä"}'


def test_a_header_needs_a_guid(registry: MemoryRegistry) -> None:
    properties = {"value_schema_id_serializer": "HeaderSchemaIdSerializer"}
    made = serializer(registry, V1, "AVRO", **properties)
    asyncio.run(serializer(registry, V1, "AVRO").prepare("t"))
    guid = UUID(registry.subjects["t-value"][0].pop("guid"))
    with pytest.raises(FormatError, match="the schema registry has no guids"):
        made.serialize("t", {"a": 1})
    registry.subjects["t-value"][0]["guid"] = str(guid)
    assert made.serialize("t", {"a": 1}) == (b"\2", (("__value_schema_id", b"\1" + guid.bytes),))


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"value.subject.name.strategy": "x.Mine"}, "unknown subject name strategy"),
        ({"value.subject.name.strategy": "NONE"}, "cannot be NONE"),
        ({"subject.name.strategy.fallback.type": "ASSOCIATED"}, "cannot be ASSOCIATED"),
        ({"value.schema.id.serializer": "x.Mine"}, "expected one of PrefixSchemaIdSerializer"),
        ({"use.schema.id": "-2"}, "at least -1"),
        ({"auto.register.schemas": "maybe"}, "true or false"),
        ({"use.latest.version": "true", "auto.register.schemas": "true"}, "contradicts"),
        ({"use.latest.with.metadata": "a=1", "auto.register.schemas": "true"}, "with.metadata contradicts"),
        ({"use.latest.with.metadata": "a"}, "expected name=value, found a"),
        ({"value.schema.id.deserializer": "x.Mine"}, "looks at the header first"),
        ({"context.name.strategy": "x.Mine"}, "takes the context from the subject"),
        ({"rule.executors": "encrypt"}, "rule.executors: kcli executes no rules"),
        ({"subject.name.strategy": "x"}, "set key.subject.name.strategy or"),
        ({"subject.name.strategy.type": "x"}, "unknown subject name strategy x"),
    ],
)
def test_wrong_settings_are_named(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SerdeSettings.of(properties)


def test_a_loaded_schema_can_be_sent_to_another_process() -> None:
    schema = LoadedSchema(SchemaType.AVRO, V1, id=3)
    assert schema.parsed.canonical == V1
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema and "parsed" not in copy.__dict__ and copy.parsed.canonical == V1


def test_many_values_are_decoded_as_one_by_one(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.formats.registry.deserializer.BULK_MIN", 2)
    monkeypatch.setattr("kcli.formats.registry.payloads.COLUMNS_FROM_VALUES", 0)
    assert (registry.put("t", V1), registry.put("t", V2)) == (1, 2)
    guid = UUID(registry.subjects["t"][0]["guid"])
    old, new = (
        value_encoder(LoadedSchema(SchemaType.AVRO, V1)),
        value_encoder(LoadedSchema(SchemaType.AVRO, V2)),
    )
    values: list[tuple[str, bytes | None, Any]] = [
        ("t", b"\0\0\0\0\1" + old.encode({"a": 1}), None),
        ("t", None, None),
        ("t", b"\0\0\0\0\2" + new.encode({"a": 2, "b": "x"}), []),
        ("u", b"\0\0\0\0\1" + old.encode({"a": 3}), None),
        ("t", b"\0\0\0\0\1" + old.encode({"a": 4}), None),
        ("t", old.encode({"a": 5}), [("__value_schema_id", b"\1" + guid.bytes)]),
        ("t", b"\0\0\0\0\1", None),
        ("t", b"text", None),
        ("t", b"\0\0\0\0\x63x", None),
    ]
    mine = Deserializer(schemas_of(registry), serde_settings(), json_decode)
    found = mine.deserialize_all(values)
    for (topic, raw, headers), result in zip(values, found, strict=True):
        if isinstance(result, Exception):
            with pytest.raises(type(result), match=re.escape(str(result))):
                mine.deserialize(topic, raw, headers)
        else:
            assert result == mine.deserialize(topic, raw, headers)
    assert [isinstance(result, Exception) for result in found] == [False] * 6 + [True] * 3
    registry.failures.append((500, {}, b""))
    with pytest.raises(RegistryError):
        mine.deserialize_all([("t", b"\0\0\0\0\x07x", None)])


def test_many_protobuf_values_are_decoded_as_each_of_them(
    registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("kcli.formats.registry.payloads.COLUMNS_FROM_VALUES", 0)
    monkeypatch.setattr("kcli.formats.registry.deserializer.BULK_MIN", 1)
    text = 'syntax = "proto3"; message A { int64 a = 1; optional string b = 2; } message B { string b = 1; }'
    registry.put("t-value", text, "PROTOBUF")
    guid = UUID(registry.subjects["t-value"][0]["guid"])
    prefix, header = b"\0\0\0\0\1", "__value_schema_id"
    values: list[tuple[str, bytes | None, Any]] = [
        ("t", prefix + b"\0\x08\x05\x12\1<", None),
        ("t", prefix + b"\2\2\x0a\1x", None),
        ("t", prefix + b"\2\0\x08\7", None),
        ("t", prefix + b"\0\x0a\1x", None),
        ("t", prefix, None),
        ("t", b"\x0a\1y", [(header, b"\1" + guid.bytes + b"\2\2")]),
        ("t", b"\0\0", [(header, b"\1" + guid.bytes + b"\0")]),
        ("t", prefix + b"\0\x08", None),
        ("t", prefix + b"\0", None),
    ]
    mine = Deserializer(schemas_of(registry), serde_settings(), json_decode)
    for (topic, raw, headers), result in zip(values, mine.deserialize_all(values), strict=True):
        if isinstance(result, Exception):
            with pytest.raises(type(result), match=re.escape(str(result))):
                mine.deserialize(topic, raw, headers)
        else:
            assert result == mine.deserialize(topic, raw, headers)
    assert mine.deserialize_all(values)[0] == '{"a":"5","b":"\\u003c"}'


def test_a_missing_library_is_named(registry: MemoryRegistry) -> None:
    registry.put("t", V1)

    def make(schema: LoadedSchema, reader: LoadedSchema | None = None) -> Any:
        raise ModuleNotFoundError("no", name="google")

    reading: Deserializer[Any] = Deserializer(schemas_of(registry), serde_settings(), make)
    writing: Serializer[Any] = Serializer(schemas_of(registry), serde_settings(), make, subject="t")
    for work in (lambda: reading.deserialize("t", b"\0\0\0\0\1\2"), lambda: writing.serialize("t", {"a": 1})):
        with pytest.raises(FormatError, match=r"google is missing: pip install 'kcli-streaming\[schemas\]'"):
            work()
