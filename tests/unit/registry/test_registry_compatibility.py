"""Compatibility: levels and directions, transitive levels, groups, types and messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.formats.registry.documents import ConfigUpdate
from kcli.registry.decisions.checks import check_compatibility
from kcli.registry.decisions.compatibility import OLD_SCHEMA_CHARACTERS_MAX
from kcli.registry.decisions.configs import Level
from kcli.registry.decisions.deletion import delete_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.scopes import update_config
from rigs.small_schemas import Topic, request

A, AB, C = '{"a":null}', '{"a":null,"b":null}', '{"c":null}'


def config(topic: Topic, **members: object) -> None:
    topic.carry_out(update_config(topic.rules, "s", ConfigUpdate.from_json(members)))


def messages(topic: Topic, text: str, version: int | None = None, **members: object) -> list[str]:
    answer = check_compatibility(topic.rules, "s", request(text, **members), version, verbose=True)
    assert answer.messages is not None
    assert answer.is_compatible == (not answer.messages)
    return list(answer.messages)


def versions(topic: Topic, *texts: str, **members: object) -> None:
    config(topic, compatibility="NONE")
    for text in texts:
        topic.register("s", text, **members)


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(RegistryError) as raised:
        call()
    return raised.value.code, raised.value.message


# By level: whether a field may be added, and whether it may be removed, after one and after two versions.
@pytest.mark.parametrize(
    ("level", "add", "remove", "add_after_two", "remove_after_two"),
    [
        (Level.NONE, True, True, True, True),
        (Level.BACKWARD, False, True, False, True),
        (Level.BACKWARD_TRANSITIVE, False, True, False, True),
        (Level.FORWARD, True, False, True, False),
        (Level.FORWARD_TRANSITIVE, True, False, True, False),
        (Level.FULL, False, False, False, False),
        (Level.FULL_TRANSITIVE, False, False, False, False),
    ],
)
def test_a_level_decides_which_changes_are_compatible(
    topic: Topic, level: Level, add: bool, remove: bool, add_after_two: bool, remove_after_two: bool
) -> None:
    versions(topic, A)
    config(topic, compatibility=level)
    assert (not messages(topic, AB), not messages(topic, "{}")) == (add, remove)
    versions(topic, '{"a":null,"d":1}')
    config(topic, compatibility=level)
    assert (not messages(topic, AB), not messages(topic, "{}")) == (add_after_two, remove_after_two)


@pytest.mark.parametrize(
    ("level", "is_compatible"), [(Level.BACKWARD, True), (Level.BACKWARD_TRANSITIVE, False)]
)
def test_only_a_transitive_level_compares_older_versions(
    topic: Topic, level: Level, is_compatible: bool
) -> None:
    versions(topic, C, A)
    config(topic, compatibility=level)
    assert (not messages(topic, A)) == is_compatible


def test_a_transitive_comparison_ends_at_the_newest_incompatible_version(topic: Topic) -> None:
    versions(topic, C, A, '{"b":null}', '{"a":null,"b":1}')
    config(topic, compatibility="BACKWARD_TRANSITIVE")
    assert messages(topic, A)[1] == "{oldSchemaVersion: 3}"
    topic.carry_out(delete_version(topic.rules, "s", 3))
    assert messages(topic, A)[1] == "{oldSchemaVersion: 1}"


def test_the_messages_name_the_direction(topic: Topic) -> None:
    versions(topic, A)
    shown = ["{oldSchemaVersion: 1}", "{oldSchema: '{\"a\":null}'}"]
    backward = "{field 'b' of the new schema is missing in the old schema, STRICT}"
    forward = "{field 'a' of the old schema is missing in the new schema, STRICT}"

    def last(level: str) -> str:
        return f"{{validateFields: 'false', compatibility: '{level}'}}"

    config(topic, compatibility="BACKWARD")
    assert messages(topic, '{"b":null}') == [backward, *shown, last("BACKWARD")]
    config(topic, compatibility="FORWARD")
    assert messages(topic, '{"b":null}') == [forward, *shown, last("FORWARD")]
    config(topic, compatibility="FULL")
    assert messages(topic, '{"b":null}') == [forward, backward, *shown, last("FULL")]
    assert messages(topic, "{}") == [forward, last("FULL")]
    assert messages(topic, AB) == [backward, *shown, last("FULL")]


def test_a_long_old_schema_is_cut(topic: Topic) -> None:
    text = '{"' + "x" * OLD_SCHEMA_CHARACTERS_MAX + '":1}'
    versions(topic, text)
    config(topic, compatibility="BACKWARD")
    assert messages(topic, A)[2] == f"{{oldSchema: <truncated> '{text[:OLD_SCHEMA_CHARACTERS_MAX]}...'}}"


def test_another_type_is_never_compatible(topic: Topic) -> None:
    versions(topic, A)
    assert messages(topic, A, schemaType="JSON") == []
    config(topic, compatibility="FORWARD")
    assert messages(topic, A, schemaType="JSON") == [
        "Incompatible because of different schema type",
        "{validateFields: 'false', compatibility: 'FORWARD'}",
    ]


def test_a_policy_reaches_the_language(topic: Topic) -> None:
    versions(topic, A)
    config(topic, compatibility="BACKWARD", compatibilityPolicy="lenient")
    assert messages(topic, C)[0].endswith("LENIENT}")


def test_a_group_limits_the_versions_that_are_compared(topic: Topic) -> None:
    config(topic, compatibility="BACKWARD", compatibilityGroup="major")
    one, two = ({"properties": {"major": number}} for number in ("1", "2"))
    topic.register("s", A, metadata=one)
    assert messages(topic, C, metadata=one)[1] == "{oldSchemaVersion: 1}"
    assert messages(topic, C, metadata=two) == messages(topic, C) == []
    topic.register("s", C, metadata=two)
    assert messages(topic, AB, metadata=one)[1] == "{oldSchemaVersion: 1}"


def test_one_version_can_be_checked(topic: Topic) -> None:
    versions(topic, C, A)
    config(topic, compatibility="BACKWARD")
    assert messages(topic, A, 2) == messages(topic, A, -1) == []
    assert messages(topic, A, 1)[1] == "{oldSchemaVersion: 1}"
    assert refusal(lambda: messages(topic, A, 3)) == (40402, "Version 3 not found.")
    topic.carry_out(delete_version(topic.rules, "s", 1))
    assert refusal(lambda: messages(topic, A, 1)) == (40402, "Version 1 not found.")


def test_a_subject_without_versions_is_compatible_with_everything(topic: Topic) -> None:
    assert messages(topic, A) == messages(topic, A, -1) == []
    assert refusal(lambda: messages(topic, A, 1)) == (40402, "Version 1 not found.")


def test_an_invalid_schema_is_a_reason_if_the_client_asks_for_reasons(topic: Topic) -> None:
    assert messages(topic, "x")[0].startswith("Invalid schema of type AVRO, details: ")
    assert messages(topic, "") == ["Empty schema"]
    assert messages(topic, '{"_":1}') == [
        "Invalid schema of type AVRO, details: Illegal initial character: _"
    ]
    assert refusal(lambda: check_compatibility(topic.rules, "s", request("x")))[0] == 42201
    assert check_compatibility(topic.rules, "s", request(A)).to_json() == {"is_compatible": True}


def test_an_unknown_level_or_policy_of_another_writer_counts_as_the_default(topic: Topic) -> None:
    topic.register("s", A)
    value = b'{"subject":"s","compatibilityLevel":"SOME","compatibilityPolicy":"OTHER"}'
    topic.write((b'{"keytype":"CONFIG","subject":"s","magic":0}', value))
    assert messages(topic, C)[0].endswith("STRICT}")
    assert messages(topic, C)[-1] == "{validateFields: 'false', compatibility: 'BACKWARD'}"
