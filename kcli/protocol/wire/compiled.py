"""Compiles the functions that read and write one struct of one version: bytes to our message, and back.

The source of each function is made from the schema of the struct's class, and compiled when it is first used. A reader
builds the message in one pass over the bytes. Functions that interpret the schema for each message need several times
as much CPU time (docs/adr/0008).

A function for a struct that has arrays is a coroutine function, because the sender of a message chooses the number of
elements. It charges its pace for the elements, so that its caller can pause a large message and serve other clients
(kcli.model.pace). A function for any other struct is a plain function, because a call is cheaper.

A reader compares every length with the number of bytes that are left. So a client cannot make it allocate memory by a
wrong length.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Coroutine, Iterator
from functools import cache, partial
from typing import Any, cast

from kcli.errors import ErrorCode, ProtocolError
from kcli.model.buffers import Buffer
from kcli.model.java_utf8 import JAVA
from kcli.model.pace import Pace
from kcli.protocol.wire import packing, schema
from kcli.protocol.wire.api import ApiSpec
from kcli.protocol.wire.repeated import REPEATED, RepeatedElements
from kcli.protocol.wire.shared_array import SharedArray, append_shared

Read = Callable[[bytes, int], tuple[Any, int]]
"""A function that reads a message at a position of a frame. It returns the message and the position after it. For
malformed bytes, it raises ProtocolError or another error."""
ReadArrays = Callable[[bytes, int, Pace], Coroutine[Any, Any, tuple[Any, int]]]
"""The same for a struct that has arrays."""
Write = Callable[[Any, bytearray], None]
"""A function that encodes a message and appends its bytes to a buffer."""
WriteArrays = Callable[[Any, bytearray, Pace], Coroutine[Any, Any, None]]
"""The same for a struct that has arrays."""

STRING_SIZE_MAX = 0x7FFF
"""The longest string. Kafka refuses longer strings even in flexible versions, although their length field could express
more."""

ELEMENT_COST = 2
"""The cost to read or write an element of an array, in microseconds. An element takes 1 to 3 µs."""
ELEMENTS_AT_ONCE = 50
"""Elements of an array that are charged together, because one call of the pace takes as long as a small element. This
also is the slice of an array of numbers, although 50 numbers take only 1 µs."""

_CODES = {code.value: code for code in ErrorCode}
_ZERO_UUID = bytes(16)


@cache
def reader(cls: type, spec: ApiSpec, version: int) -> Callable[..., Any]:
    """Returns the function that reads one version of a struct and makes an instance of its class: a `Read`, or a
    `ReadArrays` if the struct has arrays."""
    return _ReaderSource(cls, spec, version).compiled()


@cache
def writer(cls: type, spec: ApiSpec, version: int) -> Callable[..., Any]:
    """Returns the function that writes an instance of the class in one version: a `Write`, or a `WriteArrays` if the
    struct has arrays."""
    return _WriterSource(cls, spec, version).compiled()


async def read(cls: type, spec: ApiSpec, version: int, frame: bytes, at: int, pace: Pace) -> tuple[Any, int]:
    """Reads one version of a struct. Returns an instance of its class, and the position after it."""
    function = reader(cls, spec, version)
    result: tuple[Any, int] = (
        await function(frame, at, pace) if has_arrays(cls, version) else function(frame, at)
    )
    return result


async def write(cls: type, spec: ApiSpec, version: int, message: object, out: bytearray, pace: Pace) -> None:
    """Writes one version of a struct, and appends its bytes to a buffer."""
    if has_arrays(cls, version):
        await writer(cls, spec, version)(message, out, pace)
    else:
        writer(cls, spec, version)(message, out)


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

    def __init__(self, cls: type, spec: ApiSpec, version: int) -> None:
        self.cls = cls
        self.spec = spec
        self.version = version
        self.has_arrays = has_arrays(cls, version)
        self.is_flexible = spec.is_flexible(version)
        self.lines: list[str] = []
        self.scope: dict[str, object] = {}

    def add(self, text: str, depth: int = 1) -> None:
        self.lines += [" " * depth + line for line in text.splitlines()]

    def begin(self, parameters: str) -> None:
        """Adds the first line of the function."""
        self.add(
            f"async def function({parameters}, pace):" if self.has_arrays else f"def function({parameters}):",
            0,
        )

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
        fields = [field for field in schema.fields(self.cls, self.version) if field.tag is not None]
        return sorted(fields, key=lambda field: cast(int, field.tag))


class _ReaderSource(_Source):
    """The source of a reader."""

    def compiled(self) -> Callable[..., Any]:
        struct_class = self.keep(self.cls, "Struct")
        self.begin("frame, at")
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
        read = self.keep(reader(nested, self.spec, self.version), "read")
        return f"await {read}(frame, at, pace)" if has_arrays(nested, self.version) else f"{read}(frame, at)"

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
        numbers, many = self.keep(struct.unpack_from, "numbers"), self.keep(_read_numbers, "many")
        self.add(
            f" if n <= {ELEMENTS_AT_ONCE}: {_local(field)} = {numbers}(f'>{{n}}{letter}', frame, at)\n"
            f" else: {_local(field)} = await {many}(frame, at, n, '{letter}', {size}, pace)\n"
            f" at += n * {size}"
        )

    def _read_elements(self, field: schema.Field) -> None:
        self.add(" items = []\n append = items.append\n for i in range(n):")
        self.add(
            f"if not i % {ELEMENTS_AT_ONCE}: await pace(min(n - i, {ELEMENTS_AT_ONCE}) * {ELEMENT_COST})", 3
        )
        if field.is_struct and (self.cls.__name__, field.name) in REPEATED:
            elements = RepeatedElements(partial(read, field.type, self.spec, self.version))
            self.add(f"item, at = await {self.keep(elements.read, 'element')}(frame, at, i, pace)", 3)
        elif field.is_struct:
            self.add(f"item, at = {self._call(field.type)}", 3)
        else:
            one = self.keep(_element_reader(field, self.is_flexible), "read")
            self.add(f"item, at = {one}(frame, at)", 3)
        self.add("  append(item)")
        self.add(f" {_local(field)} = tuple(items)")

    def _tagged_reader(self, field: schema.Field) -> Read:
        if field.is_array:
            return _array_reader(self._tagged_element(field))
        return self._tagged_element(field)

    def _tagged_element(self, field: schema.Field) -> Read:
        if field.is_struct:
            assert not has_arrays(field.type, self.version), "no tagged struct of Kafka has an array"
            return reader(field.type, self.spec, self.version)
        return _element_reader(field, True)


class _WriterSource(_Source):
    """The source of a writer."""

    def compiled(self) -> Callable[..., Any]:
        self.begin("message, out")
        self.add("pass")
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
        write = self.keep(writer(nested, self.spec, self.version), "write")
        if has_arrays(nested, self.version):
            return f"await {write}({value}, out, pace)"
        return f"{write}({value}, out)"

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
            pack = self.keep(struct.pack, "pack")
            many = self.keep(_write_numbers, "many")
            self.add(
                f"if len(value) <= {ELEMENTS_AT_ONCE}: out += {pack}(f'>{{len(value)}}{letter}', *value)\n"
                f"else: await {many}(value, out, '{letter}', pace)",
                depth,
            )
            return
        self._write_elements(
            f"{self.keep(_element_writer(field, self.is_flexible), 'write')}(item, out)", depth
        )

    def _write_structs(self, nested: type, depth: int) -> None:
        shared, version = self.keep(SharedArray, "SharedArray"), self.keep((nested, self.version), "version")
        write = self.keep(self._struct_writer(nested), "write")
        append = self.keep(append_shared, "append")
        self.add(
            f"if type(value) is {shared}: {append}(out, await value.encoded({version}, {write}, pace))\nelse:",
            depth,
        )
        self._write_elements(self._call(nested, "item"), depth + 1)

    def _struct_writer(self, nested: type) -> WriteArrays:
        async def write_one(item: object, out: bytearray, pace: Pace) -> None:
            await write(nested, self.spec, self.version, item, out, pace)

        return write_one

    def _write_elements(self, call: str, depth: int) -> None:
        charge = f"await pace(min(len(value) - i, {ELEMENTS_AT_ONCE}) * {ELEMENT_COST})"
        self.add(
            f"for i, item in enumerate(value):\n if not i % {ELEMENTS_AT_ONCE}: {charge}\n {call}", depth
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
            one: Write = writer(field.type, self.spec, self.version)
        else:
            one = _element_writer(field, True)
        return _array_writer(one) if field.is_array else one


def _local(field: schema.Field) -> str:
    """The name of the local variable that holds a field in a reader. The prefix `of_` prevents a clash with the
    reader's own variables."""
    return f"of_{field.name}"


# Arrays of numbers. One call of `struct` for a whole array could take long, so these arrays are handled in parts.


async def _read_numbers(
    frame: bytes, at: int, count: int, letter: str, size: int, pace: Pace
) -> tuple[int, ...]:
    numbers: list[int] = []
    while len(numbers) < count:
        await pace(1)
        here = min(ELEMENTS_AT_ONCE, count - len(numbers))
        numbers += struct.unpack_from(f">{here}{letter}", frame, at)
        at += here * size
    return tuple(numbers)


async def _write_numbers(numbers: tuple[int, ...], out: bytearray, letter: str, pace: Pace) -> None:
    for begin in range(0, len(numbers), ELEMENTS_AT_ONCE):
        await pace(1)
        here = numbers[begin : begin + ELEMENTS_AT_ONCE]
        out += struct.pack(f">{len(here)}{letter}", *here)


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
