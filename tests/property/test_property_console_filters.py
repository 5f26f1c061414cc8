"""Any text is a filter or is refused with its own error, and any filter ends on any record."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kcli.console.messages.filters.errors import FilterSyntaxError
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.record import ReadRecord

trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
raws = st.none() | st.binary(max_size=40) | trees.map(lambda tree: json.dumps(tree).encode())
records = st.builds(
    ReadRecord,
    partition=st.integers(0, 9),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    key=raws,
    value=raws,
    headers=st.lists(st.tuples(st.sampled_from("abc"), raws), max_size=3).map(tuple),
)
WORDS = (
    "key value headers offset partition timestamp size ( ) [ ] . * && || ! and or not == != < <= > >= contains "
    'matches startsWith endsWith true false null 1 -2 0.5 1e999 "a" \'b\' "(a|b)*" a b c "2026-01-01" headers.a '
    'value.a value[0] value[*] value.a[*].b headers["b"]'
)
OPERANDS = (
    "key value value.a value[*] value.a[*] value.a.b[0] headers.a headers.b.c offset partition timestamp "
    'size(value) 1 -2 0.5 1e999 "a" "" true null'
)
words = st.sampled_from(WORDS.split())
filters = st.lists(words, max_size=14).map(" ".join) | st.text(max_size=40)
operands = st.sampled_from(OPERANDS.split())
operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "contains", "startsWith", "endsWith"])
valid = st.recursive(
    st.tuples(operands, operators, operands).map(" ".join) | operands | st.just('value matches "a+|b"'),
    lambda inner: (
        st.tuples(inner, st.sampled_from(("&&", "||")), inner).map(" ".join)
        | inner.map(lambda each: f"!({each})")
    ),
    max_leaves=6,
)


@given(filters, records)
def test_any_text_is_compiled_or_refused_and_ends_with_a_bool(text: str, record: ReadRecord) -> None:
    try:
        compiled = RecordFilter(text)
    except FilterSyntaxError as error:
        assert 0 <= error.position <= len(text)
        return
    assert compiled.matches(record) in (True, False, None)


@given(valid, records)
def test_a_filter_and_its_negation_give_opposite_answers(text: str, record: ReadRecord) -> None:
    try:
        found = RecordFilter(text).matches(record)
    except FilterSyntaxError as error:
        assert "not a date" in str(error)  # the generator compares the timestamp with any text
        return
    assert found in (True, False)
    assert RecordFilter(f"!({text})").matches(record) is not found


@given(trees, st.text(max_size=5))
def test_a_field_equals_its_own_text(tree: object, text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    value = json.dumps({"a": text, "b": tree}).encode()
    try:
        compiled = RecordFilter(f'value.a == "{quoted}"')
    except FilterSyntaxError as error:
        assert "surrogate" in str(error)
        return
    assert compiled.matches(ReadRecord(partition=0, offset=0, timestamp_ms=0, value=value)) is True
