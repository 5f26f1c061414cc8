"""Keys and values of the offsets topic."""

from __future__ import annotations

import pytest

from kcli.connect.decisions.offset_records import (
    OffsetRecords,
    offset_key,
    offset_value,
    read_offset,
    source_partition,
)
from kcli.formats.connect.errors import DataException


def test_keys_and_values_are_compact_json() -> None:
    key = offset_key("a ü", {"file": "x", "n": 1})
    assert key == '["a ü",{"file":"x","n":1}]'.encode()
    assert source_partition(key) == ("a ü", {"file": "x", "n": 1})
    assert (
        offset_value({"position": 1.5, "end": None, "raw": b"ab"})
        == b'{"position":1.5,"end":null,"raw":"YWI="}'
    )
    assert offset_value(None) is None
    assert read_offset(b'{"position":8}') == {"position": 8}
    assert read_offset(None) is None


def test_only_primitive_values_are_offsets() -> None:
    with pytest.raises(
        DataException, match="Offsets may only contain primitive types as values, but field a"
    ):
        offset_value({"a": [1]})
    with pytest.raises(DataException, match="Failed to read an offset"):
        read_offset(b"[1]")
    with pytest.raises(DataException, match="Failed to read an offset"):
        read_offset(b"{")


@pytest.mark.parametrize("key", [b"{", b"{}", b'["a"]', b'["a",1]', b"[1,{}]", b'["a",{},1]'])
def test_a_strange_key_is_logged_but_its_value_is_kept(key: bytes, caplog: pytest.LogCaptureFixture) -> None:
    table = OffsetRecords()
    table.replay(key, b"{}")
    assert table.entries == {key: b"{}"}
    assert "Ignoring the key of an offset" in caplog.text


def test_a_key_without_a_partition_is_no_source_partition(caplog: pytest.LogCaptureFixture) -> None:
    assert source_partition(b'["a",null]') is None
    assert caplog.text == ""


def test_the_keys_of_a_connector_are_those_with_an_offset() -> None:
    table = OffsetRecords()
    first, second = b'["a",{"x":1,"y":2}]', b'["a",{"y":2,"x":1}]'
    table.replay(first, b"{}")
    table.replay(second, b"{}")
    table.replay(b'["a",{"x":2}]', b"{}")
    table.replay(b'["b",{"x":3}]', b"{}")
    assert list(table.keys("a").values()) == [second, b'["a",{"x":2}]']
    table.replay(b'["a",{"x":2}]', None)
    assert list(table.keys("a").values()) == [second]
    assert table.keys("c") == {}


def test_the_key_of_a_partition_is_found_in_every_order_of_its_fields() -> None:
    table = OffsetRecords()
    first, second, third = (
        b'["a",{%s}]' % fields for fields in (b'"x":1,"y":2', b'"y":2,"x":1', b'"y":2, "x":1')
    )
    assert table.stored_key(first) is None
    table.replay(second, b"{}")
    assert [table.stored_key(key) for key in (first, second, third)] == [second] * 3
    table.replay(first, b"{}")
    assert [table.stored_key(key) for key in (first, second, third)] == [first, second, first]
    table.replay(first, None)
    assert (table.stored_key(first), list(table.keys("a").values())) == (second, [second])
    table.replay(second, None)
    assert (table.stored_key(first), table.keys("a")) == (None, {})
    table.replay(second, b"{}")
    assert table.stored_key(b'["b",{"x":1,"y":2}]') is None, "another connector"
    assert table.stored_key(b'["a",{"x":1,"y":3}]') is None
    assert table.stored_key(b'["a",null]') is None
