"""Protobuf values: there and back, descriptor sets that are refused, values that do not fit the message."""

from __future__ import annotations

import datetime

import pytest

pytest.importorskip("google.protobuf")

from kcli.formats.codec import FormatError, Value
from kcli.formats.protobuf import message_class, protobuf_codec

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def descriptors() -> bytes:
    from google.protobuf import descriptor_pb2, timestamp_pb2

    stamps = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamps)
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    file.dependency.append(stamps.name)
    field = descriptor_pb2.FieldDescriptorProto
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=1)
    message = file.message_type.add(name="Order")
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message.field.add(name="id", number=1, type=field.TYPE_UINT64, label=one)
    message.field.add(name="raw", number=2, type=field.TYPE_BYTES, label=one)
    message.field.add(name="kind", number=3, type=field.TYPE_ENUM, type_name=".shop.Kind", label=one)
    stamp = ".google.protobuf.Timestamp"
    message.field.add(name="at", number=4, type=field.TYPE_MESSAGE, type_name=stamp, label=one)
    message.field.add(name="tags", number=5, type=field.TYPE_STRING, label=many)
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=field.TYPE_INT32, label=one)
    counts = ".shop.Order.CountsEntry"
    message.field.add(name="counts", number=6, type=field.TYPE_MESSAGE, type_name=counts, label=many)
    loop = file.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=field.TYPE_MESSAGE, type_name=".shop.Loop", label=one)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[stamps, file]).SerializeToString())


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
