"""The state that records make: deletions, id conflicts, forms of keys, and records that are skipped."""

from __future__ import annotations

import json

import pytest

from kcli.formats.registry.documents import ConfigDocument, ModeDocument
from kcli.registry.decisions.deletion import delete_subject, delete_version
from kcli.registry.decisions.records import KeyType, Mode, SchemaKey, ScopeKey, schema_value
from kcli.registry.decisions.scopes import set_mode
from kcli.registry.decisions.state import Skipped
from rigs.small_schemas import Topic

A, AB, C = '{"a":null}', '{"a":null,"b":1}', '{"c":null}'

# Records as Karapace and old registries write them.
FOREIGN = [
    (
        '{"subject":"s","version":1,"magic":1,"keytype":"SCHEMA"}',
        {"subject": "s", "version": 1, "id": 1, "schema": A, "deleted": False},
    ),
    (
        '{"keytype":"SCHEMA","subject":"s","version":2,"magic":0}',
        {"subject": "s", "version": 2, "id": 2, "schema": AB},
    ),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', {"compatibilityLevel": "FULL"}),
    ('{"keytype":"CONFIG","subject":"s","magic":0}', {"compatibilityLevel": "NONE"}),
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', {"subject": "s", "version": 1}),
    (
        '{"keytype":"SCHEMA","subject":"t","version":5,"magic":1}',
        {
            "subject": "t",
            "version": 5,
            "id": 9,
            "md5": "",
            "schemaType": "JSON",
            "schema": C,
            "deleted": True,
        },
    ),
]


def write(topic: Topic, key: str, value: object) -> Skipped | None:
    return topic.write((key.encode(), None if value is None else json.dumps(value).encode()))[0]


def test_records_of_other_writers_make_a_state(topic: Topic) -> None:
    assert [write(topic, key, value) for key, value in FOREIGN] == [None] * len(FOREIGN)
    versions = [
        (schema.subject, schema.version, schema.id, schema.deleted) for schema in topic.state.versions("s")
    ]
    assert versions == [("s", 1, 1, True), ("s", 2, 2, False)]
    assert topic.state.latest("t") is None
    assert topic.state.configs == {
        None: ConfigDocument(compatibility_level="FULL"),
        "s": ConfigDocument(compatibility_level="NONE"),
    }
    assert topic.state.max_id(".") == 9
    assert topic.register("s", '{"a":null,"b":1,"d":1}').id == 10


def test_a_writer_keeps_the_bytes_that_a_key_has(topic: Topic) -> None:
    for key, value in FOREIGN:
        write(topic, key, value)
    topic.carry_out(delete_version(topic.rules, "s", 2))
    assert topic.records[-1][0] == FOREIGN[1][0].encode()
    topic.carry_out(delete_subject(topic.rules, "s", permanent=True))
    deleted = [key for key, value in topic.records[-5:] if value is None]
    assert deleted == [FOREIGN[index][0].encode() for index in (1, 0, 3)]
    assert topic.state.versions("s") == []
    # The keys are gone from the topic, so that new ones have Confluent's form.
    topic.register("s", A)
    assert topic.records[-1][0] == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


def test_a_key_with_two_forms_is_deleted_in_both(topic: Topic) -> None:
    topic.register("s", A)
    value = topic.records[-1][1]
    foreign = b'{"keytype":"SCHEMA","magic":1,"subject":"s","version":1}'
    topic.write((foreign, value))
    assert topic.state.entries(SchemaKey("s", 1), b"v") == ((topic.records[0][0], None), (foreign, b"v"))
    topic.carry_out(delete_version(topic.rules, "s", 1))
    topic.carry_out(delete_version(topic.rules, "s", 1, permanent=True))
    assert topic.restarted(compacted=True).state.versions("s") == []


def test_a_restarted_registry_has_the_same_state(topic: Topic) -> None:
    for key, value in FOREIGN:
        write(topic, key, value)
    topic.register(":.x:s", A)
    topic.carry_out(set_mode(topic.rules, ":.x:", ModeDocument("READONLY")))
    assert topic.restarted().state == topic.state
    compacted = topic.restarted(compacted=True).state
    assert compacted.versions("s") == topic.state.versions("s")
    assert compacted.configs == topic.state.configs
    assert compacted.modes == topic.state.modes == {":.x:": Mode.READONLY}


def test_a_record_that_gives_an_id_to_another_schema_is_undone_by_the_leader(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", C)
    own = topic.records[1]
    stolen = (own[0], own[1].replace(b'"id":2', b'"id":1') if own[1] else None)
    skipped = topic.write(stolen)[0]
    assert skipped is not None
    assert "gives the id 1 of SchemaKey(subject='s', version=1) to another schema" in skipped.reason
    assert skipped.repair == (own,)
    assert not any(topic.write(*skipped.repair))
    assert [schema.id for schema in topic.state.versions("t")] == [2]
    # A key that did not exist is deleted again, in the form of its writer.
    new = b'{"version":1,"subject":"u","keytype":"SCHEMA"}'
    skipped = topic.write((new, own[1].replace(b'"id":2', b'"id":1') if own[1] else None))[0]
    assert skipped is not None
    assert skipped.repair == ((new, None),)


@pytest.mark.parametrize(
    ("text", "schema_type", "is_applied"),
    [
        ('{"a":null,"b":1}', "AVRO", True),
        ('{"b": 1, "a": null}', "AVRO", True),
        ('{"b":1,"a":null}', "JSON", False),
        ('{"b":1.0,"a":null}', "AVRO", False),
        ('{"b":true,"a":null}', "AVRO", False),
        ("[" * 100_000, "AVRO", False),
        ("message M {}", "AVRO", False),
    ],
)
def test_an_id_stands_for_texts_that_differ_only_in_their_order(
    topic: Topic, text: str, schema_type: str, is_applied: bool
) -> None:
    topic.register("s", AB)
    value = {"id": 1, "schema": text, "schemaType": schema_type}
    assert (write(topic, '{"keytype":"SCHEMA","subject":"t","version":1}', value) is None) == is_applied


def test_an_id_may_be_used_again_in_another_context_and_for_an_equal_text(topic: Topic) -> None:
    topic.register("s", A)
    topic.register(":.x:s", C)
    value = topic.records[0][1]
    assert write(topic, '{"keytype":"SCHEMA","subject":"t","version":4}', json.loads(value or b"")) is None
    assert [schema.key for schema in topic.state.holders(".", 1)] == [SchemaKey("s", 1), SchemaKey("t", 4)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"garbage", b"garbage"),
        (b"", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b"garbage"),
        (b'{"keytype":"CONFIG"}', b'{"compatibilityLevel":1}'),
        (b'{"keytype":"MODE"}', b'{"mode":"OTHER"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b"{}"),
        (b'{"keytype":"ASSOC"}', b"{}"),
    ],
)
def test_a_record_without_meaning_is_skipped(topic: Topic, key: bytes, value: bytes) -> None:
    topic.register("s", A)
    before = topic.restarted().state
    skipped = topic.write((key, value))[0]
    assert skipped is not None
    assert skipped.reason.startswith("the record at offset 1 is ")
    assert skipped.repair == ()
    assert topic.state == before


def test_deletions_of_missing_keys_change_nothing(topic: Topic) -> None:
    for key in (*FOREIGN, ('{"keytype":"MODE"}', 0), ('{"keytype":"CONTEXT","context":".x"}', 0)):
        assert write(topic, key[0], None) is None
    assert topic.state == Topic().state


@pytest.mark.parametrize("value", [b"", b"null", None])
def test_an_empty_value_deletes_a_key(topic: Topic, value: bytes | None) -> None:
    for key, members in FOREIGN:
        write(topic, key, members)
    assert topic.write(*((key.encode(), value) for key, _ in FOREIGN)) == [None] * len(FOREIGN)
    assert (list(topic.state.subjects()), topic.state.configs) == ([], {})


def test_a_version_that_is_overwritten_leaves_no_trace(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", '{"$a":"n"}', references=[{"name": "n", "subject": "s", "version": 1}])
    old = topic.state.version("t", 1)
    topic.register("u", C)
    other = topic.state.version("u", 1)
    assert old is not None
    assert other is not None
    topic.write((topic.records[1][0], schema_value(other)))
    assert list(topic.state.holders(".", old.id)) == []
    assert list(topic.state.equal_schemas(".", old.digest)) == []
    assert list(topic.state.referrers(SchemaKey("s", 1))) == []
    assert {schema.subject for schema in topic.state.holders(".", other.id)} == {"t", "u"}


def test_an_import_forgets_deleted_versions(topic: Topic) -> None:
    topic.register("s", A)
    topic.register(":.x:s", A)
    topic.carry_out(delete_subject(topic.rules, "s"))
    topic.carry_out(delete_subject(topic.rules, ":.x:s"))
    topic.write((b'{"keytype":"CLEAR_SUBJECT","subject":":.x:","magic":0}', b'{"subject":":.x:"}'))
    assert [schema.subject for schema in topic.state.holders(".", 1)] == ["s"]
    assert list(topic.state.holders(".x", 1)) == []
    topic.write((b'{"keytype":"CLEAR_SUBJECT","magic":0}', b"{}"))
    assert list(topic.state.subjects()) == []
    assert topic.state.max_id(".") == 1


def test_a_soft_deletion_ends_at_its_version(topic: Topic) -> None:
    for text in (A, AB):
        topic.register("s", text)
    key = topic.state.entries(ScopeKey(KeyType.DELETE_SUBJECT, "s"), b'{"subject":"s","version":1}')
    topic.write(*key)
    assert [schema.deleted for schema in topic.state.versions("s")] == [True, False]
    topic.write((key[0][0], None))
    assert [schema.deleted for schema in topic.state.versions("s")] == [True, False]


def test_an_id_is_found_as_long_as_a_version_has_it(topic: Topic) -> None:
    topic.carry_out(set_mode(topic.rules, "s", ModeDocument("IMPORT")))
    for version in (1, 2):
        topic.register("s", A, id=5, version=version)
    topic.carry_out(delete_version(topic.rules, "s", 2))
    topic.carry_out(delete_version(topic.rules, "s", 2, permanent=True))
    assert [schema.version for schema in topic.state.holders(".", 5)] == [1]
    topic.carry_out(delete_subject(topic.rules, "s"))
    topic.carry_out(delete_subject(topic.rules, "s", permanent=True))
    assert list(topic.state.holders(".", 5)) == []


def test_a_deleted_schema_still_refers_after_compaction_and_a_restart(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", '{"$a":"n"}', references=[{"name": "n", "subject": "s", "version": 1}])
    topic.carry_out(delete_version(topic.rules, "t", 1))
    restarted = topic.restarted(compacted=True)
    assert [schema.subject for schema in restarted.state.referrers(SchemaKey("s", 1))] == ["t"]
