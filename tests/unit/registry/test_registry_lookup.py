"""Look-ups of schemas, and lists of what the registry has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.formats.registry.documents import ConfigUpdate, ContextId, ModeDocument, SubjectVersion
from kcli.registry.decisions import lists
from kcli.registry.decisions.deletion import delete_context, delete_subject, delete_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.lists import Deleted
from kcli.registry.decisions.lookup import get_by_guid, get_by_id, get_version, latest_with_metadata, look_up
from kcli.registry.decisions.scopes import set_mode, update_config
from kcli.registry.decisions.state import RegistryState
from rigs.small_schemas import Topic, request

A, AB, C = '{"a":null}', '{"a":null,"b":1}', '{"c":null}'


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(RegistryError) as raised:
        call()
    return raised.value.code, raised.value.message


@pytest.fixture
def filled(topic: Topic) -> Topic:
    """s has two versions, of which the first is deleted, t is deleted, and the context .x has a subject s and u."""
    for subject, text in (("s", A), ("s", AB), ("t", C), (":.x:s", C), (":.x:u", A)):
        topic.register(subject, text)
    topic.carry_out(delete_version(topic.rules, "s", 1))
    topic.carry_out(delete_subject(topic.rules, "t"))
    return topic


def test_a_version_has_all_members_of_its_record(filled: Topic) -> None:
    assert get_version(filled.rules, "s", -1).to_json() == {
        "subject": "s",
        "version": 2,
        "id": 2,
        "guid": "b0ef272d-275f-68e0-5645-af0b4fac87da",
        "schemaType": "AVRO",
        "schema": AB,
        "ts": 1001,
        "deleted": False,
    }


def test_a_deleted_version_is_only_returned_on_demand(filled: Topic) -> None:
    assert get_version(filled.rules, "s", 1).subject == ":.x:s"
    assert get_version(filled.rules, "s", 1, deleted=True).deleted is True
    filled.carry_out(delete_subject(filled.rules, ":.x:s"))
    assert refusal(lambda: get_version(filled.rules, "s", 1)) == (40402, "Version 1 not found.")
    assert refusal(lambda: get_version(filled.rules, "t", 1)) == (40401, "Subject 't' not found.")
    assert refusal(lambda: get_version(filled.rules, "t", -1, deleted=True)) == (
        40402,
        "Version -1 not found.",
    )


def test_a_subject_without_a_context_is_looked_up_in_all_contexts(filled: Topic) -> None:
    assert get_version(filled.rules, "u", 1).subject == ":.x:u"
    assert get_version(filled.rules, ":.x:s", 1).definition.text == C
    assert look_up(filled.rules, "u", request(A)).subject == ":.x:u"
    assert refusal(lambda: get_version(filled.rules, ":.:v", 1)) == (40401, "Subject 'v' not found.")
    assert refusal(lambda: get_version(filled.rules, ":.y:u", 1)) == (40401, "Subject ':.y:u' not found.")


def test_a_format_changes_the_text_and_not_the_guid(topic: Topic) -> None:
    topic.register("s", '{"b":1,"a":2}')
    plain = get_version(topic.rules, "s", 1)
    resolved = get_version(topic.rules, "s", 1, format_name="resolved")
    assert (resolved.definition.text, resolved.guid) == ('{"a":2,"b":1}', plain.guid)
    assert get_version(topic.rules, "s", 1, format_name=" ") == plain
    assert get_by_id(topic.rules, 1, format_name="resolved").definition.text == '{"a":2,"b":1}'
    assert look_up(topic.rules, "s", request('{"b":1,"a":2}'), format_name="resolved").guid == plain.guid


def test_references_can_have_the_prefix_of_their_context(topic: Topic) -> None:
    topic.register(":.x:s", A)
    topic.register(":.x:t", '{"$a":"n"}', references=[{"name": "n", "subject": "s", "version": -1}])
    plain = get_version(topic.rules, ":.x:t", 1).definition.references[0]
    assert (plain.subject, plain.version) == ("s", 1)
    assert (
        get_version(topic.rules, ":.x:t", 1, references="qualified").definition.references[0].subject
        == ":.x:s"
    )
    assert (
        get_by_id(topic.rules, 2, ":.x:", references="qualified").definition.references[0].subject == ":.x:s"
    )


def test_an_id_belongs_to_a_context(filled: Topic) -> None:
    assert get_by_id(filled.rules, 1).to_json().get("subject") is None
    assert get_by_id(filled.rules, 1).definition.text == A
    assert get_by_id(filled.rules, 1, ":.x:").definition.text == C
    # The subject u exists only in the context .x, where its id is 2.
    found = get_by_id(filled.rules, 2, "u")
    assert (found.subject, found.version, found.definition.text) == (":.x:u", 1, A)
    # The subject s does not have the id 3, but the default context has it.
    assert get_by_id(filled.rules, 3, "s").definition.text == C
    assert refusal(lambda: get_by_id(filled.rules, 2, ":.x:s")) == (40403, "Schema 2 not found")
    assert refusal(lambda: get_by_id(filled.rules, 9)) == (40403, "Schema 9 not found")


def test_an_id_prefers_a_version_that_is_not_deleted(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", A)
    topic.carry_out(delete_subject(topic.rules, "s"))
    found = get_by_id(topic.rules, 1, "", with_max_id=True)
    assert (found.subject, found.version, found.deleted, found.max_id) == ("t", 1, False, 1)


def test_a_guid_is_looked_up_in_all_contexts(filled: Topic) -> None:
    guid = get_version(filled.rules, ":.x:s", 1).guid or ""
    found = get_by_guid(filled.rules, guid)
    assert (found.definition.text, found.subject, found.version) == (C, None, None)
    assert lists.ids_of_guid(filled.rules, guid) == [ContextId(".", 3), ContextId(".x", 1)]
    assert lists.ids_of_guid(filled.rules, "no guid") == []
    assert refusal(lambda: get_by_guid(filled.rules, "no guid")) == (40403, "Schema no guid not found")


def test_a_text_is_looked_up_in_its_subject(filled: Topic) -> None:
    found = look_up(filled.rules, "s", request('{"a": null, "b": 1}'))
    assert (found.version, found.timestamp_ms, found.deleted) == (2, None, None)
    assert refusal(lambda: look_up(filled.rules, "s", request(A))) == (40403, "Schema not found")
    assert look_up(filled.rules, "s", request(A), deleted=True).version == 1
    assert refusal(lambda: look_up(filled.rules, "t", request(A))) == (40401, "Subject 't' not found.")
    assert refusal(lambda: look_up(filled.rules, "s", request("")))[0] == 40403
    assert refusal(lambda: look_up(filled.rules, "s", request("x")))[0] == 42201


def test_an_equal_text_is_looked_up_too(topic: Topic) -> None:
    topic.register("s", '{"b":1,"a":2}')
    found = look_up(topic.rules, "s", request('{"a":2,"b":1}'))
    assert (found.version, found.definition.text, found.deleted) == (1, '{"b":1,"a":2}', False)
    assert refusal(lambda: look_up(topic.rules, "s", request('{"a":2,"b":1}', schemaType="JSON")))[0] == 40403


def test_a_normalized_text_is_looked_up_exactly(topic: Topic) -> None:
    topic.register("s", '{"a":2,"b":1}')
    assert look_up(topic.rules, "s", request('{"b":1,"a":2}'), normalize=True).deleted is None
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"normalize": True})))
    assert look_up(topic.rules, "s", request('{"b":1,"a":2}')).deleted is None


def test_a_look_up_inherits_metadata_as_a_registration_does(topic: Topic) -> None:
    topic.register("s", A, metadata={"properties": {"k": "v"}})
    assert look_up(topic.rules, "s", request(A)).version == 1
    assert refusal(lambda: look_up(topic.rules, "s", request(A, metadata={})))[0] == 40403


def test_the_version_property_does_not_make_another_schema(topic: Topic) -> None:
    topic.register("s", A, version=1)
    metadata = {"properties": {"confluent:version": "1"}}
    assert look_up(topic.rules, "s", request(A)).version == 1
    assert look_up(topic.rules, "s", request(A, metadata=metadata)).version == 1
    topic.register("t", A)
    assert look_up(topic.rules, "t", request(A, metadata=metadata)).version == 1
    other = {"properties": {"confluent:version": "2"}}
    assert refusal(lambda: look_up(topic.rules, "t", request(A, metadata=other)))[0] == 40403


def test_a_schema_with_all_references_in_its_text_is_found(topic: Topic) -> None:
    references = [{"name": "n", "subject": "s", "version": 1}]
    topic.register("s", A)
    topic.register("t", '{"$a":"n","b":1}', references=references)
    assert look_up(topic.rules, "t", request(AB)).version == 1
    latest = [{"name": "n", "subject": "s", "version": -1}]
    assert look_up(topic.rules, "t", request('{"b":1,"$a":"n"}', references=latest)).version == 1
    topic.register("s", AB)
    assert (
        refusal(lambda: look_up(topic.rules, "t", request('{"b":1,"$a":"n"}', references=latest)))[0] == 40403
    )


def test_a_schema_that_this_registry_cannot_parse_matches_nothing(topic: Topic) -> None:
    topic.write((b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"id":1,"schema":"broken"}'))
    assert refusal(lambda: look_up(topic.rules, "s", request(A)))[0] == 40403
    assert refusal(lambda: topic.register("s", A))[0] == 42201
    assert get_version(topic.rules, "s", 1).definition.text == "broken"


def test_the_newest_version_with_properties_is_found(topic: Topic) -> None:
    for version, text in enumerate((A, AB, '{"a":null,"b":1,"c":1}')):
        topic.register(
            "s", text, metadata={"properties": {"k": "v" if version < 2 else "w", "n": str(version)}}
        )
    assert latest_with_metadata(topic.rules, "s", {"k": "v"}).version == 2
    assert latest_with_metadata(topic.rules, "s", {}).version == 3
    assert latest_with_metadata(topic.rules, "s", {"k": "v", "n": "0"}).version == 1
    topic.carry_out(delete_version(topic.rules, "s", 2))
    assert latest_with_metadata(topic.rules, "s", {"k": "v"}).version == 1
    assert latest_with_metadata(topic.rules, "s", {"k": "v"}, deleted=True).version == 2
    assert refusal(lambda: latest_with_metadata(topic.rules, "s", {"k": "x"})) == (40403, "Schema not found")
    assert refusal(lambda: latest_with_metadata(topic.rules, "t", {})) == (40401, "Subject 't' not found.")


@pytest.mark.parametrize(
    ("prefix", "deleted", "subjects"),
    [
        (":*:", Deleted.EXCLUDED, [":.x:s", ":.x:u", "s"]),
        (":*:", Deleted.INCLUDED, [":.x:s", ":.x:u", "s", "t"]),
        (":*:", Deleted.ONLY, ["t"]),
        (":*:s", Deleted.EXCLUDED, [":.x:s", "s"]),
        ("", Deleted.EXCLUDED, ["s"]),
        (":.:", Deleted.EXCLUDED, ["s"]),
        (":.x:", Deleted.EXCLUDED, [":.x:s", ":.x:u"]),
        (":.x:u", Deleted.EXCLUDED, [":.x:u"]),
        (":.", Deleted.EXCLUDED, [":.x:s", ":.x:u", "s"]),
        (":.y", Deleted.EXCLUDED, []),
        ("t", Deleted.INCLUDED, ["t"]),
    ],
)
def test_subjects_are_listed_by_a_prefix(
    filled: Topic, prefix: str, deleted: Deleted, subjects: list[str]
) -> None:
    assert lists.subjects(filled.rules, prefix, deleted) == subjects


def test_versions_are_listed_with_or_without_deleted_ones(filled: Topic) -> None:
    assert lists.versions(filled.rules, "s") == [2]
    assert lists.versions(filled.rules, "s", Deleted.INCLUDED) == [1, 2]
    assert lists.versions(filled.rules, "s", Deleted.ONLY) == [1]
    assert lists.versions(filled.rules, "s", negative=True) == [-1, 2]
    assert lists.versions(filled.rules, ":.x:u", Deleted.ONLY) == []
    assert refusal(lambda: lists.versions(filled.rules, "t")) == (40401, "Subject 't' not found.")


def test_schemas_are_listed_by_a_prefix(filled: Topic) -> None:
    def listed(prefix: str, *, deleted: bool = False, latest_only: bool = False) -> list[tuple[str, int]]:
        schemas = lists.schemas(filled.rules, prefix, deleted=deleted, latest_only=latest_only)
        return [(schema.subject, schema.version) for schema in schemas]

    assert listed("") == [("s", 2)]
    assert listed("", deleted=True) == [("s", 1), ("s", 2), ("t", 1)]
    assert listed(":*:", deleted=True, latest_only=True) == [(":.x:s", 1), (":.x:u", 1), ("s", 2), ("t", 1)]


def test_schemas_are_listed_by_the_type_of_a_rule_and_with_aliases(topic: Topic) -> None:
    topic.register("s", A, ruleSet={"encodingRules": [{"name": "e", "type": "ENCRYPT"}]})
    topic.register("t", A)
    assert [schema.subject for schema in lists.schemas(topic.rules, rule_type="ENCRYPT")] == ["s"]
    topic.carry_out(update_config(topic.rules, "alias", ConfigUpdate.from_json({"alias": "t"})))
    listed = lists.schemas(topic.rules, "al", with_aliases=True)
    assert [(schema.subject, schema.aliases) for schema in listed] == [("t", ("alias",))]
    assert lists.schemas(topic.rules, "al") == []


def test_the_versions_of_an_id_are_listed(topic: Topic) -> None:
    for subject in ("t", "s", ":.x:s"):
        topic.register(subject, A)
    topic.carry_out(delete_subject(topic.rules, "t"))
    assert lists.versions_of_id(topic.rules, 1) == [SubjectVersion("s", 1)]
    assert lists.versions_of_id(topic.rules, 1, deleted=True) == [
        SubjectVersion("s", 1),
        SubjectVersion("t", 1),
    ]
    assert lists.subjects_of_id(topic.rules, 1, ":.x:") == [":.x:s"]
    assert refusal(lambda: lists.subjects_of_id(topic.rules, 2)) == (40403, "Schema not found")


def test_a_subject_with_two_versions_of_an_id_is_listed_once(topic: Topic) -> None:
    topic.carry_out(set_mode(topic.rules, "s", ModeDocument("IMPORT")))
    topic.register("s", A, id=5, version=1)
    topic.register("s", A, id=5, version=2)
    assert lists.subjects_of_id(topic.rules, 5) == ["s"]
    assert [held.version for held in lists.versions_of_id(topic.rules, 5)] == [1, 2]
    assert get_by_id(topic.rules, 5, "s").version == 2


def test_the_referrers_of_a_version_are_listed(topic: Topic) -> None:
    reference = {"name": "n", "subject": "s", "version": 1}
    topic.register("s", A)
    topic.register("t", '{"$a":"n"}', references=[reference])
    topic.register("u", '{"$a":"n"}', references=[reference])
    topic.register("v", '{"$a":"n","b":1}', references=[reference])
    assert lists.referenced_by(topic.rules, "s", -1) == [2, 3]
    topic.carry_out(delete_subject(topic.rules, "v"))
    topic.carry_out(delete_subject(topic.rules, "u"))
    assert lists.referenced_by(topic.rules, "s", 1) == [2]
    assert lists.referenced_by(topic.rules, "s", 1, deleted=True) == [2, 3]
    assert refusal(lambda: lists.referenced_by(topic.rules, "s", 2)) == (40402, "Version 2 not found.")


def test_contexts_are_listed_in_order(topic: Topic) -> None:
    for subject in (":.b:s", ":.a:s", "s"):
        topic.register(subject, A)
    assert lists.contexts(topic.rules) == [".", ".a", ".b"]
    assert lists.contexts(topic.rules, ".b") == [".b"]


def test_a_known_subject_is_found_without_a_look_into_other_contexts(
    filled: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(_: RegistryState) -> list[str]:
        raise AssertionError("a registry may have thousands of contexts")

    monkeypatch.setattr(RegistryState, "contexts", unexpected)
    assert get_version(filled.rules, "s", 2).version == 2
    assert get_by_id(filled.rules, 2, "s").version == 2
    assert look_up(filled.rules, "s", request(AB)).version == 2


def test_contexts_are_equal_in_any_order_of_their_records(topic: Topic) -> None:
    other = Topic()
    for subjects, registry in (((":.a:s", ":.b:s"), topic), ((":.b:s", ":.a:s"), other)):
        for subject in subjects:
            registry.register(subject, A)
    assert topic.state.contexts() == other.state.contexts()
    topic.carry_out(delete_subject(topic.rules, ":.a:s"))
    topic.carry_out(delete_subject(topic.rules, ":.a:s", permanent=True))
    topic.carry_out(delete_context(topic.rules, ":.a:"))
    assert topic.state.contexts() == [".", ".b"] and not topic.state.has_context(".a")
    assert topic.state.has_context(".b") and not topic.state.has_context(".c")
