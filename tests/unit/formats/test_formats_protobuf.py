"""Protobuf values: there and back, descriptor sets that are refused, values that do not fit the message."""

from __future__ import annotations

import datetime

import pytest

pytest.importorskip("google.protobuf")

from kcli.formats.codec import FormatError, Value
from kcli.formats.protobuf.codec import message_class, protobuf_codec
from rigs.protobuf import descriptors

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def test_a_message_comes_back_as_it_was() -> None:
    codec = protobuf_codec(message_class(descriptors(), "shop.Order"))
    order: Value = {
        "id": (1 << 64) - 1,
        "raw": b"\xff",
        "kind": "B",
        "at": AT,
        "tags": ["a"],
        "counts": [("x", 1)],
    }
    assert codec.decode(codec.encode(order)) == order
    assert codec.decode(codec.encode({"counts": {"x": 1}})) == codec.decode(
        codec.encode({"counts": [("x", 1)]})
    )


def test_a_field_that_is_not_set() -> None:
    found = protobuf_codec(message_class(descriptors(), "shop.Order")).decode(b"")
    assert found == {"id": 0, "raw": b"", "kind": "A", "at": None, "tags": [], "counts": []}


def test_a_message_may_hold_itself() -> None:
    codec = protobuf_codec(message_class(descriptors(), "shop.Loop"))
    assert codec.decode(codec.encode({"next": {"next": None}})) == {"next": {"next": None}}


@pytest.mark.parametrize(
    "value, said",
    [
        ({"colour": "red"}, r"shop\.Order has no field colour"),
        ("red", "expected fields by name"),
        ({"at": "now"}, r"shop\.Order\.at: expected a time"),
        ({"id": []}, r"shop\.Order\.id: expected a whole number"),
        ({"tags": "a"}, r"shop\.Order\.tags: expected a list"),
        ({"counts": ["x"]}, "expected a pair of key and value"),
    ],
)
def test_a_value_that_does_not_fit_the_message(value: Value, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        protobuf_codec(message_class(descriptors(), "shop.Order")).encode(value)


def test_descriptor_sets_that_are_refused() -> None:
    with pytest.raises(FormatError, match=r"no message shop\.Nosuch"):
        message_class(descriptors(), "shop.Nosuch")
    with pytest.raises(FormatError, match="not a descriptor set"):
        message_class(b"\xff\xff", "shop.Order")
