"""Protobuf schemas against themselves: texts, descriptors, normal forms, and changes that are accepted."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest

pytest.importorskip("google.protobuf")
pytest.importorskip("pyarrow")

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.formats.protobuf import columns
from kcli.formats.protobuf.codec import protobuf_codec
from kcli.formats.protobuf.column_types import row_of
from kcli.formats.protobuf.columns import ColumnDecoder
from kcli.formats.protobuf.descriptors import file_descriptor
from kcli.formats.protobuf.language import parse
from kcli.formats.protobuf.messages import message_type
from kcli.formats.protobuf.names import names_of
from kcli.formats.protobuf.printer import print_file
from kcli.formats.protobuf.syntax import (
    SCALARS,
    Constant,
    Enum,
    Field,
    File,
    Message,
    OneOf,
    Option,
    Range,
    Reserved,
    Word,
)
from kcli.formats.schemas import CompatibilityPolicy
from rigs.examples import examples
from rigs.protobuf_columns import SCHEMA, VALUES, comparable

DECODER = ColumnDecoder(message_type(parse(SCHEMA, {}, is_new=True)))
CODEC = protobuf_codec(DECODER.message)
PIECES = [CODEC.encode({name: value}) for name, value in VALUES.items()] + [
    CODEC.encode({"y": "é", "on": {"i": 1}})
]
TYPES = sorted(SCALARS)
NAMES = st.sampled_from([f"{letter}{nth}" for letter in "abcdefgh" for nth in range(4)])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def options(draw: st.DrawFn, name: str) -> tuple[Option, ...]:
    """Draws options that every kind of field may have, for the field `name`."""
    chosen = draw(st.lists(st.sampled_from(["deprecated", "debug_redact"]), unique=True, max_size=2))
    custom = [Option(draw(NAMES), draw(TEXTS), True)] if draw(st.booleans()) else []
    json_name = [Option("json_name", f"json_{name}")] if draw(st.booleans()) else []
    return (*(Option(name, Word("true")) for name in chosen), *custom, *json_name)


@st.composite
def messages(draw: st.DrawFn, depth: int = 2) -> Message:
    """Draws a message of proto3, with unique names and numbers."""
    name = draw(st.sampled_from(["Ma", "Mb", "Mc", "Md"])) + str(depth)
    inner = draw(st.lists(messages(depth - 1), max_size=2, unique_by=lambda one: one.name)) if depth else []
    enum = Enum(f"E{depth}", (Constant(f"Z{depth}", 0), Constant(f"Y{depth}", draw(st.integers(1, 99)))))
    types = TYPES + [one.name for one in inner] + [enum.name]
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    numbers = draw(st.lists(st.integers(1, 60), min_size=len(names), max_size=len(names), unique=True))
    json_name = st.sampled_from([None, "optional", "repeated"])
    fields = []
    for field_name, number in zip(names, numbers, strict=True):
        kind = draw(st.sampled_from(types))
        is_map = draw(st.integers(0, 5)) == 0
        label = None if is_map else draw(json_name)
        kind = f"map<string, {kind}>" if is_map else kind
        fields.append(Field(field_name, kind, number, label))
    oneofs = []
    while fields and fields[-1].label is None and not fields[-1].type.startswith("map") and len(oneofs) < 2:
        oneofs.append(OneOf(f"o{len(oneofs)}", (fields.pop(),)))
    plain = tuple(replace(one, options=draw(options(one.name))) for one in fields if "map<" not in one.type)
    maps = tuple(one for one in fields if "map<" in one.type)
    reserved = (Reserved((70, Range(80, 90))), Reserved(("zz",))) if draw(st.booleans()) else ()
    return Message(name, plain + maps, (*oneofs,), types=(*inner, enum), reserved=reserved)


@st.composite
def files(draw: st.DrawFn) -> File:
    """Draws a file of proto3."""
    types = draw(st.lists(messages(), min_size=1, max_size=3, unique_by=lambda one: one.name))
    chosen = draw(st.lists(st.sampled_from(["java_package", "go_package"]), unique=True))
    return File(
        "proto3",
        draw(st.sampled_from([None, "p", "p.q"])),
        types=(*types,),
        options=tuple(Option(name, draw(TEXTS)) for name in chosen),
    )


def is_parsed_as(file: File) -> bool:
    return parse(print_file(file), {}, is_new=False).file == file


@given(files())
@settings(max_examples=examples(20), deadline=None)
def test_a_text_is_parsed_as_it_was_printed(file: File) -> None:
    assert is_parsed_as(file)


@given(files())
@settings(max_examples=examples(20), deadline=None)
def test_a_descriptor_comes_back_through_its_text(file: File) -> None:
    before = file_descriptor(file, "default", names_of([("", file)]), {}, is_strict=True)
    schema = parse(base64.b64encode(before.SerializeToString()).decode(), {}, is_new=False)
    assert parse(schema.canonical, {}, is_new=False).descriptors()[-1] == before


@given(files())
@settings(max_examples=examples(20), deadline=None)
def test_a_normal_form_is_normal_and_means_the_same(file: File) -> None:
    schema = parse(print_file(file), {}, is_new=False)
    normal = schema.normalized()
    assert normal.normalized().canonical == normal.canonical
    assert parse(normal.canonical, {}, is_new=False).normalized().canonical == normal.canonical
    assert not normal.incompatibilities(schema, CompatibilityPolicy.STRICT)
    assert not schema.incompatibilities(normal, CompatibilityPolicy.STRICT)


@st.composite
def changed(draw: st.DrawFn) -> tuple[File, File]:
    """Draws a file, and the file with some changes of its fields."""
    old = draw(files())

    def change(message: Message) -> Message:
        fields = []
        for field in message.fields:
            match draw(st.integers(0, 6)):
                case 0:
                    continue
                case 1 if not field.type.startswith("map"):
                    fields.append(replace(field, type=draw(st.sampled_from(TYPES))))
                case 2 if field.label is not None:
                    fields.append(replace(field, label="repeated"))
                case _:
                    fields.append(field)
        return replace(message, fields=(*fields,), types=tuple(map(change_type, message.types)))

    def change_type(declared: Message | Enum) -> Message | Enum:
        return change(declared) if isinstance(declared, Message) else declared

    return old, replace(old, types=tuple(map(change_type, old.types)))


FILLERS: dict[str, Callable[[st.DrawFn], object]] = {
    "string": lambda draw: draw(TEXTS),
    "bytes": lambda draw: draw(TEXTS).encode(),
    "bool": lambda draw: draw(st.booleans()),
    "float": lambda draw: 1.5,
    "double": lambda draw: 2.5,
}


@given(changed(), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_a_reader_that_is_accepted_really_reads(pair: tuple[File, File], data: st.DataObject) -> None:
    old, new = (parse(print_file(file), {}, is_new=True) for file in pair)
    if new.incompatibilities(old, CompatibilityPolicy.STRICT):
        return
    for message in old.file.messages:
        full_name = f"{old.file.package}.{message.name}" if old.file.package else message.name
        written = message_type(old, full_name)()
        for field in message.fields:
            if field.type in SCALARS and field.label is None:
                fill = FILLERS.get(field.type, lambda draw: draw(st.integers(0, 1)))
                setattr(written, field.name, fill(data.draw))
        read = message_type(new, full_name).FromString(written.SerializeToString())
        numbers = {one.number: one.name for one in written.DESCRIPTOR.fields}
        for field in read.DESCRIPTOR.fields:
            if not field.is_repeated and field.cpp_type != field.CPPTYPE_MESSAGE:
                before = getattr(written, numbers[field.number])
                assert as_bytes(getattr(read, field.name)) == as_bytes(before)


def as_bytes(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_columns_are_what_the_library_reads(data: st.DataObject) -> None:
    import pyarrow as pa

    payloads = [data.draw(payload()) for _ in range(data.draw(st.integers(1, 4)))]
    with mock.patch.object(columns, "FEW_VALUES", 0):
        values = DECODER.decode(pa.array(payloads, pa.binary()))
    values.records.validate(full=True)
    for raw, record, error in zip(
        payloads, values.records.to_pylist(), values.errors.to_pylist(), strict=True
    ):
        try:
            expected = pa.array([row_of(DECODER.message.FromString(raw))], DECODER.type).to_pylist()[0]
        except Exception:  # the library raises several kinds of errors
            assert (record, error is None) == (None, False)
        else:
            assert error is None
            assert comparable(record) == comparable(expected)


@st.composite
def payload(draw: st.DrawFn) -> bytes:
    """Draws a message: some of its fields in an order, with some bytes changed."""
    raw = bytearray(b"".join(draw(st.lists(st.sampled_from(PIECES), max_size=8))))
    for _ in range(draw(st.integers(0, 2))):
        if raw:
            place = draw(st.integers(0, len(raw) - 1))
            raw[place : place + draw(st.integers(0, 1))] = draw(st.binary(max_size=1))
    return bytes(raw)
