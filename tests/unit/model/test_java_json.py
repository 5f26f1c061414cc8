"""JSON is parsed as Jackson does in Kafka's tools."""

from __future__ import annotations

import pytest

from kcli.model.java_json import json_int, json_long, json_object, parse_json


def test_text_after_the_value_is_ignored_and_the_last_of_two_fields_counts() -> None:
    assert parse_json(' {"a": 1, "a": 2} } trailing') == {"a": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "NaN",
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '\ufeff{"a": 1}',
        "// c\n{}",
        "{'a': 1}",
        "[" * 100_000,
    ],
)
def test_a_text_that_jackson_refuses_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize("value", [True, "1", 1.0, 2**31, -(2**31) - 1, None, [1]])
def test_an_int_is_a_whole_number_in_its_range(value: object) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        json_int(value)
    assert json_int(2**31 - 1) == 2**31 - 1


def test_a_long_is_a_whole_number_in_its_range() -> None:
    assert json_long(-(2**63)) == -(2**63)
    with pytest.raises(ValueError, match="expected a whole number"):
        json_long(2**63)


def test_an_object_is_no_list() -> None:
    assert json_object({}) == {}
    with pytest.raises(ValueError, match="object"):
        json_object([])
