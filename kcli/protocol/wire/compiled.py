"""Compiles the functions that read and write one struct of one version: bytes to our message, and back.

The source of each function is made from kio's schema and compiled when it is first used. A reader builds our message in
one pass over the bytes. kio's own reader and writer need 5 to 20 times as much CPU time. With kio's functions, all
lengths in a frame would also need a check first, and each struct would be copied from kio's class to ours afterwards.

There are two forms of each function. The plain form handles a message in one call. The form "in turns" is a generator
that yields after each element of an array. At each yield, its caller can pause a large message and serve other clients
(kcli.server.requests.turns).

A reader compares every length with the number of bytes that are left. So a client cannot make it allocate memory by a
wrong length.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import cache
from typing import Any, cast

from kcli.errors import ErrorCode, ProtocolError
from kcli.model.buffers import Buffer
from kcli.protocol.wire import packing, schema
from kcli.protocol.wire.api import ApiSpec
from kcli.protocol.wire.repeated import REPEATED, RepeatedElements
from kcli.protocol.wire.shared_array import SharedArray, append_shared

Read = Callable[[bytes, int], tuple[Any, int]]
"""A function that reads a message at a position of a frame. It returns the message and the position after it. For
malformed bytes, it raises ProtocolError or another error."""
ReadInTurns = Callable[[bytes, int], Generator[None, None, tuple[Any, int]]]
Write = Callable[[Any, bytearray], None]
"""A function that encodes a message and appends its bytes to a buffer."""
WriteInTurns = Callable[[Any, bytearray], Generator[None, None, None]]

STRING_SIZE_MAX = 0x7FFF
"""The longest string. Kafka refuses longer strings even in flexible versions, although their length field could express
more."""

NUMBERS_PER_STEP = 100
"""The number of elements that one step reads or writes in an array of numbers. These elements together take 2 µs, as
much time as one element that is not a number."""

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "error_code": "h",
    "int32": "i",
    "uint32": "I",
    "timedelta_i32": "i",
    "int64": "q",
    "uint64": "Q",
    "float64": "d",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
"""The struct format of each type of fixed size. Durations and timestamps are milliseconds in our messages."""

_CODES = {code.value: code for code in ErrorCode}
_ZERO_UUID = bytes(16)


@cache
def reader(cls: type, spec: ApiSpec, kind: str) -> Read:
    """Returns the function that reads one version of a struct and makes an instance of our class."""
    return cast(Read, _ReaderSource(cls, spec, kind, in_turns=False).compiled())


@cache
def reader_in_turns(cls: type, spec: ApiSpec, kind: str) -> ReadInTurns:
    """Returns a generator function that does the same as `reader`'s function in steps, for a struct that has arrays."""
    return cast(ReadInTurns, _ReaderSource(cls, spec, kind, in_turns=True).compiled())


@cache
def writer(cls: type, spec: ApiSpec, kind: str) -> Write:
    """Returns the function that writes an instance of our class in one version."""
    return cast(Write, _WriterSource(cls, spec, kind, in_turns=False).compiled())


@cache
def writer_in_turns(cls: type, spec: ApiSpec, kind: str) -> WriteInTurns:
    """Returns a generator function that does the same as `writer`'s function in steps, for a struct that has arrays."""
    return cast(WriteInTurns, _WriterSource(cls, spec, kind, in_turns=True).compiled())


@cache
def has_arrays(cls: type) -> bool:
    """Whether a struct or one of its nested structs has an array. The sender of a message chooses the number of
    elements in an array."""
    return any(
        field.is_array or (field.struct is not None and has_arrays(field.struct))
        for field in schema.fields(cls)
        if field.tag is None
    )


class _Source:
    """The source lines of one function, and the values to which these lines refer."""

    def __init__(self, cls: type, spec: ApiSpec, kind: str, *, in_turns: bool) -> None:
        self.cls = cls
        self.spec = spec
        self.kind = kind
        self.in_turns = in_turns
        self.is_flexible: bool = cls.__flexible__  # type: ignore[attr-defined]
        self.lines: list[str] = []
        self.scope: dict[str, object] = {}

    def add(self, text: str, depth: int = 1) -> None:
        self.lines += [" " * depth + line for line in text.splitlines()]

    def keep(self, value: object, hint: str) -> str:
        """Stores a value that the source lines use. Returns the name of the value in these lines."""
        name = f"{hint}_{len(self.scope)}"
        self.scope[name] = value
        return name

    def compiled(self) -> Callable[..., Any]:
        source = "\n".join(self.lines)
        exec(compile(source, f"<{self.cls.__module__}.{self.cls.__qualname__}>", "exec"), self.scope)
        return cast(Callable[..., Any], self.scope["function"])

    def runs(self) -> Iterator[list[schema.Field]]:
        """The fields in wire order. Adjacent fields of fixed size are grouped, because one call reads all fields of a
        group."""
        run: list[schema.Field] = []
        for field in schema.fields(self.cls):
            if field.tag is not None:
                continue
            if not field.is_array and field.kafka_type in _FORMATS:
                run.append(field)
                continue
            if run:
                yield run
                run = []
            yield [field]
        if run:
            yield run

    def tagged(self) -> list[schema.Field]:
        found = [field for field in schema.fields(self.cls) if field.tag is not None]
        return sorted(found, key=lambda field: cast(int, field.tag))


class _ReaderSource(_Source):
    """The source of a reader."""

    def compiled(self) -> Callable[..., Any]:
        ours = self.keep(schema.our_class(self.cls, self.spec, self.kind), "Struct")
        self.add("def function(frame, at):", 0)
        arguments = []
        for run in self.runs():
            if run[0].is_array or run[0].kafka_type not in _FORMATS:
                self._read_one(run[0])
            else:
                self._read_run(run)
            arguments += [f"{field.our_name}={_local(field)}" for field in run]
        if self.is_flexible:
            readers = {field.tag: (field.our_name, self._tagged_reader(field)) for field in self.tagged()}
            known, read_tags = self.keep(readers, "known"), self.keep(_read_tags, "read_tags")
            if readers:
                self.add(f"tags, at = {read_tags}(frame, at, {known})")
                arguments.append("**tags")
            else:
                self.add(
                    f"if frame[at]: at = {read_tags}(frame, at, {known})[1]\nelse: at += 1",
                )
        if self.in_turns:
            self.add("if 0: yield")
        self.add(f"return {ours}({', '.join(arguments)}), at")
        return super().compiled()

    def _read_run(self, run: list[schema.Field]) -> None:
        packed = struct.Struct(">" + "".join(_FORMATS[field.kafka_type or ""] for field in run))
        unpack = self.keep(packed.unpack_from, "unpack")
        names = ", ".join(map(_local, run))
        self.add(f"{names}, = {unpack}(frame, at)\nat += {packed.size}")
        for field in run:
            match field.kafka_type:
                case "error_code":
                    self.add(f"{_local(field)} = {self.keep(_CODES, 'codes')}[{_local(field)}]")
                case "uuid":
                    self.add(f"{_local(field)} = {self.keep(_uuid, 'uuid')}({_local(field)})")

    def _read_one(self, field: schema.Field) -> None:
        if field.is_array:
            self._read_array(field)
        elif field.struct is not None:
            self._read_struct(field)
        else:
            self._read_sized(field)

    def _read_struct(self, field: schema.Field) -> None:
        assert field.struct is not None
        call = self._call(field.struct)
        if field.nullable:  # KIP-893: one byte says whether the struct is present
            self.add(
                f"if frame[at] >= 128:\n {_local(field)} = None\n at += 1\n"
                f"else:\n at += 1\n {_local(field)}, at = {call}"
            )
        else:
            self.add(f"{_local(field)}, at = {call}")

    def _call(self, nested: type) -> str:
        if self.in_turns and has_arrays(nested):
            return f"yield from {self.keep(reader_in_turns(nested, self.spec, self.kind), 'read')}(frame, at)"
        return f"{self.keep(reader(nested, self.spec, self.kind), 'read')}(frame, at)"

    def _read_sized(self, field: schema.Field) -> None:
        """Adds the lines that read a string or bytes. `n` is the compact length: the size plus 1, or 0 for null."""
        is_string = field.kafka_type == "string"
        self._read_length("b" if is_string else "i")
        refuse = self.keep(_refuse_size, "refuse")
        limit = f"n > {STRING_SIZE_MAX + 1} or " if is_string else ""
        value = "str(frame[at:end], 'utf-8')" if is_string else "bytes(frame[at:end])"
        self.add(
            f"if n:\n end = at + n - 1\n"
            f" if {limit}end > len(frame): {refuse}(frame, at, n - 1)\n"
            f" {_local(field)} = {value}\n at = end\n"
            f"else: {self._null(field)}"
        )

    def _read_length(self, legacy: str) -> None:
        if self.is_flexible:
            uvarint = self.keep(packing.read_uvarint, "uvarint")
            self.add(f"n = frame[at]\nat += 1\nif n > 127: n, at = {uvarint}(frame, at - 1)")
            return
        packed = packing.INT16 if legacy == "b" else packing.INT32
        read = self.keep(packed.unpack_from, "length")
        refuse = self.keep(_refuse_length, "refuse")
        self.add(f"n = {read}(frame, at)[0] + 1\nat += {packed.size}\nif n < 0: {refuse}(n - 1, at)")

    def _null(self, field: schema.Field) -> str:
        if field.nullable:
            return f"{_local(field)} = None"
        return f"{self.keep(_refuse_null, 'refuse')}({field.our_name!r}, at)"

    def _read_array(self, field: schema.Field) -> None:
        self._read_length("i")
        refuse = self.keep(_refuse_count, "refuse")
        letter = _FORMATS.get(field.kafka_type or "")
        size = 1 if letter is None else struct.calcsize(f">{letter}")
        self.add(
            f"if n:\n n -= 1\n if n * {size} > len(frame) - at: {refuse}(frame, at, n)",
        )
        if letter is not None and field.kafka_type not in ("uuid", "error_code"):
            self._read_numbers(field, letter, size)
        else:
            self._read_elements(field)
        self.add(f"else: {self._null(field)}")

    def _read_numbers(self, field: schema.Field, letter: str, size: int) -> None:
        if self.in_turns:
            numbers = self.keep(_read_numbers_in_turns, "numbers")
            self.add(f" {_local(field)} = yield from {numbers}(frame, at, n, '{letter}', {size})")
        else:
            numbers = self.keep(struct.unpack_from, "numbers")
            self.add(f" {_local(field)} = {numbers}(f'>{{n}}{letter}', frame, at)")
        self.add(f" at += n * {size}")

    def _read_elements(self, field: schema.Field) -> None:
        if field.struct is not None and (self.cls.__name__, field.our_name) in REPEATED and not self.in_turns:
            elements = self.keep(RepeatedElements(reader(field.struct, self.spec, self.kind)), "elements")
            self.add(f" {_local(field)}, at = {elements}(frame, at, n)")
            return
        self.add(" items = []\n append = items.append\n for _ in range(n):")
        if field.struct is not None:
            self.add(f"item, at = {self._call(field.struct)}", 3)
        else:
            one = self.keep(_element_reader(field.kafka_type or "", self.is_flexible), "read")
            self.add(f"item, at = {one}(frame, at)", 3)
        self.add("  append(item)" + ("\n  yield" if self.in_turns else ""))
        self.add(f" {_local(field)} = tuple(items)")

    def _tagged_reader(self, field: schema.Field) -> Read:
        if field.is_array:
            return _array_reader(self._tagged_element(field))
        return self._tagged_element(field)

    def _tagged_element(self, field: schema.Field) -> Read:
        if field.struct is not None:
            return reader(field.struct, self.spec, self.kind)
        return _element_reader(field.kafka_type or "", True)


class _WriterSource(_Source):
    """The source of a writer."""

    def compiled(self) -> Callable[..., Any]:
        self.add("def function(message, out):", 0)
        self.add("if 0: yield" if self.in_turns else "pass")
        for run in self.runs():
            field = run[0]
            if not field.is_array and field.kafka_type in _FORMATS:
                self._write_run(run)
                continue
            self.add(f"value = message.{field.our_name}")
            if field.is_array:
                self._write_array(field)
            elif field.struct is not None:
                self._write_struct(field)
            else:
                self._write_sized(field)
        if self.is_flexible:
            self._write_tags()
        return super().compiled()

    def _write_run(self, run: list[schema.Field]) -> None:
        formats = "".join(_FORMATS[field.kafka_type or ""] for field in run)
        pack = self.keep(struct.Struct(f">{formats}").pack, "pack")
        values = []
        for field in run:
            value = f"message.{field.our_name}"
            if field.kafka_type == "uuid":
                value = f"{self.keep(packing.pack_uuid, 'pack_uuid')}({value})"
            values.append(value)
        self.add(f"out += {pack}({', '.join(values)})")

    def _write_struct(self, field: schema.Field) -> None:
        assert field.struct is not None
        call = self._call(field.struct, "value")
        if field.nullable:
            self.add(f"if value is None: out.append(255)\nelse:\n out.append(1)\n {call}")
        else:
            self.add(call)

    def _call(self, nested: type, value: str) -> str:
        if self.in_turns and has_arrays(nested):
            return f"yield from {self.keep(writer_in_turns(nested, self.spec, self.kind), 'write')}({value}, out)"
        return f"{self.keep(writer(nested, self.spec, self.kind), 'write')}({value}, out)"

    def _write_sized(self, field: schema.Field) -> None:
        is_string = field.kafka_type == "string"
        depth = 1
        if field.nullable:
            self.add(f"if value is None: {self._null('h' if is_string else 'i')}\nelse:")
            depth = 2
        if is_string:
            self.add("value = value.encode()", depth)
        self._write_length("h" if is_string else "i", depth)
        self.add("out += value", depth)

    def _null(self, legacy: str) -> str:
        if self.is_flexible:
            return "out.append(0)"
        return f"out += {self.keep(struct.pack('>' + legacy, -1), 'null')}"

    def _write_length(self, legacy: str, depth: int) -> None:
        if self.is_flexible:
            uvarint = self.keep(packing.pack_uvarint, "uvarint")
            self.add(f"n = len(value) + 1\nif n < 128: out.append(n)\nelse: out += {uvarint}(n)", depth)
        else:
            self.add(f"out += {self.keep(struct.Struct('>' + legacy).pack, 'length')}(len(value))", depth)

    def _write_array(self, field: schema.Field) -> None:
        depth = 1
        if field.nullable:
            self.add(f"if value is None: {self._null('i')}\nelse:")
            depth = 2
        self._write_length("i", depth)
        if field.struct is not None:
            self._write_structs(field.struct, depth)
            return
        letter = _FORMATS.get(field.kafka_type or "")
        if letter is not None and field.kafka_type != "uuid":
            if self.in_turns:
                numbers = self.keep(_write_numbers_in_turns, "numbers")
                self.add(f"yield from {numbers}(value, out, '{letter}')", depth)
            else:
                self.add(
                    f"out += {self.keep(struct.pack, 'pack')}(f'>{{len(value)}}{letter}', *value)", depth
                )
            return
        write = self.keep(_element_writer(field.kafka_type or "", self.is_flexible), "write")
        self.add(f"for item in value:\n {write}(item, out)" + ("\n yield" if self.in_turns else ""), depth)

    def _write_structs(self, nested: type, depth: int) -> None:
        shared, cls = self.keep(SharedArray, "SharedArray"), self.keep(nested, "cls")
        plain = self.keep(writer(nested, self.spec, self.kind), "write")
        if self.in_turns:
            append = self.keep(append_shared, "append")
            in_turns = self.keep(writer_in_turns(nested, self.spec, self.kind), "write")
            kept = f"{append}(out, (yield from value.bytes_in_turns({cls}, {in_turns})))"
        else:
            kept = f"out += value.bytes_of({cls}, {plain})"
        self.add(
            f"if type(value) is {shared}: {kept}\nelse:\n for item in value:\n  {self._call(nested, 'item')}"
            + ("\n  yield" if self.in_turns else ""),
            depth,
        )

    def _write_tags(self) -> None:
        fields = self.tagged()
        if not fields:
            self.add("out.append(0)")
            return
        defaults = {field.name: field.default for field in schema.our_fields(self.cls, self.spec, self.kind)}
        self.add("tags = []")
        for field in fields:
            default = self.keep(defaults[field.our_name], "default")
            write = self.keep(self._tagged_writer(field), "write")
            packed = self.keep(_packed, "packed")
            self.add(
                f"value = message.{field.our_name}\n"
                f"if value != {default}: tags.append(({field.tag}, {packed}({write}, value)))"
            )
        self.add(f"out += {self.keep(packing.pack_tags, 'pack_tags')}(tags)")

    def _tagged_writer(self, field: schema.Field) -> Write:
        if field.struct is not None:
            one = writer(field.struct, self.spec, self.kind)
        else:
            one = _element_writer(field.kafka_type or "", True)
        return _array_writer(one) if field.is_array else one


def _local(field: schema.Field) -> str:
    """The name of the local variable that holds a field in a reader. The prefix `of_` prevents a clash with the
    reader's own variables."""
    return f"of_{field.our_name}"


# Arrays of numbers. One call of `struct` for a whole array could take long, so these arrays are handled in parts.


def _read_numbers_in_turns(
    frame: bytes, at: int, count: int, letter: str, size: int
) -> Generator[None, None, tuple[int, ...]]:
    numbers: list[int] = []
    while len(numbers) < count:
        here = min(NUMBERS_PER_STEP, count - len(numbers))
        numbers += struct.unpack_from(f">{here}{letter}", frame, at)
        at += here * size
        yield
    return tuple(numbers)


def _write_numbers_in_turns(
    numbers: tuple[int, ...], out: bytearray, letter: str
) -> Generator[None, None, None]:
    for begin in range(0, len(numbers), NUMBERS_PER_STEP):
        here = numbers[begin : begin + NUMBERS_PER_STEP]
        out += struct.pack(f">{len(here)}{letter}", *here)
        yield


# Single values: elements of arrays, and tagged fields.


def _element_reader(kafka_type: str, flexible: bool) -> Read:
    letter = _FORMATS.get(kafka_type)
    if letter is not None:
        packed = struct.Struct(f">{letter}")
        is_uuid, is_code = kafka_type == "uuid", kafka_type == "error_code"

        def read(frame: bytes, at: int) -> tuple[object, int]:
            (value,) = packed.unpack_from(frame, at)
            return (_uuid(value) if is_uuid else _CODES[value] if is_code else value), at + packed.size

        return read
    assert kafka_type == "string", kafka_type
    return lambda frame, at: packing.read_present_string(frame, at, flexible, "of an array")


def _element_writer(kafka_type: str, flexible: bool) -> Write:
    if kafka_type == "uuid":
        return lambda value, out: out.extend(packing.pack_uuid(value))
    if kafka_type == "string":
        return lambda value, out: out.extend(packing.pack_string(value, flexible))
    pack = struct.Struct(f">{_FORMATS[kafka_type]}").pack
    return lambda value, out: out.extend(pack(value))


def _array_reader(one: Read) -> Read:
    def read(frame: bytes, at: int) -> tuple[object, int]:
        count, at = packing.read_count(frame, at, True, "of a tag", 1)
        items = []
        for _ in range(count):
            item, at = one(frame, at)
            items.append(item)
        return tuple(items), at

    return read


def _array_writer(one: Write) -> Write:
    def write(items: tuple[object, ...], out: bytearray) -> None:
        out += packing.pack_count(len(items), True)
        for item in items:
            one(item, out)

    return write


def _packed(write: Write, value: object) -> bytes:
    out = bytearray()
    write(value, out)
    return bytes(out)


def _read_tags(frame: bytes, at: int, known: dict[int, tuple[str, Read]]) -> tuple[dict[str, object], int]:
    """The values of the known tagged fields by name, and the position after all tags."""
    values: dict[str, object] = {}

    def read(tag: int, payload: Buffer) -> None:
        if tag in known:
            name, one = known[tag]
            values[name], end = one(bytes(payload), 0)
            if end != len(payload):
                raise ProtocolError(f"tagged field {tag} has {len(payload)} bytes instead of {end}")

    return values, packing.read_tags(frame, at, read)


def _uuid(raw: bytes) -> uuid.UUID | None:
    return None if raw == _ZERO_UUID else uuid.UUID(bytes=raw)


# Refusals.


def _refuse_size(frame: bytes, at: int, size: int) -> None:
    if size > len(frame) - at:
        raise ProtocolError(f"{size} bytes at byte {at} run past the end of the message")
    raise ProtocolError(f"string of {size} bytes at byte {at} is longer than {STRING_SIZE_MAX}")


def _refuse_length(length: int, at: int) -> None:
    raise ProtocolError(f"negative length {length} before byte {at}")


def _refuse_null(field: str, at: int) -> None:
    raise ProtocolError(f"{field} is null before byte {at}, where null is not allowed")


def _refuse_count(frame: bytes, at: int, count: int) -> None:
    raise ProtocolError(f"an array of {count} elements at byte {at} runs past the end of the message")
