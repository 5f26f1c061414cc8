"""The candidate "lines": functions that are compiled when a version of a message is first read or written.

A message becomes one function without calls for its fields. Nested structs are loops inside this function, and
consecutive fields of fixed size are one call of `struct`. Every length is compared with the bytes that are left before
an object is made, so no check of the whole frame has to come before.
"""

from __future__ import annotations

import itertools
import struct
import typing
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from codec_prototype.fields import WireField, wire_fields
from kcli.errors import ErrorCode, ProtocolError
from kcli.protocol.records.schema import schema_of
from kcli.protocol.wire.packing import pack_uvarint, read_uvarint

_ZERO_UUID = bytes(16)
_SIZES = {"error": 2, "uuid": 16}
_LEAST = {"string": 1, "bytes": 1, "struct": 1}

_READERS: dict[tuple[type, int], Callable[[bytes, int], typing.Any]] = {}
_WRITERS: dict[tuple[type, int], Callable[[typing.Any, bytearray], None]] = {}


def decode(cls: type, version: int, frame: bytes, offset: int) -> typing.Any:
    """Decodes a message of class `cls`. Raises ProtocolError if the bytes from `offset` on are not one."""
    try:
        read = _READERS.get((cls, version)) or _make_reader(cls, version)
        return read(frame, offset)
    except Exception as error:
        raise ProtocolError(f"{cls.__name__} v{version} is malformed: {error}") from error


def encode(message: typing.Any, version: int) -> bytes:
    out = bytearray()
    cls = type(message)
    write = _WRITERS.get((cls, version)) or _make_writer(cls, version)
    write(message, out)
    return bytes(out)


def prepare(cls: type, version: int) -> None:
    """Compiles the functions that the first use would compile."""
    _make_reader(cls, version)
    _make_writer(cls, version)


# Helpers of the compiled functions ----------------------------------------------------------------


def _past(field: str, length: int) -> typing.NoReturn:
    raise ProtocolError(f"{field}: a length of {length} runs past the end of the message")


def _null(field: str) -> typing.NoReturn:
    raise ProtocolError(f"non-nullable field {field} was serialized as null")


def _null_written(field: str) -> typing.NoReturn:
    raise TypeError(f"non-nullable field {field} has no value")


def _skip_tags(frame: bytes, at: int, end: int) -> int:
    count, at = read_uvarint(frame, at)
    for _ in range(count):
        _, at = read_uvarint(frame, at)
        size, at = read_uvarint(frame, at)
        if size > end - at:
            _past("tagged field", size)
        at += size
    return at


_SCOPE: dict[str, object] = {
    "UUID": uuid.UUID,
    "ERRORS": {code.value: code for code in ErrorCode},
    "ZERO": _ZERO_UUID,
    "uvarint": read_uvarint,
    "pack_uvarint": pack_uvarint,
    "unpack_from": struct.unpack_from,
    "pack": struct.pack,
    "past": _past,
    "null": _null,
    "null_written": _null_written,
    "skip_tags": _skip_tags,
}


class _Source:
    """The lines of a function, and the constants that these lines name."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.scope = dict(_SCOPE)
        self._lines: list[str] = []
        self._depth = 0
        self._numbers = itertools.count()

    def add(self, *lines: str) -> None:
        self._lines += [" " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, stem: str) -> str:
        return f"{stem}{next(self._numbers)}"

    def constant(self, value: object) -> str:
        name = self.name("K")
        self.scope[name] = value
        return name

    def compiled(self, name: str) -> typing.Any:
        exec("\n".join(self._lines), self.scope)
        return self.scope[name]


def _code(field: WireField) -> str | None:
    """Returns the struct code of a field of fixed size, or None for other fields."""
    if field.is_array or field.kind in _LEAST:
        return None
    return {"error": "h", "uuid": "16s"}.get(field.kind, field.kind)


def _split(cls: type, source: _Source) -> tuple[list[WireField], list[WireField]]:
    fields = wire_fields(cls, source.version)
    tagged = [(field.tag, field) for field in fields if field.tag is not None]
    return [field for field in fields if field.tag is None], [
        field for _, field in sorted(tagged, key=_first)
    ]


def _first(pair: tuple[int, WireField]) -> int:
    return pair[0]


# Reading ------------------------------------------------------------------------------------------


def _make_reader(cls: type, version: int) -> Callable[[bytes, int], typing.Any]:
    source = _Source(version, version >= schema_of(cls).flexible_since)
    with source.block("def read(b, at):"):
        source.add("end = len(b)")
        source.add(f"return {_read_struct(source, cls)}")
    read: Callable[[bytes, int], typing.Any] = source.compiled("read")
    _READERS[cls, version] = read
    return read


def _read_struct(source: _Source, cls: type) -> str:
    """Adds the lines that read the fields of a struct. Returns the expression that makes the struct."""
    plain, tagged = _split(cls, source)
    values: dict[str, str] = {}
    run: list[WireField] = []
    for field in plain:
        if _code(field):
            run.append(field)
        else:
            values |= _read_run(source, run)
            run = []
            values[field.name] = _read_field(source, field)
    values |= _read_run(source, run)
    if tagged:
        values |= _read_tagged(source, tagged)
    elif source.flexible:
        source.add("if b[at]: at = skip_tags(b, at, end)", "else: at += 1")
    return f"{source.constant(cls)}({', '.join(f'{name}={value}' for name, value in values.items())})"


def _read_run(source: _Source, run: list[WireField]) -> dict[str, str]:
    """Adds a line that reads consecutive fields of fixed size with one call.

    Returns the expressions of their values.
    """
    if not run:
        return {}
    form = struct.Struct(">" + "".join(_code(field) or "" for field in run))
    names = {field.name: source.name("v") for field in run}
    source.add(
        f"{', '.join(names.values())}, = {source.constant(form.unpack_from)}(b, at)", f"at += {form.size}"
    )
    return {field.name: _converted(field.kind, names[field.name]) for field in run}


def _converted(kind: str, value: str) -> str:
    if kind == "uuid":
        return f"(None if {value} == ZERO else UUID(bytes={value}))"
    return f"ERRORS[{value}]" if kind == "error" else value


def _read_field(source: _Source, field: WireField) -> str:
    """Adds the lines that read any field. Returns the expression of its value."""
    if _code(field):
        return _read_run(source, [field])[field.name]
    value = source.name("v")
    if field.kind == "struct" and not field.is_array:
        return _read_single(source, field, value)
    length = _read_length(source, field)
    with source.block(f"if {length} < 0:"):
        source.add(f"if {length} < -1: past({field.name!r}, {length})")
        source.add(f"{value} = None" if field.nullable else f"null({field.name!r})")
    with source.block("else:"):
        if field.is_array:
            _read_array(source, field, value, length)
        else:
            source.add(f"stop = at + {length}", f"if stop > end: past({field.name!r}, {length})")
            source.add(
                f"{value} = str(b[at:stop], 'utf-8')" if field.kind == "string" else f"{value} = b[at:stop]"
            )
            source.add("at = stop")
    return value


def _read_single(source: _Source, field: WireField, value: str) -> str:
    assert field.struct is not None
    if not field.nullable:
        source.add(f"{value} = {_read_struct(source, field.struct)}")
        return value
    source.add("at += 1")
    with source.block("if b[at - 1] >= 0x80:" if field.tag is None else "if b[at - 1] == 0:"):
        source.add(f"{value} = None")
    with source.block("else:"):
        source.add(f"{value} = {_read_struct(source, field.struct)}")
    return value


def _read_length(source: _Source, field: WireField) -> str:
    length = source.name("n")
    if source.flexible:
        source.add(f"{length} = b[at] - 1", "at += 1")
        with source.block(f"if {length} > 126:"):
            source.add(f"{length}, at = uvarint(b, at - 1)", f"{length} -= 1")
    else:
        form = struct.Struct(">h" if field.kind == "string" and not field.is_array else ">i")
        source.add(f"{length}, = {source.constant(form.unpack_from)}(b, at)", f"at += {form.size}")
    return length


def _read_array(source: _Source, field: WireField, value: str, length: str) -> None:
    size = 1 if field.kind in _LEAST else _SIZES.get(field.kind) or struct.calcsize(">" + field.kind)
    source.add(f"if {length} * {size} > end - at: past({field.name!r}, {length})")
    if field.kind not in _LEAST and field.kind not in _SIZES:
        source.add(f"{value} = unpack_from('>%d{field.kind}' % {length}, b, at)", f"at += {length} * {size}")
        return
    items = source.name("items")
    source.add(f"{items} = []")
    with source.block(f"for _ in range({length}):"):
        source.add(f"{items}.append({_read_field(source, _item(field))})")
    source.add(f"{value} = tuple({items})")


def _item(field: WireField) -> WireField:
    return WireField(field.name, field.kind, field.struct, False, False, None, field.default)


def _read_tagged(source: _Source, tagged: list[WireField]) -> dict[str, str]:
    values = {field.name: source.name("t") for field in tagged}
    for field in tagged:
        source.add(f"{values[field.name]} = {source.constant(field.default)}")
    tag, stop = source.name("tag"), source.name("stop")
    with source.block("if not b[at]:"):
        source.add("at += 1")
    with source.block("else:"):
        source.add("count, at = uvarint(b, at)")
        with source.block("for _ in range(count):"):
            source.add(f"{tag}, at = uvarint(b, at)", "size, at = uvarint(b, at)", f"{stop} = at + size")
            source.add(f"if {stop} > end: past('tagged field', size)")
            for field in tagged:
                with source.block(f"if {tag} == {field.tag}:"):
                    source.add(f"{values[field.name]} = {_read_field(source, field)}")
                    source.add(f"if at != {stop}: past({field.name!r}, size)")
            source.add(f"at = {stop}")
    return values


# Writing ------------------------------------------------------------------------------------------


def _make_writer(cls: type, version: int) -> Callable[[typing.Any, bytearray], None]:
    source = _Source(version, version >= schema_of(cls).flexible_since)
    with source.block("def write(m, out):"):
        _write_struct(source, cls, "m", "out")
        source.add("pass")
    write: Callable[[typing.Any, bytearray], None] = source.compiled("write")
    _WRITERS[cls, version] = write
    return write


def _write_struct(source: _Source, cls: type, of: str, out: str) -> None:
    plain, tagged = _split(cls, source)
    run: list[WireField] = []
    for field in plain:
        if _code(field):
            run.append(field)
        else:
            _write_run(source, run, of, out)
            run = []
            _write_field(source, field, f"{of}.{field.name}", out)
    # A pad byte of `struct` is 0, which is the count of tags if there are no tags.
    _write_run(source, run, of, out, "x" if source.flexible and not tagged else "")
    if tagged:
        _write_tagged(source, tagged, of, out)


def _write_run(source: _Source, run: list[WireField], of: str, out: str, pad: str = "") -> None:
    if not run and not pad:
        return
    form = struct.Struct(">" + "".join(_code(field) or "" for field in run) + pad)
    values = [_packed(field.kind, f"{of}.{field.name}") for field in run]
    source.add(f"{out} += {source.constant(form.pack)}({', '.join(values)})" if run else f"{out}.append(0)")


def _packed(kind: str, value: str) -> str:
    return f"ZERO if {value} is None else {value}.bytes" if kind == "uuid" else value


def _write_field(source: _Source, field: WireField, value: str, out: str) -> None:
    code = _code(field)
    if code:
        source.add(
            f"{out} += {source.constant(struct.Struct('>' + code).pack)}({_packed(field.kind, value)})"
        )
        return
    name = source.name("v")
    source.add(f"{name} = {value}")
    if field.kind == "struct" and not field.is_array and not field.nullable:
        assert field.struct is not None
        _write_struct(source, field.struct, name, out)
        return
    with source.block(f"if {name} is None:"):
        source.add(
            f"{out} += {_null_bytes(source, field)!r}" if field.nullable else f"null_written({field.name!r})"
        )
    with source.block("else:"):
        _write_present(source, field, name, out)


def _null_bytes(source: _Source, field: WireField) -> bytes:
    if field.kind == "struct" and not field.is_array:
        return b"\xff" if field.tag is None else b"\x00"
    if source.flexible:
        return b"\x00"
    return b"\xff\xff" if field.kind == "string" and not field.is_array else b"\xff\xff\xff\xff"


def _write_present(source: _Source, field: WireField, name: str, out: str) -> None:
    if field.is_array:
        _write_length(source, ">i", f"len({name})", out)
        _write_items(source, field, name, out)
    elif field.kind == "struct":
        assert field.struct is not None
        source.add(f"{out}.append(1)")
        _write_struct(source, field.struct, name, out)
    else:
        if field.kind == "string":
            source.add(f"{name} = {name}.encode()")
        _write_length(source, ">h" if field.kind == "string" else ">i", f"len({name})", out)
        source.add(f"{out} += {name}")


def _write_length(source: _Source, form: str, length: str, out: str) -> None:
    if source.flexible:
        source.add(f"n = {length} + 1", f"if n < 0x80: {out}.append(n)", f"else: {out} += pack_uvarint(n)")
    else:
        source.add(f"{out} += {source.constant(struct.Struct(form).pack)}({length})")


def _write_items(source: _Source, field: WireField, name: str, out: str) -> None:
    if field.kind not in _LEAST and field.kind not in _SIZES:
        source.add(f"{out} += pack('>%d{field.kind}' % len({name}), *{name})")
        return
    item = source.name("item")
    with source.block(f"for {item} in {name}:"):
        if field.kind == "struct":
            assert field.struct is not None
            _write_struct(source, field.struct, item, out)
            source.add("pass")
        else:
            _write_field(source, _item(field), item, out)


def _write_tagged(source: _Source, tagged: list[WireField], of: str, out: str) -> None:
    count, tags = source.name("count"), source.name("tags")
    source.add(f"{count} = 0", f"{tags} = b''")
    for field in tagged:
        with source.block(f"if {of}.{field.name} != {source.constant(field.default)}:"):
            content = source.name("content")
            source.add(f"{count} += 1", f"{content} = bytearray()")
            _write_field(source, field, f"{of}.{field.name}", content)
            source.add(
                f"{tags} += {pack_uvarint(field.tag or 0)!r} + pack_uvarint(len({content})) + {content}"
            )
    source.add(f"{out}.append({count})", f"{out} += {tags}")
