"""The language of filters: what it matches, and what it refuses."""

from __future__ import annotations

import json

import pytest

from kcli.console.messages.filters.errors import FilterSyntaxError
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.filters.subjects import MAX_TREE_BYTES
from kcli.console.messages.filters.tokens import MAX_CHARACTERS
from kcli.console.messages.record import ReadRecord

ORDER = {
    "order": {"amount": 12.5, "id": 7, "paid": True, "note": None},
    "items": [{"sku": "a", "n": 1}, {"sku": "b", "n": 5}],
    "tags": ["new", "big"],
    "order-id": "x",
    "contains": 1,
}


def record(**changes: object) -> ReadRecord:
    parts: dict = {
        "partition": 2,
        "offset": 100,
        "timestamp_ms": 1_767_225_600_000,  # 2026-01-01
        "key": b"user-7",
        "value": json.dumps(ORDER).encode(),
        "headers": (("x", b"y"), ("n", b"5"), ("x", b"z"), ("gone", None)),
    }
    return ReadRecord(**(parts | changes))


def matches(text: str, **changes: object) -> bool | None:
    return RecordFilter(text).matches(record(**changes))


TRUE = [
    'value.order.amount > 10 && headers["x"] == "y"',
    "value.order.amount == 12.5",
    "value.order.id >= 7 and value.order.id <= 7",
    "value.order.paid",
    "value.order.note == null",
    "value.order.missing.deeper == null",
    "value.items[0].sku == 'a'",
    "value.items[-1].sku == 'b'",
    "value.items[9].sku == null",
    'value.items[*].sku == "b"',
    "value.items[*].n > 4",
    'value.tags contains "new"',
    'value["order-id"] == "x"',
    'value.order-id == "x"',
    "value.contains == 1",
    'key == "user-7"',
    'key contains "ser"',
    'key startsWith "user" && key endsWith "7"',
    'key matches "^user-[0-9]+$"',
    'value matches "\\"sku\\": \\"b\\""',
    "offset == 100",
    "partition != 1",
    'timestamp >= "2026-01-01"',
    '"2026-01-02T00:00:00Z" > timestamp',
    "timestamp == 1767225600000",
    'headers["x"] == "z"',
    'headers.x == "y"',
    "headers.n == 5",
    "headers.gone == null",
    "headers.none == null",
    "size(key) == 6 && size(value) > 20 && size(headers.x) == 1",
    "!(offset == 1) && not (offset == 2)",
    "offset == 1 || offset == 100",
    "value.items != null",
    "true",
    "not false",
]
FALSE = [
    'value.order.amount > "10"',
    "value.order.paid == 1",
    "value.order.id",
    'value.order.id == "7"',
    'key == "user"',
    'headers["x"] != "y"',
    "key > 5",
    "value.items[*].n > 5",
    "offset > 100 || partition < 2",
    "null",
    "value.order contains 'id'",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_filter_matches(text: str) -> None:
    assert matches(text) is True


@pytest.mark.parametrize("text", FALSE)
def test_a_filter_does_not_match(text: str) -> None:
    assert matches(text) is False


def test_a_tombstone_is_null_and_the_text_null_is_not() -> None:
    assert matches("value == null", value=None)
    assert not matches("value == null", value=b"null")
    assert matches('value == "null"', value=b"null")


def test_a_whole_value_is_compared_as_json_with_numbers_and_paths() -> None:
    assert matches("value == 5", value=b"5")
    assert matches("key == value.id", key=b"5", value=b'{"id": 5}')
    assert matches("key == value.id", key=b"abc", value=b'{"id": "abc"}')


def test_bytes_that_are_not_utf8_are_searched_with_replacement_characters() -> None:
    assert matches('value contains "ab"', value=b"\xff\xfeab")
    assert matches("value.a == null", value=b"\xff\xfeab")


def test_a_value_that_is_too_large_for_json_has_no_answer_but_its_text_is_searched() -> None:
    large = json.dumps({"a": "x" * MAX_TREE_BYTES, "b": 1}).encode()
    assert matches("value.b == 1", value=large) is None
    assert matches('value contains "\\"b\\": 1"', value=large) is True


def test_elements_beyond_the_limit_have_no_answer() -> None:
    many = json.dumps({"a": [0] * 20_000, "b": [1] * 2_000, "c": [2] * 2_000}).encode()
    assert matches("value.a[*] == 1", value=many) is None
    assert matches("value.b[*] == value.c[*]", value=many) is None


def test_json_that_is_nested_too_deeply_is_a_text() -> None:
    assert matches("value.a == null", value=b"[" * 200_000) is True


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("value = 5", 6),
        ("value ==", 8),
        ('"abc', 0),
        ("(offset == 1", 12),
        ("offset == 1)", 11),
        ("offset.x == 1", 6),
        ("headers == 1", 8),
        ("headers[0] == 1", 11),
        ("value[x]", 6),
        ('key matches "("', 12),
        ("key matches value", 12),
        ("__import__('os')", 0),
        ("value.__class__()", 15),
        ("lambda: 1", 6),
        ("size(offset)", 5),
        ('timestamp > "yesterday"', 23),
        ("9" * 41, 0),
        ("\ud800", 0),
    ],
)
def test_a_mistake_is_reported_with_its_position(text: str, position: int) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        RecordFilter(text)
    assert caught.value.position == position


def test_long_and_deeply_nested_filters_are_refused() -> None:
    for text in ("(" * 100 + "true" + ")" * 100, "!" * 3000 + "true", "x" * (MAX_CHARACTERS + 1)):
        with pytest.raises(FilterSyntaxError):
            RecordFilter(text)


def test_names_of_python_are_only_names_of_fields() -> None:
    assert matches("value.__class__ == null")
    assert matches('value.__class__ == "own"', value=b'{"__class__": "own"}')


def test_a_regular_expression_needs_linear_time() -> None:
    assert matches('value matches "(a*)*b"', value=b"a" * 100_000) is False
