"""Compiles the functions that read and write one struct of one version: bytes to our message, and back.

The source of each function is made from the schema of the struct's class, and compiled when it is first used. A reader
builds the message in one pass over the bytes. Functions that interpret the schema for each message need several times
as much CPU time (docs/adr/0008).

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
from kcli.model.java_utf8 import JAVA
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

_CODES = {code.value: code for code in ErrorCode}
_ZERO_UUID = bytes(16)


@cache
def reader(cls: type, spec: ApiSpec, version: int) -> Read:
    """Returns the function that reads one version of a struct and makes an instance of its class."""
    return cast(Read, _ReaderSource(cls, spec, version, in_turns=False).compiled())


@cache
def reader_in_turns(cls: type, spec: ApiSpec, version: int) -> ReadInTurns:
    """Returns a generator function that does the same as `reader`'s function in steps, for a struct that has arrays."""
    return cast(ReadInTurns, _ReaderSource(cls, spec, version, in_turns=True).compiled())


@cache
def writer(cls: type, spec: ApiSpec, version: int) -> Write:
    """Returns the function that writes an instance of the class in one version."""
    return cast(Write, _WriterSource(cls, spec, version, in_turns=False).compiled())


@cache
def writer_in_turns(cls: type, spec: ApiSpec, version: int) -> WriteInTurns:
    """Returns a generator function that does the same as `writer`'s function in steps, for a struct that has arrays."""
    return cast(WriteInTurns, _WriterSource(cls, spec, version, in_turns=True).compiled())


@cache
def has_arrays(cls: type, version: int) -> bool:
    """Whether a struct or one of its nested structs has an array. The sender of a message chooses the number of
    elements in an array."""
    return any(
        field.is_array or (field.is_struct and has_arrays(field.type, version))
        for field in schema.fields(cls, version)
        if field.tag is None
    )


class _Source:
    """The source lines of one function, and the values to which these lines refer."""

    def __init__(self, cls: type, spec: ApiSpec, version: int, *, in_turns: bool) -> None:
        self.cls = cls
        self.spec = spec
        self.version = version
        self.in_turns = in_turns
        self.is_flexible = spec.is_flexible(version)
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
        exec(
            compile(source, f"<{self.cls.__module__}.{self.cls.__qualname__} v{self.version}>", "exec"),
            self.scope,
        )
        return cast(Callable[..., Any], self.scope["function"])

    def runs(self) -> Iterator[list[schema.Field]]:
        """The fields in wire order. Adjacent fields of fixed size are grouped, because one call reads all fields of a
        group."""
        run: list[schema.Field] = []
        for field in schema.fields(self.cls, self.version):
            if field.tag is not None:
                continue
            if not field.is_array and field.form is not None:
                run.append(field)
                continue
            if run:
                yield run
                run = []
            yield [field]
        if run:
            yield run

    def tagged(self) -> list[schema.Field]:
        found = [field for field in schema.fields(self.cls, self.version) if field.tag is not None]
        return sorted(found, key=lambda field: cast(int, field.tag))


class _ReaderSource(_Source):
    """The source of a reader."""

    def compiled(self) -> Callable[..., Any]:
        struct_class = self.keep(self.cls, "Struct")
        self.add("def function(frame, at):", 0)
        arguments = []
        for run in self.runs():
            if run[0].is_array or run[0].form is None:
                self._read_one(run[0])
            else:
                self._read_run(run)
            arguments += [f"{field.name}={_local(field)}" for field in run]
        if self.is_flexible:
            readers = {field.tag: (field.name, self._tagged_reader(field)) for field in self.tagged()}
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
        self.add(f"return {struct_class}({', '.join(arguments)}), at")
        return super().compiled()

    def _read_run(self, run: list[schema.Field]) -> None:
        packed = struct.Struct(">" + "".join(field.form or "" for field in run))
        unpack = self.keep(packed.unpack_from, "unpack")
        names = ", ".join(map(_local, run))
        self.add(f"{names}, = {unpack}(frame, at)\nat += {packed.size}")
        for field in run:
            if field.type is ErrorCode:
                self.add(f"{_local(field)} = {self.keep(_CODES, 'codes')}[{_local(field)}]")
            elif field.type is uuid.UUID:
                self.add(f"{_local(field)} = {self.keep(_uuid, 'uuid')}({_local(field)})")

    def _read_one(self, field: schema.Field) -> None:
        if field.is_array:
            self._read_array(field)
        elif field.is_struct:
            self._read_struct(field)
        else:
            self._read_sized(field)

    def _read_struct(self, field: schema.Field) -> None:
        call = self._call(field.type)
        if field.nullable:  # KIP-893: one byte says whether the struct is present
            self.add(
                f"if frame[at] >= 128:\n {_local(field)} = None\n at += 1\n"
                f"else:\n at += 1\n {_local(field)}, at = {call}"
            )
        else:
            self.add(f"{_local(field)}, at = {call}")

    def _call(self, nested: type) -> str:
        if self.in_turns and has_arrays(nested, self.version):
            return (
                f"yield from {self.keep(reader_in_turns(nested, self.spec, self.version), 'read')}(frame, at)"
            )
        return f"{self.keep(reader(nested, self.spec, self.version), 'read')}(frame, at)"

    def _read_sized(self, field: schema.Field) -> None:
        """Adds the lines that read a string or bytes. `n` is the compact length: the size plus 1, or 0 for null."""
        is_string = field.type is str
        self._read_length("b" if is_string else "i")
        refuse = self.keep(_refuse_size, "refuse")
        limit = f"n > {STRING_SIZE_MAX + 1} or " if is_string else ""
        value = f"str(frame[at:end], 'utf-8', {JAVA!r})" if is_string else "bytes(frame[at:end])"
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
        return f"{self.keep(_refuse_null, 'refuse')}({field.name!r}, at)"

    def _read_array(self, field: schema.Field) -> None:
        self._read_length("i")
        refuse = self.keep(_refuse_count, "refuse")
        letter = field.form
        size = 1 if letter is None else struct.calcsize(f">{letter}")
        self.add(
            f"if n:\n n -= 1\n if n * {size} > len(frame) - at: {refuse}(frame, at, n)",
        )
        if letter is not None and field.type not in (uuid.UUID, ErrorCode):
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
        if field.is_struct and (self.cls.__name__, field.name) in REPEATED and not self.in_turns:
            elements = self.keep(RepeatedElements(reader(field.type, self.spec, self.version)), "elements")
            self.add(f" {_local(field)}, at = {elements}(frame, at, n)")
            return
        self.add(" items = []\n append = items.append\n for _ in range(n):")
        if field.is_struct:
            self.add(f"item, at = {self._call(field.type)}", 3)
        else:
            one = self.keep(_element_reader(field, self.is_flexible), "read")
            self.add(f"item, at = {one}(frame, at)", 3)
        self.add("  append(item)" + ("\n  yield" if self.in_turns else ""))
        self.add(f" {_local(field)} = tuple(items)")

    def _tagged_reader(self, field: schema.Field) -> Read:
        if field.is_array:
            return _array_reader(self._tagged_element(field))
        return self._tagged_element(field)

    def _tagged_element(self, field: schema.Field) -> Read:
        if field.is_struct:
            return reader(field.type, self.spec, self.version)
        return _element_reader(field, True)


class _WriterSource(_Source):
    """The source of a writer."""

    def compiled(self) -> Callable[..., Any]:
        self.add("def function(message, out):", 0)
        self.add("if 0: yield" if self.in_turns else "pass")
        for run in self.runs():
            field = run[0]
            if not field.is_array and field.form is not None:
                self._write_run(run)
                continue
            self.add(f"value = message.{field.name}")
            if field.is_array:
                self._write_array(field)
            elif field.is_struct:
                self._write_struct(field)
            else:
                self._write_sized(field)
        if self.is_flexible:
            self._write_tags()
        return super().compiled()

    def _write_run(self, run: list[schema.Field]) -> None:
        formats = "".join(field.form or "" for field in run)
        pack = self.keep(struct.Struct(f">{formats}").pack, "pack")
        values = []
        for field in run:
            value = f"message.{field.name}"
            if field.type is uuid.UUID:
                value = f"{self.keep(packing.pack_uuid, 'pack_uuid')}({value})"
            values.append(value)
        self.add(f"out += {pack}({', '.join(values)})")

    def _write_struct(self, field: schema.Field) -> None:
        call = self._call(field.type, "value")
        if field.nullable:
            self.add(f"if value is None: out.append(255)\nelse:\n out.append(1)\n {call}")
        else:
            self.add(call)

    def _call(self, nested: type, value: str) -> str:
        if self.in_turns and has_arrays(nested, self.version):
            return f"yield from {self.keep(writer_in_turns(nested, self.spec, self.version), 'write')}({value}, out)"
        return f"{self.keep(writer(nested, self.spec, self.version), 'write')}({value}, out)"

    def _write_sized(self, field: schema.Field) -> None:
        is_string = field.type is str
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
        if field.is_struct:
            self._write_structs(field.type, depth)
            return
        letter = field.form
        if letter is not None and field.type is not uuid.UUID:
            if self.in_turns:
                numbers = self.keep(_write_numbers_in_turns, "numbers")
                self.add(f"yield from {numbers}(value, out, '{letter}')", depth)
            else:
                self.add(
                    f"out += {self.keep(struct.pack, 'pack')}(f'>{{len(value)}}{letter}', *value)", depth
                )
            return
        write = self.keep(_element_writer(field, self.is_flexible), "write")
        self.add(f"for item in value:\n {write}(item, out)" + ("\n yield" if self.in_turns else ""), depth)

    def _write_structs(self, nested: type, depth: int) -> None:
        shared, version = self.keep(SharedArray, "SharedArray"), self.keep((nested, self.version), "version")
        plain = self.keep(writer(nested, self.spec, self.version), "write")
        if self.in_turns:
            append = self.keep(append_shared, "append")
            in_turns = self.keep(writer_in_turns(nested, self.spec, self.version), "write")
            kept = f"{append}(out, (yield from value.bytes_in_turns({version}, {in_turns})))"
        else:
            kept = f"out += value.bytes_of({version}, {plain})"
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
        self.add("tags = []")
        for field in fields:
            default = self.keep(field.default, "default")
            write = self.keep(self._tagged_writer(field), "write")
            packed = self.keep(_packed, "packed")
            self.add(
                f"value = message.{field.name}\n"
                f"if value != {default}: tags.append(({field.tag}, {packed}({write}, value)))"
            )
        self.add(f"out += {self.keep(packing.pack_tags, 'pack_tags')}(tags)")

    def _tagged_writer(self, field: schema.Field) -> Write:
        if field.is_struct:
            one = writer(field.type, self.spec, self.version)
        else:
            one = _element_writer(field, True)
        return _array_writer(one) if field.is_array else one


def _local(field: schema.Field) -> str:
    """The name of the local variable that holds a field in a reader. The prefix `of_` prevents a clash with the
    reader's own variables."""
    return f"of_{field.name}"


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


def _element_reader(field: schema.Field, flexible: bool) -> Read:
    if field.form is not None:
        packed = struct.Struct(f">{field.form}")
        is_uuid, is_code = field.type is uuid.UUID, field.type is ErrorCode

        def read(frame: bytes, at: int) -> tuple[object, int]:
            (value,) = packed.unpack_from(frame, at)
            return (_uuid(value) if is_uuid else _CODES[value] if is_code else value), at + packed.size

        return read
    assert field.type is str, field
    return lambda frame, at: packing.read_present_string(frame, at, flexible, "of an array")


def _element_writer(field: schema.Field, flexible: bool) -> Write:
    if field.type is uuid.UUID:
        return lambda value, out: out.extend(packing.pack_uuid(value))
    if field.form is None:
        return lambda value, out: out.extend(packing.pack_string(value, flexible))
    pack = struct.Struct(f">{field.form}").pack
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
