"""Configs and modes of subjects, of contexts and of the registry."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kcli.formats.registry.documents import ConfigUpdate, ModeDocument
from kcli.registry.decisions.configs import Level, Settings, alias_of
from kcli.registry.decisions.deletion import delete_subject
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.records import Mode
from kcli.registry.decisions.scopes import (
    delete_config,
    delete_mode,
    get_config,
    get_mode,
    set_mode,
    update_config,
)
from rigs.small_schemas import Topic

A = '{"a":null}'
GLOBAL = ":.__GLOBAL:"


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(RegistryError) as raised:
        call()
    return raised.value.code, raised.value.message


def put(topic: Topic, subject: str | None, **members: object) -> dict[str, object]:
    answer = topic.carry_out(update_config(topic.rules, subject, ConfigUpdate.from_json(members)))
    return dict(answer.to_json())


def level(topic: Topic, subject: str | None) -> str | None:
    return get_config(topic.rules, subject, default_to_global=True).compatibility_level


def mode(topic: Topic, subject: str | None, name: str | None, *, force: bool = False) -> None:
    topic.carry_out(set_mode(topic.rules, subject, ModeDocument(name), force=force))


def test_the_registry_has_the_level_of_its_properties() -> None:
    topic = Topic(Settings(level=Level.FULL))
    assert get_config(topic.rules, None).to_json() == {"compatibilityLevel": "FULL"}
    assert get_config(topic.rules, GLOBAL).to_json() == {"compatibilityLevel": "FULL"}
    assert refusal(lambda: get_config(topic.rules, "s")) == (
        40408,
        "Subject 's' does not have subject-level compatibility configured",
    )
    assert level(topic, "s") == "FULL"


def test_an_update_changes_only_the_members_that_it_has(topic: Topic) -> None:
    assert put(topic, "s", compatibility="full", normalize=True) == {
        "normalize": True,
        "compatibility": "FULL",
    }
    assert put(topic, "s", alias="t") == {"alias": "t", "normalize": True, "compatibility": "FULL"}
    assert put(topic, "s", alias=None, compatibility=None) == {"normalize": True}
    assert topic.records[-1] == (
        b'{"keytype":"CONFIG","subject":"s","magic":0}',
        b'{"subject":"s","normalize":true}',
    )
    assert get_config(topic.rules, "s").to_json() == {"normalize": True, "compatibilityLevel": "BACKWARD"}


def test_a_config_applies_to_its_scope(topic: Topic) -> None:
    topic.register(":.x:s", A)
    assert [level(topic, subject) for subject in (None, "s", ":.x:", ":.x:s")] == ["BACKWARD"] * 4
    put(topic, GLOBAL, compatibility="NONE")
    assert [level(topic, subject) for subject in (None, "s", ":.x:", ":.x:s")] == ["NONE"] * 4
    put(topic, None, compatibility="FORWARD")
    assert [level(topic, subject) for subject in (None, "s", ":.x:", ":.x:s")] == ["FORWARD"] * 2 + [
        "NONE"
    ] * 2
    put(topic, ":.x", compatibility="FULL")
    assert [level(topic, subject) for subject in (None, "s", ":.x:", ":.x:s")] == ["FORWARD"] * 2 + [
        "FULL"
    ] * 2
    put(topic, "s", compatibility="FORWARD_TRANSITIVE")
    assert level(topic, "s") == "FORWARD_TRANSITIVE"
    assert level(topic, "t") == "FORWARD"


def test_a_subject_inherits_members_of_the_default_context_but_not_its_level(topic: Topic) -> None:
    put(
        topic, "", compatibility="FULL", normalize=True, compatibilityGroup="g", alias="x", defaultMetadata={}
    )
    put(topic, "s", validateRules=False)
    config = get_config(topic.rules, "s", default_to_global=True)
    assert config.to_json() == {
        "normalize": True,
        "validateRules": False,
        "compatibilityLevel": "BACKWARD",
        "compatibilityGroup": "g",
    }


def test_a_config_is_deleted_and_answered(topic: Topic) -> None:
    put(topic, "s", compatibility="NONE")
    assert topic.carry_out(delete_config(topic.rules, "s")).to_json() == {"compatibilityLevel": "NONE"}
    assert topic.records[-1] == (b'{"keytype":"CONFIG","subject":"s","magic":0}', None)
    assert refusal(lambda: delete_config(topic.rules, "s")) == (40401, "Subject 's' not found.")
    assert delete_config(topic.rules, None).entries == ()
    put(topic, None, compatibility="FULL")
    assert topic.carry_out(delete_config(topic.rules, None)).to_json() == {"compatibilityLevel": "FULL"}
    assert topic.state.configs == {}


@pytest.mark.parametrize(
    ("members", "code", "message"),
    [
        (
            {"compatibility": "SOME"},
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward",
        ),
        ({"compatibility": ""}, 42203, "Invalid compatibility level"),
        (
            {"compatibilityPolicy": "LOGICAL"},
            42203,
            "Invalid compatibility policy LOGICAL. Valid values are strict",
        ),
        ({"defaultRuleSet": {"domainRules": [{"name": "r"}]}}, 42210, "Missing rule type"),
        ({"overrideRuleSet": {"domainRules": [{"name": ""}]}}, 42210, "Empty rule name"),
    ],
)
def test_an_invalid_config_is_refused(
    topic: Topic, members: dict[str, object], code: int, message: str
) -> None:
    refused_code, refused_message = refusal(lambda: put(topic, "s", **members))
    assert refused_code == code
    assert refused_message.startswith(message)


def test_a_config_needs_a_valid_subject_and_a_mode_that_allows_changes(topic: Topic) -> None:
    assert refusal(lambda: put(topic, "__EMPTY", compatibility="NONE"))[0] == 42208
    mode(topic, None, "READONLY")
    expected = (42205, "Subject null in context  is in read-only mode")
    assert refusal(lambda: put(topic, None, compatibility="NONE")) == expected
    assert refusal(lambda: delete_config(topic.rules, None)) == expected


def test_an_alias_means_another_subject(topic: Topic) -> None:
    put(topic, "s", alias="t")
    put(topic, ":.x:s", alias="t")
    put(topic, ":.y:s", alias=":.x:t")
    assert [alias_of(topic.state, subject) for subject in ("s", "t", ":.x:s", ":.y:s")] == [
        "t",
        "t",
        ":.x:t",
        ":.x:t",
    ]


def test_a_mode_applies_to_its_scope(topic: Topic) -> None:
    scopes = (None, "s", ":.x:", ":.x:s")
    assert get_mode(topic.rules, None).mode == "READWRITE"
    mode(topic, GLOBAL, "readonly")
    assert {topic.rules.mode_of(scope) for scope in scopes} == {Mode.READONLY}
    mode(topic, "", "READWRITE")
    mode(topic, ":.x:s", "READONLY_OVERRIDE")
    assert [topic.rules.mode_of(scope) for scope in scopes] == (
        [Mode.READWRITE, Mode.READWRITE, Mode.READONLY, Mode.READONLY_OVERRIDE]
    )
    assert get_mode(topic.rules, "s", default_to_global=True).mode == "READWRITE"
    assert refusal(lambda: get_mode(topic.rules, "s")) == (
        40409,
        "Subject 's' does not have subject-level mode configured",
    )


def test_a_mode_is_deleted_and_answered(topic: Topic) -> None:
    assert refusal(lambda: delete_mode(topic.rules, "s")) == (40401, "Subject 's' not found.")
    mode(topic, "s", "READONLY")
    assert topic.carry_out(delete_mode(topic.rules, "s")).mode == "READONLY"
    mode(topic, None, "READONLY")
    mode(topic, None, None)
    assert topic.state.modes == {}
    assert topic.carry_out(delete_mode(topic.rules, None)).mode == "READWRITE"


def test_a_recursive_deletion_covers_the_subjects_of_a_context(topic: Topic) -> None:
    for scope in (None, "s", ":.x:", ":.x:s", ":.x:t", ":.y:s"):
        mode(topic, scope, "READWRITE")
    assert topic.carry_out(delete_mode(topic.rules, ":.x:", recursive=True)).mode == "READWRITE"
    assert list(topic.state.modes) == [None, "s", ":.y:s"]
    assert topic.carry_out(delete_mode(topic.rules, ":.x:", recursive=True)).mode is None
    topic.carry_out(delete_mode(topic.rules, None, recursive=True))
    assert list(topic.state.modes) == [":.y:s"]


@pytest.mark.parametrize(
    ("subject", "name", "code", "message"),
    [
        ("s", "OTHER", 42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."),
        ("s", "FORWARD", 42204, "Forward mode only supported on global level"),
        (None, "forward", 42204, "Forward mode only supported on global level"),
        ("s\x7f", "IMPORT", 42208, "The specified subject 's\x7f' is not a valid."),
    ],
)
def test_an_invalid_mode_is_refused(
    topic: Topic, subject: str | None, name: str, code: int, message: str
) -> None:
    assert refusal(lambda: mode(topic, subject, name)) == (code, message)


def test_the_properties_can_forbid_changes_of_modes() -> None:
    topic = Topic(Settings(allow_mode_changes=False))
    expected = (42205, "Mode changes are not allowed")
    assert refusal(lambda: mode(topic, "s", "READONLY")) == expected
    assert refusal(lambda: delete_mode(topic.rules, None)) == expected


def test_an_import_begins_without_schemas(topic: Topic) -> None:
    topic.register("s", A)
    assert refusal(lambda: mode(topic, "s", "IMPORT")) == (
        42205,
        "Cannot import since found existing subjects",
    )
    assert refusal(lambda: mode(topic, GLOBAL, "IMPORT"))[0] == 42205
    mode(topic, "t", "IMPORT")
    mode(topic, ":.x:", "IMPORT")
    topic.carry_out(delete_subject(topic.rules, "s"))
    first = len(topic.records)
    mode(topic, "s", "IMPORT")
    assert topic.records[first:] == [
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None),
        (b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}', b'{"subject":"s"}'),
        (b'{"keytype":"MODE","subject":"s","magic":0}', b'{"subject":"s","mode":"IMPORT"}'),
    ]
    assert topic.register("s", '{"b":null}', id=1).version == 1


def test_an_import_can_be_forced(topic: Topic) -> None:
    topic.register("s", A)
    first = len(topic.records)
    mode(topic, "s", "IMPORT", force=True)
    mode(topic, "s", "IMPORT")
    assert [json.loads(key)["keytype"] for key, _ in topic.records[first:]] == ["MODE", "MODE"]
    assert topic.register("s", '{"b":null}', id=5).version == 2


def test_an_import_does_not_break_references(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", '{"$a":"n"}', references=[{"name": "n", "subject": "s", "version": 1}])
    for subject in ("t", "s"):
        topic.carry_out(delete_subject(topic.rules, subject))
    assert refusal(lambda: mode(topic, "s", "IMPORT"))[0] == 42206
