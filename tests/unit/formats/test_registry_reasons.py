"""The reasons of compatibility checks in words: from the messages of all languages, and from texts of other forms."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcli.formats.registry.reasons import Broken, Reason, broken_by, old_version_of, reasons_of
from kcli.formats.schemas import CompatibilityPolicy, SchemaType, language_of

NO_TEXTS: Mapping[str, str] = {}

FIXED = '{"type":"fixed","name":"%s","size":%d}'
AVRO = '{"type":"record","name":"R","fields":[%s]}'
OBJECT = '{"type":"object","properties":{%s}}'
PAIRS = (
    (SchemaType.AVRO, AVRO % "", AVRO % '{"name":"a","type":"int"}', "READER_FIELD_MISSING_DEFAULT_VALUE"),
    (SchemaType.AVRO, '"int"', '"string"', "TYPE_MISMATCH"),
    (SchemaType.AVRO, '["int","null"]', '["null"]', "MISSING_UNION_BRANCH"),
    (
        SchemaType.AVRO,
        '{"type":"enum","name":"E","symbols":["A","B"]}',
        '{"type":"enum","name":"E","symbols":["A"]}',
        "MISSING_ENUM_SYMBOLS",
    ),
    (SchemaType.AVRO, FIXED % ("F", 1), FIXED % ("F", 2), "FIXED_SIZE_MISMATCH"),
    (SchemaType.AVRO, FIXED % ("F", 1), FIXED % ("G", 1), "NAME_MISMATCH"),
    (SchemaType.JSON, OBJECT % "", OBJECT % '"a":{"type":"string"}', "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (SchemaType.JSON, '{"type":"string"}', '{"type":"string","maxLength":3}', "MAX_LENGTH_ADDED"),
    (SchemaType.JSON, '{"type":"string"}', '{"type":"number"}', "TYPE_CHANGED"),
    (SchemaType.JSON, '{"enum":["a","b"]}', '{"enum":["a"]}', "ENUM_ARRAY_NARROWED"),
    (SchemaType.PROTOBUF, "message A { int32 a = 1; }", "message A { string a = 1; }", "FIELD_SCALAR_KIND_CHANGED"),
    (SchemaType.PROTOBUF, "message A {} message B {}", "message A {}", "MESSAGE_REMOVED"),
    (SchemaType.PROTOBUF, "package a; message A {}", "package b; message A {}", "PACKAGE_CHANGED"),
)  # fmt: skip


@pytest.mark.parametrize(("language", "old", "new", "kind"), PAIRS)
def test_each_reason_names_the_consumers_that_break_and_a_cure(
    language: SchemaType, old: str, new: str, kind: str
) -> None:
    if language is SchemaType.PROTOBUF:
        old, new = f'syntax = "proto3"; {old}', f'syntax = "proto3"; {new}'
    reader, writer = (language_of(language).parse(text, NO_TEXTS, is_new=False) for text in (new, old))
    found = reader.incompatibilities(writer, CompatibilityPolicy.STRICT)
    for words, broken in ((("new", "old"), Broken.NEW_CONSUMERS), (("old", "new"), Broken.OLD_CONSUMERS)):
        messages = [reason.message(reader=words[0], writer=words[1]) for reason in found]
        [reason] = [reason for reason in reasons_of(messages, broken) if reason.kind == kind]
        assert reason.broken is broken
        assert kind == "NAME_MISMATCH" or reasons_of(messages)[0].broken is broken, "the message shows it"
        assert "errorType" not in reason.text
        assert reason.cure.endswith((".", ")")), "a whole sentence"


def test_a_repeated_old_schema_is_not_a_reason() -> None:
    text = "A type at path '#/' is different between the new schema and the old schema"
    messages = (
        '{errorType:"TYPE_CHANGED", description:"' + text + "'}",
        "{oldSchemaVersion: 7}",
        '{oldSchema: \'{"type":\n"string"}\'}',
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    )
    [reason] = reasons_of(messages)
    assert reason.text == text
    assert old_version_of(messages) == 7
    assert old_version_of(messages[:1]) is None


@pytest.mark.parametrize(
    "text", ["", "Incompatible schema", "{errorType:", "the new", "{errorType:'', description:''}"]
)
def test_other_texts_are_shown_as_they_are(text: str) -> None:
    assert reasons_of([text]) == (Reason("", text),)


def test_another_type_needs_another_subject() -> None:
    [reason] = reasons_of(["Incompatible because of different schema type"])
    assert reason.cure == "Register the schema under another subject."


def test_long_and_hostile_messages_take_little_time() -> None:
    hostile = "{errorType:'A', description:'" * 20_000
    [reason] = reasons_of([hostile])
    assert reason.kind == "A"
    [reason] = reasons_of(["{errorType:'A', description:'" + "x', additionalInfo:'" * 50_000])
    assert reason.text


@pytest.mark.parametrize(
    ("level", "broken"),
    [
        ("BACKWARD_TRANSITIVE", Broken.NEW_CONSUMERS),
        ("forward", Broken.OLD_CONSUMERS),
        ("FULL", None),
        ("NONE", None),
    ],
)
def test_a_level_protects_consumers(level: str, broken: Broken | None) -> None:
    assert broken_by(level) is broken
