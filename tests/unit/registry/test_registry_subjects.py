"""Subjects and their contexts."""

from __future__ import annotations

import pytest

from kcli.formats.registry.contexts import Subject, beside, is_valid, normalized, scope_of


@pytest.mark.parametrize(
    ("text", "context", "name", "normal"),
    [
        ("s", ".", "s", "s"),
        ("", ".", "", ""),
        (":.:s", ".", "s", "s"),
        (":.:", ".", "", ""),
        (":.x:s", ".x", "s", ":.x:s"),
        (":.x:", ".x", "", ":.x:"),
        (":.x", ".x", "", ":.x:"),
        (":.x:a:b", ".x", "a:b", ":.x:a:b"),
        (":x:s", ".", ":x:s", ":x:s"),
        ("a:.x:s", ".", "a:.x:s", "a:.x:s"),
        (":*:s", "*", "s", ":*:s"),
        ("a/b c", ".", "a/b c", "a/b c"),
    ],
)
def test_a_subject_has_a_context_and_a_name(text: str, context: str, name: str, normal: str) -> None:
    assert Subject.of(text) == Subject(context, name)
    assert normalized(text) == normal
    assert Subject.of(normal) == Subject(context, name)
    assert scope_of(text) == (normal or None)


@pytest.mark.parametrize(
    ("parent", "subject", "qualified"),
    [
        ("s", "t", "t"),
        (":.x:s", "t", ":.x:t"),
        (":.x:s", ":.y:t", ":.y:t"),
        (":.x:s", ":.:t", "t"),
        ("s", ":.y:t", ":.y:t"),
    ],
)
def test_a_referenced_subject_is_in_the_context_of_its_referrer(
    parent: str, subject: str, qualified: str
) -> None:
    assert beside(parent, subject) == qualified


@pytest.mark.parametrize("subject", ["s", "", "a b/c:d", "\N{SNOWMAN}", ":.x:s", "__GLOBALS", ":.x:"])
def test_a_subject_may_have_any_printable_characters(subject: str) -> None:
    assert is_valid(subject)


@pytest.mark.parametrize(
    "subject", ["\x00", "a\tb", "\x7f", "\x85", "\x9f", "__GLOBAL", "__EMPTY", ":.x:__EMPTY"]
)
def test_control_characters_and_reserved_names_are_invalid(subject: str) -> None:
    assert not is_valid(subject)
    assert not is_valid(subject, is_scope=True)


def test_the_global_context_is_only_for_configs_and_modes() -> None:
    assert not is_valid(":.__GLOBAL:")
    assert not is_valid(":.__GLOBAL:s")
    assert is_valid(":.__GLOBAL:", is_scope=True)


def test_an_empty_name_can_be_invalid() -> None:
    assert not is_valid("", allow_empty=False)
    assert not is_valid(":.x:", allow_empty=False)
    assert is_valid(":.x:s", allow_empty=False)
