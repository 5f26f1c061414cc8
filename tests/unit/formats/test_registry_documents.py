"""The JSON documents of a schema registry: their members, their order, and invalid values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol, Self

import pytest

from kcli.formats.registry.documents import (
    CompatibilityAnswer,
    ConfigDocument,
    ConfigUpdate,
    ContextId,
    ErrorDocument,
    ModeDocument,
    RegisteredSchema,
    RegisterRequest,
    RegisterResponse,
    SchemaDefinition,
    SchemaString,
    SubjectVersion,
)
from kcli.formats.registry.members import InvalidDocument
from kcli.formats.registry.rule_sets import Metadata, Rule, RuleKind, RuleMode, RuleSet
from kcli.formats.schemas import SchemaReference


class Document(Protocol):
    @classmethod
    def from_json(cls, value: object) -> Self: ...

    def to_json(self) -> Mapping[str, object]: ...


RULE_SET = (
    '{"migrationRules":[{"name":"up","kind":"TRANSFORM","mode":"UPGRADE","type":"JSONATA","expr":"$","disabled":false}],'
    '"domainRules":[{"name":"r","doc":"d","kind":"CONDITION","mode":"WRITE","type":"CEL","tags":["PII"],'
    '"params":{"a":"b"},"expr":"true","onSuccess":"NONE","onFailure":"DLQ","disabled":true}],"enableAt":"CLIENT"}'
)
METADATA = '{"tags":{"**.ssn":["PII"]},"properties":{"owner":"me"},"sensitive":["owner"]}'
REFERENCES = '[{"name":"n","subject":"s","version":1}]'

# Each text is a whole document, with all members in Confluent's order.
DOCUMENTS: list[tuple[type[Document], str]] = [
    (Metadata, METADATA),
    (RuleSet, RULE_SET),
    (
        RegisteredSchema,
        '{"subject":"s","version":1,"id":2,"guid":"g","schemaType":"AVRO","references":' + REFERENCES + ","
        '"metadata":' + METADATA + ',"schema":"\\"int\\"",'
        '"schemaTags":[{"schemaEntity":{"entityPath":"a.b","entityType":"sr_field"},"tags":["T"]}],'
        '"ts":3,"deleted":false,"aliases":["t"],"ruleSet":' + RULE_SET + "}",
    ),
    (RegisteredSchema, '{"subject":"s","version":1,"id":2,"schemaType":"JSON","schema":"{}"}'),
    (
        SchemaString,
        '{"subject":"s","version":1,"guid":"g","schemaType":"PROTOBUF","schema":"x","references":'
        + REFERENCES
        + ","
        '"metadata":' + METADATA + ',"ruleSet":' + RULE_SET + ',"maxId":7,"ts":3,"deleted":true}',
    ),
    (
        RegisterRequest,
        '{"version":1,"id":2,"schemaType":"AVRO","references":' + REFERENCES + ","
        '"metadata":'
        + METADATA
        + ',"ruleSet":'
        + RULE_SET
        + ',"schema":"\\"int\\"","propagateSchemaTags":false}',
    ),
    (RegisterResponse, '{"id":1}'),
    (
        RegisterResponse,
        '{"id":1,"version":1,"guid":"g","schemaType":"AVRO","schema":"\\"int\\"","ts":1,"deleted":false}',
    ),
    (
        ConfigDocument,
        '{"alias":"a","aliasForDeks":"b","normalize":true,"validateFields":false,"validateNewSchemas":true,'
        '"validateRules":false,"compatibilityLevel":"FULL","compatibilityPolicy":"LENIENT","compatibilityGroup":"g",'
        '"defaultMetadata":{},"overrideMetadata":'
        + METADATA
        + ',"defaultRuleSet":{},"overrideRuleSet":'
        + RULE_SET
        + "}",
    ),
    (ConfigUpdate, '{"compatibility":"FULL","alias":null}'),
    (ModeDocument, '{"mode":"IMPORT"}'),
    (ModeDocument, '{"mode":null}'),
    (CompatibilityAnswer, '{"is_compatible":true}'),
    (CompatibilityAnswer, '{"is_compatible":false,"messages":["a","b"]}'),
    (SubjectVersion, '{"subject":"s","version":1}'),
    (ContextId, '{"context":".","id":1}'),
    (ErrorDocument, '{"error_code":40401,"message":"m"}'),
]


@pytest.mark.parametrize(("kind", "text"), DOCUMENTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_document_keeps_its_members_and_their_order(kind: type[Document], text: str) -> None:
    document = kind.from_json(json.loads(text))
    assert json.dumps(document.to_json(), separators=(",", ":")) == text
    assert kind.from_json({**json.loads(text), "unknown": [1]}) == document


def test_a_missing_type_is_avro_and_missing_members_have_no_value() -> None:
    request = RegisterRequest.from_json({"schema": '"int"', "references": None})
    assert request == RegisterRequest(SchemaDefinition('"int"'))
    assert request.to_json() == {"schemaType": "AVRO", "schema": '"int"'}
    assert Rule.from_json({}) == Rule(None, None, kind=RuleKind.TRANSFORM, mode=RuleMode.WRITEREAD)


def test_metadata_is_sorted_as_java_sorts_texts() -> None:
    metadata = Metadata.from_json(
        {"properties": {"\uff01": "1", "\U0001f600": "2", "b": "3"}, "sensitive": ["b", "a", "b"]}
    )
    assert list(metadata.properties) == ["b", "\U0001f600", "\uff01"]
    assert metadata.sensitive == ("a", "b")


def test_an_update_distinguishes_null_from_a_missing_member() -> None:
    update = ConfigUpdate.from_json({"compatibility": None, "alias": "x", "overrideRuleSet": None})
    assert update == ConfigUpdate(
        ConfigDocument(alias="x"), frozenset({"compatibility_level", "override_rule_set"})
    )


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (RegisterRequest, [], "request: expected an object, found a list"),
        (RegisterRequest, {"schema": {}}, "request.schema: expected a text, found an object"),
        (
            RegisterRequest,
            {"version": "1"},
            "request.version: expected a whole number from -2147483648 to 2147483647",
        ),
        (RegisterRequest, {"version": True}, "request.version: expected a whole number"),
        (RegisterRequest, {"id": 1 << 31}, "request.id: expected a whole number"),
        (RegisterRequest, {"id": 1.5}, "found the number 1.5"),
        (RegisterRequest, {"references": {}}, "request.references: expected a list, found an object"),
        (
            RegisterRequest,
            {"references": [{"name": "n"}]},
            "request.references[0].version: the member is missing",
        ),
        (RegisterRequest, {"references": [None]}, "request.references[0]: expected an object, found null"),
        (
            RegisterRequest,
            {"metadata": {"properties": {"a": 1}}},
            "request.metadata.properties.a: expected a text",
        ),
        (
            RegisterRequest,
            {"metadata": {"tags": {"a": "b"}}},
            "request.metadata.tags.a: expected a list, found a text",
        ),
        (
            RegisterRequest,
            {"ruleSet": {"domainRules": [{"kind": "X"}]}},
            "expected one of TRANSFORM, CONDITION, found X",
        ),
        (RegisterRequest, {"ruleSet": {"enableAt": 1}}, "request.ruleSet.enableAt: expected a text"),
        (RegisteredSchema, {"subject": "s", "version": 1}, "schema.id: the member is missing"),
        (ConfigUpdate, {"normalize": "true"}, "config.normalize: expected true or false, found a text"),
        (ModeDocument, {}, "mode.mode: the member is missing"),
        (ModeDocument, None, "mode: expected an object, found null"),
        (CompatibilityAnswer, {}, "answer.is_compatible: the member is missing"),
        (ErrorDocument, {"message": "m"}, "error.error_code: the member is missing"),
    ],
)
def test_an_invalid_document_is_reported_with_its_member(
    kind: type[Document], value: object, message: str
) -> None:
    with pytest.raises(InvalidDocument) as raised:
        kind.from_json(value)
    assert message in str(raised.value)


def test_references_keep_their_order_in_a_request() -> None:
    references = [{"name": "b", "subject": "s", "version": -1}, {"name": "a", "subject": "s", "version": 2}]
    request = RegisterRequest.from_json({"schema": "x", "references": references})
    assert request.definition.references == (SchemaReference("b", "s", -1), SchemaReference("a", "s", 2))
