"""The registry with the real languages: Avro, JSON Schema and Protobuf."""

from __future__ import annotations

import base64
import sys

import pytest

from kcli.formats.registry.documents import ConfigUpdate
from kcli.registry.decisions.checks import check_compatibility
from kcli.registry.decisions.configs import Settings
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.lookup import get_version, look_up
from kcli.registry.decisions.scopes import update_config
from rigs.small_schemas import Topic, request

AVRO = (
    '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "string"}]}',
    '{"type":"record","name":"R","fields":[{"name":"f","type":"string"},{"name":"g","type":"int","default":1}]}',
    '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}',
)
JSON = (
    '{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}',
    '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"additionalProperties":false}',
    '{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}',
)
PROTOBUF = (
    'syntax = "proto3"; message M { string a = 1; }',
    'syntax = "proto3";\n\nmessage M {\n  string a = 1;\n  int32 b = 2;\n}\n',
    'syntax = "proto3"; message M { int32 a = 1; }',
)
EVOLUTIONS = {"AVRO": AVRO, "JSON": JSON, "PROTOBUF": PROTOBUF}
MESSAGES = {
    "AVRO": (
        "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/0/type') of a field in the new schema does "
        "not match with the old schema', additionalInfo:'reader type: INT not compatible with writer type: STRING'}"
    ),
    "JSON": (
        '{errorType:"TYPE_CHANGED", description:"A type at path \'#/properties/a\' is different between the new schema '
        "and the old schema'}"
    ),
    "PROTOBUF": (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path \'#/M/1\' in the new '
        'schema does not match its kind in the old schema"}'
    ),
}


@pytest.fixture
def small_languages() -> None:
    """Takes the place of the fixture that all other modules of this folder use."""


@pytest.mark.parametrize("kind", EVOLUTIONS)
def test_a_schema_evolves_in_its_language(topic: Topic, kind: str) -> None:
    first, second, third = EVOLUTIONS[kind]
    assert [topic.post("s", text, schemaType=kind).version for text in (first, second, first, second)] == [
        1,
        2,
        1,
        2,
    ]
    answer = check_compatibility(topic.rules, "s", request(third, schemaType=kind), verbose=True)
    assert answer.messages is not None
    assert answer.messages[0] == MESSAGES[kind]
    assert answer.messages[-3:-1] == ("{oldSchemaVersion: 2}", f"{{oldSchema: '{second}'}}")
    with pytest.raises(RegistryError) as raised:
        topic.register("s", third, schemaType=kind)
    assert (raised.value.code, MESSAGES[kind] in raised.value.message) == (409, True)
    assert get_version(topic.rules, "s", 2).definition.text == second
    assert topic.restarted().state == topic.state


@pytest.mark.parametrize("kind", EVOLUTIONS)
def test_an_invalid_text_is_refused_with_a_reason(topic: Topic, kind: str) -> None:
    for text in ("{", '{"type":"nothing"', 'syntax = "proto9";', "[" * 10_000):
        with pytest.raises(RegistryError) as raised:
            topic.register("s", text, schemaType=kind)
        assert raised.value.code == 42201
        assert raised.value.message.startswith(f"Invalid schema of type {kind}, details: ")


def test_another_language_needs_a_level_that_compares_nothing(topic: Topic) -> None:
    topic.register("s", AVRO[0])
    with pytest.raises(RegistryError, match="Incompatible because of different schema type"):
        topic.register("s", JSON[0], schemaType="JSON")
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"compatibility": "NONE"})))
    assert topic.register("s", JSON[0], schemaType="JSON").version == 2


def test_an_avro_schema_refers_by_the_full_name(topic: Topic) -> None:
    topic.register("r", AVRO[0])
    text = '{"type":"record","name":"S","fields":[{"name":"r","type":"R"}]}'
    references = [{"name": "R", "subject": "r", "version": -1}]
    assert topic.register("s", text, references=references).version == 1
    inlined = '{"type":"record","name":"S","fields":[{"name":"r","type":' + AVRO[0] + "}]}"
    assert look_up(topic.rules, "s", request(inlined)).definition.text == text
    compact = inlined.replace(": ", ":").replace(", ", ",")
    assert get_version(topic.rules, "s", 1, format_name="resolved").definition.text == compact


def test_a_json_schema_refers_by_a_uri(topic: Topic) -> None:
    topic.register("r", '{"type":"string"}', schemaType="JSON")
    text = '{"type":"object","properties":{"a":{"$ref":"r.json"}}}'
    references = [{"name": "r.json", "subject": "r", "version": 1}]
    assert topic.register("s", text, schemaType="JSON", references=references).version == 1
    with pytest.raises(RegistryError) as raised:
        topic.register("t", text, schemaType="JSON")
    assert raised.value.code == 42201


def test_a_protobuf_schema_refers_by_its_import(topic: Topic) -> None:
    topic.register("r", PROTOBUF[0], schemaType="PROTOBUF")
    text = 'syntax = "proto3";\n\nimport "r.proto";\n\nmessage N {\n  M m = 1;\n}\n'
    references = [{"name": "r.proto", "subject": "r", "version": 1}]
    assert topic.register("s", text, schemaType="PROTOBUF", references=references).version == 1
    descriptor = get_version(topic.rules, "s", 1, format_name="serialized").definition.text
    assert b"r.proto" in base64.b64decode(descriptor)
    # Confluent's client for Python sends the descriptor in place of the text. Only the normal forms are equal.
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"normalize": True})))
    assert topic.post("s", text, schemaType="PROTOBUF", references=references).version == 2
    assert topic.post("s", descriptor, schemaType="PROTOBUF", references=references).version == 2


@pytest.mark.parametrize(
    ("kind", "text", "normal"),
    [
        ("AVRO", '{"type":"int","b":1,"a":2}', '{"type":"int","a":2,"b":1}'),
        ("JSON", '{"type":"string","minLength":1}', '{"minLength":1,"type":"string"}'),
        (
            "PROTOBUF",
            'syntax = "proto3"; message M { string b = 2; string a = 1; }',
            'syntax = "proto3";\n\nmessage M {\n  string a = 1;\n  string b = 2;\n}\n',
        ),
    ],
)
def test_a_config_normalizes_schemas(topic: Topic, kind: str, text: str, normal: str) -> None:
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"normalize": True})))
    answer = topic.register("s", text, schemaType=kind)
    assert answer.definition is not None
    assert answer.definition.text == normal
    assert (
        topic.post("s", normal, schemaType=kind).version
        == topic.post("s", text, schemaType=kind).version
        == 1
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":1}]}'),
        ("JSON", '{"type":"object","properties":{"a":{"type":"string"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message L {} message M { oneof o { string a = 1; } }'),
    ],
)
def test_a_field_must_not_have_a_reserved_name(topic: Topic, kind: str, text: str) -> None:
    def reasons(*names: str) -> list[str]:
        metadata = {"properties": {"confluent:reserved": ",".join(names)}}
        body = request(text, schemaType=kind, metadata=metadata)
        return list(check_compatibility(topic.rules, "s", body, verbose=True).messages or ())

    assert reasons("a") == []
    config = {"validateFields": True, "compatibility": "NONE"}
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json(config)))
    last = "{validateFields: 'true', compatibility: 'NONE'}"
    assert reasons("c", "b ", "a") == [
        "The new schema has field that conflicts with the reserved field a.",
        last,
    ]
    assert reasons("b") == reasons() == []
    topic.register("s", text, schemaType=kind, metadata={"properties": {"confluent:reserved": "b"}})
    removed = (
        "The new schema has reserved field b removed from its metadata which is present in the old schema's "
    )
    assert reasons("c") == [f"{removed}metadata.", last]
    with pytest.raises(RegistryError, match="conflicts with the reserved field a"):
        topic.register("s", text, schemaType=kind, metadata={"properties": {"confluent:reserved": "a,b"}})


def test_the_properties_can_reserve_fields_for_all_subjects() -> None:
    topic = Topic(Settings(validate_fields=True))
    metadata = {"properties": {"confluent:reserved": "f"}}
    with pytest.raises(RegistryError, match="conflicts with the reserved field f"):
        topic.register("s", AVRO[0], metadata=metadata)
    topic.register("r", AVRO[0])
    with pytest.raises(RegistryError, match="conflicts with the reserved field f"):
        topic.register(
            "s", '"R"', metadata=metadata, references=[{"name": "R", "subject": "r", "version": 1}]
        )
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"validateFields": False})))
    assert topic.register("s", AVRO[0], metadata=metadata).version == 1


@pytest.mark.parametrize("text", ["// only a comment", "CgdkZWZhdWx0", ";"])
def test_a_schema_without_a_canonical_text_is_refused(topic: Topic, text: str) -> None:
    for check in (topic.post, lambda *a, **b: check_compatibility(topic.rules, a[0], request(a[1], **b))):
        with pytest.raises(RegistryError) as raised:
            check("s", text, schemaType="PROTOBUF")
        assert (raised.value.code, raised.value.message) == (42201, "Empty schema")


def test_a_reference_without_a_name_or_with_the_empty_subject_is_read_again(topic: Topic) -> None:
    topic.post("", '"int"')
    for name, subject in (("", "s"), ("n", "")):
        topic.post("s", '"int"')
        references = [{"name": name, "subject": subject, "version": 1}]
        answer = topic.post(f"with-{name}", '"long"', references=references)
        assert topic.restarted().state == topic.state
        assert topic.post(f"with-{name}", '"long"', references=references).id == answer.id


def test_a_missing_library_is_named_to_the_client(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(
        RegistryError, match=r"google.protobuf is missing: pip install 'kcli-streaming\[schemas\]'"
    ):
        topic.register("s", 'syntax = "proto3"; message OnlyHere { string a = 1; }', schemaType="PROTOBUF")
