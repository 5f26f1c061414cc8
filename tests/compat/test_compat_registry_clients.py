"""confluent-kafka's client of schema registries against a registry process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kcli.testing.broker_process import BrokerProcess
from rigs.registry_process import RegistryProcess

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

confluent = pytest.importorskip(
    "confluent_kafka.schema_registry", reason="needs confluent-kafka[schemaregistry]", exc_type=ImportError
)

PERSON = json.dumps({"type": "object", "title": "Person", "properties": {"name": {"type": "string"}}})
NARROWED = json.dumps(
    {"type": "object", "title": "Person", "properties": {"name": {"type": "integer"}}, "required": ["name"]}
)
PROTO = 'syntax = "proto3";\npackage p;\n\nmessage M {\n  string a = 1;\n}\n'


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with (
        BrokerProcess(tmp_path_factory.mktemp("data"), {"group.initial.rebalance.delay.ms": "0"}) as broker,
        RegistryProcess(tmp_path_factory.mktemp("registry"), broker.bootstrap) as process,
    ):
        yield process.start()


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with confluent.SchemaRegistryClient({"url": registry.url}) as it:
        yield it


def schema(text: str, kind: str = "JSON", references: tuple[object, ...] = ()) -> object:
    return confluent.Schema(text, kind, list(references))


def test_a_schema_is_registered_and_found(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("person-value", schema(PERSON))
    assert client.register_schema("person-value", schema(PERSON)) == schema_id
    stored = client.get_schema(schema_id)
    assert (json.loads(stored.schema_str), stored.schema_type) == (json.loads(PERSON), "JSON")
    latest = client.get_latest_version("person-value")
    assert (latest.schema_id, latest.version, latest.subject) == (schema_id, 1, "person-value")
    assert client.get_version("person-value", 1).guid == latest.guid
    found = client.lookup_schema("person-value", schema(PERSON))
    assert (found.schema_id, found.version) == (schema_id, 1)
    by_guid = client.get_schema_by_guid(latest.guid)
    assert json.loads(by_guid.schema_str or "") == json.loads(PERSON)
    assert "person-value" in client.get_subjects()
    assert client.get_versions("person-value") == [1]
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]


def test_an_incompatible_schema_is_refused_with_the_reason(client: SchemaRegistryClient) -> None:
    client.register_schema("strict-value", schema(PERSON))
    with pytest.raises(confluent.SchemaRegistryError) as error:
        client.register_schema("strict-value", schema(NARROWED))
    assert (error.value.http_status_code, error.value.error_code) == (409, 409)
    assert "TYPE_CHANGED" in error.value.error_message
    assert not client.test_compatibility("strict-value", schema(NARROWED))
    client.set_compatibility("strict-value", "NONE")
    assert client.get_compatibility("strict-value") == "NONE"
    assert client.register_schema("strict-value", schema(NARROWED)) > 0
    assert client.get_versions("strict-value") == [1, 2]


def test_errors_have_the_codes_that_the_client_reads(client: SchemaRegistryClient) -> None:
    for call, status, code in (
        (lambda: client.get_schema(99_999), 404, 40403),
        (lambda: client.get_latest_version("no-such-subject"), 404, 40401),
        (lambda: client.register_schema("bad", schema("{")), 422, 42201),
        (lambda: client.get_compatibility("no-such-subject"), 404, 40408),
    ):
        with pytest.raises(confluent.SchemaRegistryError) as error:
            call()
        assert (error.value.http_status_code, error.value.error_code) == (status, code)


def test_a_protobuf_schema_and_its_reference(client: SchemaRegistryClient) -> None:
    client.register_schema("a/m.proto", schema(PROTO, "PROTOBUF"))
    reference = confluent.SchemaReference("a/m.proto", "a/m.proto", 1)
    user = 'syntax = "proto3";\n\nimport "a/m.proto";\n\nmessage U {\n  p.M m = 1;\n}\n'
    schema_id = client.register_schema("u-value", schema(user, "PROTOBUF", (reference,)))
    stored = client.get_schema(schema_id, subject_name="u-value")
    assert stored.schema_type == "PROTOBUF"
    assert [one.subject for one in stored.references] == ["a/m.proto"]
    assert client.get_version("a/m.proto", 1, deleted=True, fmt="serialized").schema.schema_str


def test_subjects_are_deleted_and_their_ids_stay(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("gone-value", schema('{"title":"gone"}'))
    assert client.delete_version("gone-value", 1) == 1
    assert client.get_subjects(deleted=True).count("gone-value") == 1
    assert client.register_schema("gone-value", schema('{"title":"gone"}')) == schema_id
    assert client.delete_subject("gone-value", permanent=True)
    assert "gone-value" not in client.get_subjects(deleted=True)


def test_contexts_and_the_server_are_shown(client: SchemaRegistryClient) -> None:
    client.register_schema(":.team:x-value", schema('{"title":"x"}'))
    assert client.get_contexts() == [".", ".team"]
    assert ":.team:x-value" in client.get_subjects(subject_prefix=":.team:")


def test_the_default_strategy_asks_for_associations_and_falls_back(registry: RegistryProcess) -> None:
    answer = registry.request(
        "GET", "/associations/resources/-/orders?resourceType=topic&associationType=value"
    )
    assert answer.status == 404
