"""Soft and permanent deletions of versions, subjects and contexts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.formats.registry.documents import ConfigUpdate, ModeDocument
from kcli.registry.decisions.deletion import delete_context, delete_subject, delete_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.lookup import get_by_id, version_number
from kcli.registry.decisions.scopes import set_mode, update_config
from rigs.small_schemas import Topic

A, AB, ABC = '{"a":null}', '{"a":null,"b":1}', '{"a":null,"b":1,"c":1}'
REFERENCE = {"name": "n", "subject": "s", "version": 1}


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(RegistryError) as raised:
        call()
    return raised.value.code, raised.value.message


@pytest.fixture
def filled(topic: Topic) -> Topic:
    for text in (A, AB, ABC):
        topic.register("s", text)
    return topic


def test_a_version_is_deleted_softly_and_then_for_good(filled: Topic) -> None:
    assert filled.carry_out(delete_version(filled.rules, "s", version_number("latest"))) == 3
    assert filled.records[-1][1] == (
        b'{"subject":"s","version":3,"id":3,"schemaType":"AVRO",'
        b'"schema":"{\\"a\\":null,\\"b\\":1,\\"c\\":1}","deleted":true}'
    )
    assert get_by_id(filled.rules, 3).definition.text == ABC
    assert refusal(lambda: delete_version(filled.rules, "s", 3)) == (
        40406,
        "Subject 's' Version 3 was soft deleted.Set permanent=true to delete permanently",
    )
    assert filled.carry_out(delete_version(filled.rules, "s", 3, permanent=True)) == 3
    assert refusal(lambda: get_by_id(filled.rules, 3)) == (40403, "Schema 3 not found")
    assert refusal(lambda: delete_version(filled.rules, "s", 3)) == (40402, "Version 3 not found.")
    assert [schema.version for schema in filled.state.live_versions("s")] == [1, 2]


def test_a_live_version_is_not_deleted_for_good(filled: Topic) -> None:
    assert refusal(lambda: delete_version(filled.rules, "s", 1, permanent=True)) == (
        40407,
        "Subject 's' Version 1 was not deleted first before being permanently deleted",
    )
    assert refusal(lambda: delete_version(filled.rules, "t", 1)) == (40401, "Subject 't' not found.")


def test_a_subject_is_deleted_softly_and_then_for_good(filled: Topic) -> None:
    filled.carry_out(delete_version(filled.rules, "s", 2))
    assert filled.carry_out(delete_subject(filled.rules, "s")) == (1, 3)
    assert filled.records[-1] == (
        b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        b'{"subject":"s","version":3}',
    )
    assert filled.state.live_versions("s") == []
    assert refusal(lambda: delete_subject(filled.rules, "s")) == (
        40404,
        "Subject 's' was soft deleted.Set permanent=true to delete permanently",
    )
    assert filled.carry_out(delete_subject(filled.rules, "s", permanent=True)) == (1, 2, 3)
    assert [key for key, value in filled.records if value is None] == [
        b'{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":2,"magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
    ]
    assert refusal(lambda: delete_subject(filled.rules, "s")) == (40401, "Subject 's' not found.")
    assert filled.restarted(compacted=True).records is filled.records
    assert list(filled.restarted(compacted=True).state.subjects()) == []


def test_a_subject_with_a_live_version_is_not_deleted_for_good(filled: Topic) -> None:
    assert refusal(lambda: delete_subject(filled.rules, "s", permanent=True)) == (
        40405,
        "Subject 's' was not deleted first before being permanently deleted",
    )


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_last_version_takes_config_and_mode_with_it(topic: Topic, one_by_one: bool) -> None:
    topic.register("s", A)
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json({"compatibility": "none"})))
    topic.carry_out(set_mode(topic.rules, "s", ModeDocument("READWRITE")))
    topic.carry_out(delete_subject(topic.rules, "s"))
    assert (len(topic.state.configs), len(topic.state.modes)) == (1, 1)
    if one_by_one:
        topic.carry_out(delete_version(topic.rules, "s", 1, permanent=True))
    else:
        topic.carry_out(delete_subject(topic.rules, "s", permanent=True))
    assert (topic.state.configs, topic.state.modes) == ({}, {})


def test_a_referenced_version_is_not_deleted(filled: Topic) -> None:
    filled.register("t", '{"$a":"n"}', references=[REFERENCE])
    expected = (
        42206,
        "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=s,version=1}.",
    )
    assert refusal(lambda: delete_version(filled.rules, "s", 1)) == expected
    assert refusal(lambda: delete_subject(filled.rules, "s")) == expected
    filled.carry_out(delete_subject(filled.rules, "t"))
    filled.carry_out(delete_subject(filled.rules, "s"))
    # A deleted schema can come back, so its references still protect a version from permanent deletion.
    assert refusal(lambda: delete_version(filled.rules, "s", 1, permanent=True)) == expected
    assert refusal(lambda: delete_subject(filled.rules, "s", permanent=True)) == expected
    filled.carry_out(delete_subject(filled.rules, "t", permanent=True))
    assert filled.carry_out(delete_subject(filled.rules, "s", permanent=True)) == (1, 2, 3)


def test_a_subject_that_refers_to_itself_is_deleted_from_its_newest_version(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("s", '{"$a":"n","b":1}', references=[REFERENCE])
    assert refusal(lambda: delete_version(topic.rules, "s", 1))[0] == 42206
    topic.carry_out(delete_subject(topic.rules, "s"))
    topic.carry_out(delete_subject(topic.rules, "s", permanent=True))
    assert list(topic.state.subjects()) == []


def test_a_readonly_subject_is_not_deleted(filled: Topic) -> None:
    filled.carry_out(set_mode(filled.rules, "s", ModeDocument("READONLY")))
    expected = (42205, "Subject s in context  is in read-only mode")
    assert refusal(lambda: delete_version(filled.rules, "s", 1)) == expected
    assert refusal(lambda: delete_subject(filled.rules, "s")) == expected


def test_only_an_empty_context_is_deleted(topic: Topic) -> None:
    topic.register(":.x:s", A)
    topic.carry_out(delete_subject(topic.rules, ":.x:s"))
    assert refusal(lambda: delete_context(topic.rules, ":.x:")) == (
        42211,
        "The specified context ':.x:' is not empty.",
    )
    topic.carry_out(delete_subject(topic.rules, ":.x:s", permanent=True))
    assert topic.state.contexts() == [".", ".x"]
    topic.carry_out(delete_context(topic.rules, ":.x"))
    assert topic.records[-1] == (b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}', None)
    assert topic.state.contexts() == ["."]
    assert delete_context(topic.rules, ":.x:").entries == ()


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), (" 7 ", 7), ("latest", -1), ("Latest", -1), ("-1", -1), ("+2", 2)]
)
def test_a_version_is_a_number_or_latest(text: str, number: int) -> None:
    assert version_number(text) == number


@pytest.mark.parametrize("text", ["0", "-2", "", "x", "1.5", "2147483648", "1_0"])
def test_an_invalid_version_is_refused(text: str) -> None:
    allowed = 'Allowed values are between [1, 2^31-1] and the string "latest"'
    message = f"The specified version '{text}' is not a valid version id. {allowed}"
    assert refusal(lambda: version_number(text)) == (42202, message)


def test_a_second_deletion_covers_the_versions_of_the_first(filled: Topic) -> None:
    filled.carry_out(delete_subject(filled.rules, "s"))
    filled.carry_out(set_mode(filled.rules, "s", ModeDocument("IMPORT"), force=True))
    filled.register("s", AB, id=2, version=2)
    assert filled.carry_out(delete_subject(filled.rules, "s")) == (2,)
    # Compaction removes the record of the first deletion.
    assert filled.restarted(compacted=True).state.live_versions("s") == []
