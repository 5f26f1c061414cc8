"""Registrations: versions, ids, equal schemas, imports and what is refused."""

from __future__ import annotations

import pytest

from kcli.formats.registry.documents import ConfigUpdate, ModeDocument, RegisterResponse
from kcli.model.java_text import INT_MAX
from kcli.registry.decisions.configs import Settings
from kcli.registry.decisions.deletion import delete_subject, delete_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.registration import register, registered
from kcli.registry.decisions.scopes import set_mode, update_config
from rigs.small_schemas import Topic, request

A, AB, ABC, C = '{"a":null}', '{"a":null,"b":1}', '{"a":null,"b":1,"c":1}', '{"c":null}'


def config(topic: Topic, subject: str | None, **members: object) -> None:
    topic.carry_out(update_config(topic.rules, subject, ConfigUpdate.from_json(members)))


def mode(topic: Topic, subject: str | None, name: str, *, force: bool = False) -> None:
    topic.carry_out(set_mode(topic.rules, subject, ModeDocument(name), force=force))


def places(*answers: RegisterResponse) -> list[tuple[int, int | None]]:
    return [(answer.id, answer.version) for answer in answers]


def refused(topic: Topic, subject: str, text: str, **members: object) -> tuple[int, str]:
    with pytest.raises(RegistryError) as raised:
        topic.register(subject, text, **members)
    return raised.value.code, raised.value.message


def test_versions_count_in_a_subject_and_ids_in_a_context(topic: Topic) -> None:
    answers = (
        topic.register(subject, text) for subject, text in (("s", A), ("s", AB), ("t", C), (":.x:s", C))
    )
    assert places(*answers) == [(1, 1), (2, 2), (3, 1), (1, 1)]


def test_a_registered_schema_is_answered_without_a_record(topic: Topic) -> None:
    first = topic.register("s", A)
    assert first.to_json() == {
        "id": 1,
        "version": 1,
        "guid": "7dd3dede-8904-3e31-f7be-3fa2b5fad9c5",
        "schemaType": "AVRO",
        "schema": A,
    }
    assert registered(topic.rules, "s", request(A)) == first
    assert topic.register("s", ' {"a": null}') == first
    assert len(topic.records) == 1


def test_definitions_with_one_digest_have_an_id_each(topic: Topic) -> None:
    """The digest of empty metadata is that of empty rules, so it does not prove that two definitions are equal."""
    metadata, rules = topic.register("s", A, metadata={}), topic.register("t", A, ruleSet={})
    assert metadata.guid == rules.guid
    assert places(metadata, rules, topic.register("u", A, ruleSet={})) == [(1, 1), (2, 1), (2, 1)]


def test_one_text_has_one_id_in_all_subjects_of_a_context(topic: Topic) -> None:
    answers = [topic.register(subject, A) for subject in ("s", "t", ":.x:s", ":.x:t")]
    assert places(*answers) == [(1, 1)] * 4


def test_one_text_of_two_types_has_two_ids(topic: Topic) -> None:
    assert places(topic.register("s", A), topic.register("t", A, schemaType="JSON")) == [(1, 1), (2, 1)]


def test_an_equal_schema_with_another_text_is_the_same_version(topic: Topic) -> None:
    topic.register("s", '{"b":1,"a":2}')
    answer = registered(topic.rules, "s", request('{"a":2,"b":1}'))
    assert answer is not None
    assert answer.definition is not None
    assert (answer.version, answer.definition.text, answer.deleted) == (1, '{"b":1,"a":2}', False)
    assert places(topic.register("s", '{"a":2,"b":1}')) == [(1, 1)]
    # In another subject, the text is new.
    assert places(topic.register("t", '{"a":2,"b":1}')) == [(2, 1)]


def test_a_normalized_registration_stores_the_normal_form(topic: Topic) -> None:
    answer = topic.carry_out(register(topic.rules, "s", request('{"b":1,"a":2}'), normalize=True))
    assert answer.definition is not None
    assert answer.definition.text == '{"a":2,"b":1}'
    config(topic, "t", normalize=True)
    assert places(topic.register("t", '{"b":1,"a":2}')) == [(1, 1)]


def test_an_incompatible_schema_is_refused_unless_it_is_forced(topic: Topic) -> None:
    topic.register("s", A)
    message = (
        'Schema being registered is incompatible with an earlier schema for subject "s", details: '
        "[{field 'c' of the new schema is missing in the old schema, STRICT}, {oldSchemaVersion: 1}, "
        f"{{oldSchema: '{A}'}}, {{validateFields: 'false', compatibility: 'BACKWARD'}}]"
    )
    assert refused(topic, "s", C) == (409, message)
    decision = register(topic.rules, "s", request(C), force=True)
    assert places(topic.carry_out(decision)) == [(2, 2)]


def test_a_deleted_schema_comes_back_with_its_id_and_a_new_version(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("s", AB)
    topic.carry_out(delete_version(topic.rules, "s", 1))
    assert places(topic.register("s", A)) == [(1, 3)]
    # The old version with this id is gone, so that the id has one version.
    assert [schema.version for schema in topic.state.versions("s")] == [2, 3]
    topic.carry_out(delete_subject(topic.rules, "s"))
    assert places(topic.register("s", ABC)) == [(3, 4)]


def test_a_deleted_version_that_is_referenced_stays(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", '{"$a":"n"}', references=[{"name": "n", "subject": "s", "version": 1}])
    topic.carry_out(delete_version(topic.rules, "t", 1))
    topic.carry_out(delete_version(topic.rules, "s", 1))
    assert places(topic.register("s", A)) == [(1, 2)]
    assert [schema.version for schema in topic.state.versions("s")] == [1, 2]


def test_an_id_is_not_used_again_after_its_schema_is_gone(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", C)
    topic.carry_out(delete_subject(topic.rules, "t"))
    topic.carry_out(delete_subject(topic.rules, "t", permanent=True))
    assert places(topic.register("s", AB)) == [(3, 2)]


def test_an_empty_text_repeats_the_latest_schema(topic: Topic) -> None:
    assert refused(topic, "s", " ") == (42201, "Empty schema")
    topic.register("s", A)
    answer = topic.register("s", "", metadata={"properties": {"owner": "me"}})
    assert places(answer) == [(2, 2)]
    assert answer.definition is not None
    assert answer.definition.text == A


def test_a_new_version_inherits_metadata_and_rules(topic: Topic) -> None:
    rules = {"domainRules": [{"name": "r", "type": "CEL"}]}
    topic.register("s", A, metadata={"properties": {"k": "v"}}, ruleSet=rules)
    answer = topic.register("s", AB)
    assert answer.definition is not None
    assert answer.definition.metadata is not None
    assert answer.definition.metadata.properties == {"k": "v"}
    assert answer.definition.rule_set is not None
    assert [rule.name for rule in answer.definition.rule_set.domain_rules] == ["r"]
    # So the first text without metadata is the schema that inherits them.
    assert places(topic.register("s", A)) == [(1, 1)]


def test_a_config_completes_metadata_and_rules(topic: Topic) -> None:
    config(
        topic,
        "s",
        defaultMetadata={"properties": {"a": "default", "b": "default"}, "sensitive": ["a"]},
        overrideMetadata={"properties": {"b": "override"}, "tags": {"p": ["T"]}},
        defaultRuleSet={"domainRules": [{"name": "r", "type": "OLD"}, {"name": "d", "type": "CEL"}]},
        overrideRuleSet={"domainRules": [{"name": "r", "type": "NEW"}], "enableAt": "CLIENT"},
    )
    answer = topic.register("s", A, metadata={"properties": {"a": "mine", "c": "mine"}})
    assert answer.definition is not None
    assert answer.definition.metadata is not None
    assert answer.definition.metadata.to_json() == {
        "tags": {"p": ["T"]},
        "properties": {"a": "mine", "b": "override", "c": "mine"},
        "sensitive": ["a"],
    }
    assert answer.definition.rule_set is not None
    assert [(rule.name, rule.type) for rule in answer.definition.rule_set.domain_rules] == [
        ("d", "CEL"),
        ("r", "NEW"),
    ]
    assert registered(topic.rules, "s", request(A)) is None  # the leader must complete the schema first
    assert places(topic.register("s", A, metadata={"properties": {"a": "mine", "c": "mine"}})) == [(1, 1)]


def test_the_version_must_be_the_next_one(topic: Topic) -> None:
    assert refused(topic, "s", A, version=2) == (42201, "Version is not one more than previous version")
    answer = topic.register("s", A, version=1)
    assert places(answer) == [(1, 1)]
    assert answer.definition is not None
    assert answer.definition.metadata is not None
    assert answer.definition.metadata.properties == {"confluent:version": "1"}
    following = topic.register("s", AB)
    assert following.definition is not None
    assert following.definition.metadata is not None
    assert following.definition.metadata.properties == {"confluent:version": "2"}


def test_version_minus_one_makes_a_version_only_for_a_new_schema(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("s", AB)
    assert registered(topic.rules, "s", request(AB, version=-1)) is not None
    assert registered(topic.rules, "s", request(A, version=-1)) is None
    assert places(topic.register("s", A, version=-1)) == [(3, 3)]


@pytest.mark.parametrize("name", ["READONLY", "READONLY_OVERRIDE", "readonly"])
def test_a_readonly_subject_refuses_registrations(topic: Topic, name: str) -> None:
    topic.register("s", A)
    mode(topic, ":.__GLOBAL:", name)
    assert refused(topic, "s", AB) == (42205, "Subject s in context  is in read-only mode")
    assert refused(topic, ":.x:s", AB)[1] == "Subject :.x:s in context :.x: is in read-only mode"
    assert registered(topic.rules, "s", request(A)) is not None


def test_only_an_import_may_bring_an_id(topic: Topic) -> None:
    assert refused(topic, "s", A, id=7)[1] == "Subject s in context  is not in import mode"
    mode(topic, "s", "IMPORT")
    assert refused(topic, "s", A)[1] == "Subject s in context  is not in read-write mode"
    assert places(topic.register("s", A, id=7, version=4)) == [(7, 4)]
    assert places(topic.register("s", C, id=9)) == [(9, 5)]
    assert places(topic.register("s", A, id=7, version=4)) == [(7, 4)]
    mode(topic, "s", "READWRITE")
    assert places(topic.register("s", '{"c":null,"d":1}')) == [(10, 6)]


def test_an_import_cannot_change_the_schema_of_an_id(topic: Topic) -> None:
    mode(topic, None, "IMPORT")
    topic.register("s", A, id=7)
    assert refused(topic, "t", C, id=7) == (
        42205,
        "Overwrite new schema with id 7 in context  is not permitted.",
    )
    assert refused(topic, "t", A, id=7, metadata={})[0] == 42205
    assert places(topic.register("t", A, id=7), topic.register("t", A, id=8, version=2)) == [(7, 1), (8, 2)]
    # Another context has its own ids and its own mode.
    mode(topic, ":.x:", "IMPORT")
    assert places(topic.register(":.x:s", C, id=7)) == [(7, 1)]


def test_an_import_keeps_its_text_and_needs_no_compatibility(topic: Topic) -> None:
    config(topic, "s", normalize=True, compatibility="FULL")
    mode(topic, "s", "IMPORT")
    topic.register("s", '{"b":1,"a":null}', id=3)
    answer = topic.register("s", C, id=5)
    assert places(answer) == [(5, 2)]
    latest = topic.state.version("s", 1)
    assert latest is not None
    assert latest.definition.text == '{"b":1,"a":null}'


def test_a_schema_with_two_ids_is_found_in_its_own_subject(topic: Topic) -> None:
    mode(topic, None, "IMPORT")
    topic.register("s", A, id=7)
    topic.register("t", A, id=8)
    mode(topic, None, "READWRITE")
    assert places(topic.register("s", A), topic.register("t", A), topic.register("u", A)) == [
        (7, 1),
        (8, 1),
        (8, 1),
    ]


def test_there_is_no_id_after_the_highest_number(topic: Topic) -> None:
    mode(topic, None, "IMPORT")
    topic.register("s", A, id=INT_MAX)
    mode(topic, None, "READWRITE", force=True)
    assert refused(topic, "s", AB)[0] == 50001


def test_a_new_context_is_written_once(topic: Topic) -> None:
    topic.register(":.x:s", A)
    topic.register(":.x:t", A)
    contexts = [key for key, _ in topic.records if b"CONTEXT" in key]
    assert contexts == [b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}']
    assert topic.state.contexts() == [".", ".x"]


def test_default_context_may_be_written_out(topic: Topic) -> None:
    topic.register(":.:s", A)
    assert places(topic.register("s", A)) == [(1, 1)]
    assert list(topic.state.subjects()) == ["s"]


@pytest.mark.parametrize(
    ("subject", "text", "members", "code", "message"),
    [
        ("s\n", A, {}, 42208, "The specified subject 's\n' is not a valid."),
        ("__GLOBAL", A, {}, 42208, "The specified subject '__GLOBAL' is not a valid."),
        (":.__GLOBAL:s", A, {}, 42208, "The specified subject ':.__GLOBAL:s' is not a valid."),
        ("s", "[]", {}, 42201, "Invalid schema of type AVRO, details: No type"),
        ("s", '{"_":1}', {}, 42201, "Invalid schema of type AVRO, details: Illegal initial character: _"),
        ("s", A, {"schemaType": "THRIFT"}, 42201, "Invalid schema type THRIFT"),
        ("s", A, {"ruleSet": {"domainRules": [{"type": "CEL"}]}}, 42210, "Missing rule name"),
        (
            "s",
            A,
            {"references": [{"name": "n", "subject": "t", "version": 1}]},
            42201,
            'Invalid schema of type AVRO, details: No schema reference found for subject "t" and version 1',
        ),
        (
            "s",
            A,
            {
                "schemaTagsToAdd": [
                    {"schemaEntity": {"entityPath": "a", "entityType": "sr_field"}, "tags": ["T"]}
                ]
            },
            42201,
            "This registry does not edit the tags of a schema",
        ),
    ],
)
def test_an_invalid_registration_is_refused(
    topic: Topic, subject: str, text: str, members: dict[str, object], code: int, message: str
) -> None:
    assert refused(topic, subject, text, **members) == (code, message)
    assert topic.records == []


def test_an_empty_subject_can_be_refused() -> None:
    assert places(Topic().register("", A)) == [(1, 1)]
    assert refused(Topic(Settings(allow_empty_subject=False)), "", A)[0] == 42208


def test_checks_of_new_schemas_can_be_switched_off(topic: Topic) -> None:
    config(topic, "s", validateNewSchemas=False)
    topic.register("s", '{"_":1}')
    assert places(Topic(Settings(validate_new_schemas=False)).register("t", '{"_":1}')) == [(1, 1)]


def test_tags_are_only_copied_if_the_previous_schema_has_none(topic: Topic) -> None:
    topic.register("s", A)
    assert places(topic.register("s", AB, propagateSchemaTags=True)) == [(2, 2)]
    topic.register("t", '{"confluent:tags":1}')
    assert refused(topic, "t", AB, propagateSchemaTags=True)[0] == 42201


def test_a_schema_imported_with_two_versions_is_answered_with_the_version_of_the_request(
    topic: Topic,
) -> None:
    mode(topic, "s", "IMPORT")
    topic.register("s", A, id=7, version=1)
    topic.register("s", A, id=7, version=2)
    answer = registered(topic.rules, "s", request(A, id=7, version=1))
    assert answer is not None
    assert places(answer) == [(7, 1)]
    assert registered(topic.rules, "s", request(A, id=8, version=1)) is None
    assert registered(topic.rules, "s", request(A, id=7, version=3)) is None
