"""The client, the serializers and the deserializers of kcli and of confluent-kafka, on a registry of kcli."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from kcli.formats.codec import Value
from kcli.formats.protobuf.language import ProtobufSchema
from kcli.formats.protobuf.messages import message_type
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.deserializer import Deserializer
from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate, RegisterRequest, SchemaDefinition
from kcli.formats.registry.errors import RegistryRefused
from kcli.formats.registry.payloads import record_name, value_decode, value_encoder
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serde_settings import SerdeSettings
from kcli.formats.registry.serializer import Serializer
from kcli.formats.registry.settings import RegistrySettings
from kcli.formats.schemas import SchemaReference, SchemaType
from rigs.registry_process import RegistryProcess

if TYPE_CHECKING:
    from kcli.testing.broker_process import BrokerProcess

T = TypeVar("T")

AVRO = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"int"},'
    '{"name":"item","type":"string"}]}'
)
AVRO_2 = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"item","type":"string"},{"name":"note","type":["null","string"],"default":null}]}'
)
JSON = (
    '{"type":"object","title":"Order","properties":{"id":{"type":"integer"},"item":{"type":"string"}},'
    '"additionalProperties":false}'
)
PROTO = (
    'syntax = "proto3"; package shop; '
    "message Order { int32 id = 1; string item = 2; message Line { string item = 1; } }"
)
SCHEMAS = (
    ("AVRO", AVRO, None),
    ("JSON", JSON, None),
    ("PROTOBUF", PROTO, None),
    ("PROTOBUF", PROTO, "shop.Order.Line"),
)


@pytest.fixture(scope="module")
def url(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("registry")
    settings = {"kafkastore.topic": "_serdes", "schema.registry.group.id": "serdes"}
    with RegistryProcess(directory, broker.bootstrap, settings).start() as process:
        yield process.url


def run(coroutine: Coroutine[object, None, T]) -> T:
    return asyncio.run(coroutine)


def client_of(url: str) -> RegistryClient:
    return RegistryClient(RegistrySettings.of({"schema.registry.url": url}))


def serializer(url: str, text: str, kind: str, message: str | None, place: str) -> Serializer[Value]:
    properties = {"value.schema.id.serializer": f"{place.title()}SchemaIdSerializer"}
    return Serializer(
        Schemas(client_of(url)),
        SerdeSettings.of(properties),
        lambda schema: value_encoder(schema, message),
        own=SchemaDefinition(text, kind),
        record_name=lambda schema: record_name(schema, message),
    )


def judges(client: Any, kind: str, text: str, message: str | None, place: str) -> tuple[Any, Any]:
    """The serializer and the deserializer of confluent-kafka."""
    from confluent_kafka import schema_registry as judge
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    writing = {"schema.id.serializer": getattr(judge, f"{place}_schema_id_serializer")}
    reading = {"schema.id.deserializer": judge.dual_schema_id_deserializer}
    if kind == "AVRO":
        return AvroSerializer(client, text, conf=writing), AvroDeserializer(client, conf=reading)
    if kind == "JSON":
        return JSONSerializer(text, client, conf=writing), JSONDeserializer(text, conf=reading)
    parsed = LoadedSchema(SchemaType.PROTOBUF, text).parsed
    assert isinstance(parsed, ProtobufSchema)
    made = message_type(parsed, message)
    return ProtobufSerializer(made, client, writing), ProtobufDeserializer(made, reading, client)


@pytest.fixture
def judge_client(url: str) -> Iterator[Any]:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    with SchemaRegistryClient({"url": url}) as client:
        yield client


@pytest.mark.parametrize("place", ["prefix", "header"])
@pytest.mark.parametrize(("kind", "text", "message"), SCHEMAS)
def test_both_sides_read_what_the_other_writes(
    url: str, judge_client: Any, kind: str, text: str, message: str | None, place: str
) -> None:
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = f"both-{kind}-{message}-{place}"
    value: Value = {"item": "a long name"} if message else {"id": 7, "item": "a long name"}
    raw, headers = serializer(url, text, kind, message, place).serialize(topic, value)
    write, read = judges(judge_client, kind, text, message, place)
    context = SerializationContext(topic, MessageField.VALUE, list(headers))
    theirs = read(raw, context)
    shown = {field.name: content for field, content in theirs.ListFields()} if kind == "PROTOBUF" else theirs
    assert shown == value
    context = SerializationContext(topic, MessageField.VALUE, [])
    written = write(theirs, context)
    mine = Deserializer(Schemas(client_of(url)), SerdeSettings(), value_decode)
    assert mine.deserialize(topic, written, context.headers) == value
    if kind != "PROTOBUF":  # the judge sends a descriptor, whose schema may be another version
        assert run(client_of(url).versions(f"{topic}-value")) == (1,)


def test_references_guids_and_evolution(url: str) -> None:
    client = client_of(url)
    run(
        client.register(
            "lines", RegisterRequest(SchemaDefinition('{"type":"enum","name":"Kind","symbols":["A"]}'))
        )
    )
    text = '{"type":"record","name":"Basket","fields":[{"name":"kind","type":"Kind"}]}'
    own = SchemaDefinition(text, "AVRO", (SchemaReference("Kind", "lines", -1),))
    mine = Serializer(Schemas(client), SerdeSettings(), value_encoder, own=own)
    raw, _ = mine.serialize("baskets", {"kind": "A"})
    reader = Deserializer(Schemas(client_of(url)), SerdeSettings(), value_decode)
    assert reader.deserialize("baskets", raw) == {"kind": "A"}
    found = run(client.version("baskets-value"))
    assert (
        found.guid is not None and run(client.schema_by_guid(uuid.UUID(found.guid))).definition.text == text
    )
    assert run(client.referenced_by("lines", 1)) == (found.id,)
    old, _ = serializer(url, AVRO, "AVRO", None, "prefix").serialize("evolved", {"id": 1, "item": ""})
    serializer(url, AVRO_2, "AVRO", None, "prefix").serialize("evolved", {"id": 2, "item": ""})
    latest = Deserializer(Schemas(client), SerdeSettings(use_latest=True), value_decode)
    assert latest.deserialize("evolved", old) == {"id": 1, "item": "", "note": None}


def test_the_operations_of_the_client(url: str) -> None:
    async def everything() -> None:
        client, definition = client_of(url), SchemaDefinition(AVRO)
        made = await client.register("ops/a b", RegisterRequest(definition), normalize=True)
        assert (await client.look_up("ops/a b", definition)).id == made.id
        assert (await client.schema_by_id(made.id, subject="ops/a b")).definition == definition
        assert ("ops/a b", 1) in [(one.subject, one.version) for one in await client.versions_of_id(made.id)]
        other = SchemaDefinition('{"type":"record","name":"Other","namespace":"shop","fields":[]}')
        answer = await client.check("ops/a b", other, "latest")
        assert not answer.is_compatible and answer.messages
        with pytest.raises(RegistryRefused, match="incompatible") as refused:
            await client.register("ops/a b", RegisterRequest(other))
        assert refused.value.status == 409
        update = ConfigUpdate(ConfigDocument(compatibility_level="NONE"))
        assert (await client.set_config(update, "ops/a b")).config.compatibility_level == "NONE"
        assert (await client.config("ops/a b")).compatibility_level == "NONE"
        assert (await client.register("ops/a b", RegisterRequest(other))).version == 2
        assert "ops/a b" in await client.subjects()
        assert made.id in [one.id async for one in client.all_schemas(prefix="ops/")]
        assert await client.delete_version("ops/a b", 1) == 1
        assert await client.delete_subject("ops/a b") == (2,)
        assert await client.delete_subject("ops/a b", permanent=True) == (1, 2)
        with pytest.raises(RegistryRefused) as refused:
            await client.version("ops/a b")
        assert refused.value.code == 40401
        assert await client.associated_subjects("-", "ops", "value") == ()
        assert "AVRO" in await client.schema_types() and "." in await client.contexts()
        assert (await client.set_mode("READONLY", "ops")).mode == "READONLY"
        assert (await client.delete_mode("ops")).mode == "READONLY"

    run(everything())
