"""Keys and values of `_schemas`: the bytes of Confluent's registry, and forms that other writers have."""

from __future__ import annotations

import base64
import json

import pytest

from kcli.formats.registry.digests import digest_of
from kcli.formats.registry.documents import ConfigDocument, SchemaDefinition
from kcli.formats.registry.rule_sets import Metadata, Rule, RuleSet
from kcli.formats.schemas import SchemaReference
from kcli.registry.decisions import records
from kcli.registry.decisions.records import (
    ContextKey,
    IgnoredKey,
    InvalidRecord,
    KeyType,
    Mode,
    RecordKey,
    SchemaKey,
    ScopeKey,
    StoredSchema,
)

KEYS: list[tuple[RecordKey, str]] = [
    (SchemaKey("s", 1), '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'),
    (ScopeKey(KeyType.CONFIG, "s"), '{"keytype":"CONFIG","subject":"s","magic":0}'),
    (ScopeKey(KeyType.CONFIG, None), '{"keytype":"CONFIG","magic":0}'),
    (ScopeKey(KeyType.MODE, ":.x:"), '{"keytype":"MODE","subject":":.x:","magic":0}'),
    (ScopeKey(KeyType.MODE, None), '{"keytype":"MODE","magic":0}'),
    (
        ScopeKey(KeyType.DELETE_SUBJECT, "s\u00e9\x1f"),
        '{"keytype":"DELETE_SUBJECT","subject":"sé\\u001F","magic":0}',
    ),
    (ScopeKey(KeyType.CLEAR_SUBJECT, None), '{"keytype":"CLEAR_SUBJECT","magic":0}'),
    (ContextKey(".x"), '{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}'),
    (IgnoredKey(KeyType.NOOP), '{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("key", "text"), KEYS)
def test_a_key_has_the_bytes_of_confluent(key: RecordKey, text: str) -> None:
    assert records.key_bytes(key) == text.encode()
    assert records.parse_key(text.encode()) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"subject": "s", "version": 1, "magic": 1, "keytype": "SCHEMA"}', SchemaKey("s", 1)),
        ('{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}', SchemaKey("s", 1)),
        ('{"keytype":"SCHEMA","subject":"s","version":1}', SchemaKey("s", 1)),
        ('{"keytype":"CONFIG","subject":null,"magic":0}', ScopeKey(KeyType.CONFIG, None)),
        ('{"magic":0,"keytype":"MODE","subject":""}', ScopeKey(KeyType.MODE, None)),
        ('{"keytype":"DELETE_SUBJECT","magic":0}', ScopeKey(KeyType.DELETE_SUBJECT, "")),
        ('{"keytype":"NOOP"}', IgnoredKey(KeyType.NOOP)),
        ('{"keytype":"ASSOC","tenant":"default","subject":"s"}', IgnoredKey(KeyType.ASSOCIATION)),
        ('{"keytype":"CONTEXT","context":".x","unknown":{}}', ContextKey(".x")),
    ],
)
def test_a_key_of_another_writer_has_the_same_value(text: str, key: RecordKey) -> None:
    assert records.parse_key(text.encode()) == key


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{",
        b"[" * 100_000,
        b"{}",
        b'{"keytype":"OTHER"}',
        b'{"keytype":1}',
        b'{"keytype":"SCHEMA","subject":"s"}',
        b'{"keytype":"SCHEMA","subject":"s","version":"1"}',
        b'{"keytype":"SCHEMA","subject":"s","version":0}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":2}',
        b'{"keytype":"SCHEMA","subject":1,"version":1}',
        b'{"keytype":"CONTEXT"}',
        b'{"keytype":"CONTEXT","context":"\\ud800"}',
    ],
)
def test_an_invalid_key_is_reported(key: bytes) -> None:
    with pytest.raises(InvalidRecord):
        records.parse_key(key)


def stored(definition: SchemaDefinition, **members: bool) -> StoredSchema:
    return StoredSchema("s", 1, 7, definition, digest_of(definition), **members, offset=3, timestamp_ms=4)


def test_a_version_has_the_bytes_of_confluent() -> None:
    schema = stored(SchemaDefinition('"int"'))
    value = b'{"subject":"s","version":1,"id":7,"schemaType":"AVRO","schema":"\\"int\\"","deleted":false}'
    assert records.schema_value(schema) == value
    assert records.parse_schema(SchemaKey("s", 1), value, 3, 4) == schema


def test_a_version_has_all_members_in_the_order_of_confluent() -> None:
    definition = SchemaDefinition(
        "x",
        "PROTOBUF",
        (SchemaReference("n", "t", 2),),
        Metadata(properties={"k": "v"}),
        RuleSet(domain_rules=(Rule("r", "CEL"),)),
    )
    schema = stored(definition, deleted=True, has_md5=True)
    value = records.schema_value(schema)
    assert list(json.loads(value)) == (
        [
            "subject",
            "version",
            "id",
            "md5",
            "schemaType",
            "references",
            "metadata",
            "ruleSet",
            "schema",
            "deleted",
        ]
    )
    assert json.loads(value)["md5"] == base64.b64encode(schema.digest).decode()
    assert records.parse_schema(SchemaKey("s", 1), value, 3, 4) == schema


def test_a_text_may_have_escaped_characters() -> None:
    key = b'{"keytype":"CONFIG","subject":"\\ud83d\\ude00\\u00e9"}'
    assert records.parse_key(key) == ScopeKey(KeyType.CONFIG, "\U0001f600\u00e9")


def test_an_old_version_has_neither_type_nor_digest() -> None:
    value = b'{"subject":"s","version":1,"id":7,"schema":"\\"int\\""}'
    assert records.parse_schema(SchemaKey("s", 1), value, 3, 4) == stored(SchemaDefinition('"int"'))


@pytest.mark.parametrize("md5", ["", "?", "AAAA"])
def test_an_invalid_digest_is_computed_again(md5: str) -> None:
    value = json.dumps({"subject": "s", "version": 1, "id": 7, "md5": md5, "schema": '"int"'}).encode()
    assert records.parse_schema(SchemaKey("s", 1), value, 3, 4) == stored(SchemaDefinition('"int"'))


def test_the_key_of_a_version_decides_its_place() -> None:
    value = b'{"subject":"other","version":9,"id":7,"schema":"\\"int\\"","references":null,"deleted":null}'
    assert records.parse_schema(SchemaKey("s", 1), value, 3, 4) == stored(SchemaDefinition('"int"'))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"1",
        b'{"id":7}',
        b'{"schema":"x"}',
        b'{"id":"7","schema":"x"}',
        b'{"id":-1,"schema":"x"}',
        b'{"id":7,"schema":{}}',
        b'{"id":7,"schema":"x","references":[{}]}',
        b'{"id":7,"schema":"x","deleted":"yes"}',
        b'{"id":7,"schema":"x","metadata":{"properties":{"a":1}}}',
    ],
)
def test_an_invalid_version_is_reported(value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        records.parse_schema(SchemaKey("s", 1), value, 0, 0)


def test_other_values_have_the_bytes_of_confluent() -> None:
    config = ConfigDocument(compatibility_level="FULL", normalize=False)
    assert (
        records.config_value("s", config) == b'{"subject":"s","normalize":false,"compatibilityLevel":"FULL"}'
    )
    assert records.config_value(None, config) == b'{"normalize":false,"compatibilityLevel":"FULL"}'
    assert records.mode_value("s", Mode.IMPORT) == b'{"subject":"s","mode":"IMPORT"}'
    assert records.mode_value(None, Mode.READONLY) == b'{"mode":"READONLY"}'
    assert records.delete_subject_value("s", 3) == b'{"subject":"s","version":3}'
    assert records.clear_subject_value("s") == b'{"subject":"s"}'
    assert records.clear_subject_value(None) == b"{}"
    assert records.context_value(".x") == b'{"tenant":"default","context":".x"}'


def test_other_values_are_parsed_in_any_form() -> None:
    assert records.parse_config(b'{"compatibilityLevel": "FULL", "x": 1}') == ConfigDocument(
        compatibility_level="FULL"
    )
    assert records.parse_mode(b'{"mode":"READONLY","subject":null}') is Mode.READONLY
    assert records.parse_delete_subject(b'{"version":3}') == 3


@pytest.mark.parametrize(
    "value", [b"", b"null", b"[]", b'{"mode":1,"normalize":1}', b'{"mode":"X","alias":2}']
)
def test_other_invalid_values_are_reported(value: bytes) -> None:
    for parse in (records.parse_config, records.parse_mode, records.parse_delete_subject):
        with pytest.raises(InvalidRecord):
            parse(value)
