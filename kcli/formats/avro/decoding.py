"""Decodes Avro's binary form, with a function for each pair of a writer's type and a reader's type.

A pair that cannot be read is an error only if a value has it, because a writer's union may have such branches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.formats.avro.compatibility import PROMOTIONS, Comparison, names_match, writer_fields
from kcli.formats.avro.empty_items import EMPTY_ITEMS_MAX
from kcli.formats.avro.encoding import Writers
from kcli.formats.avro.json_values import default_value
from kcli.formats.avro.logical_values import from_stored
from kcli.formats.avro.numbers import InvalidAvro, read_long
from kcli.formats.avro.schema import (
    Array,
    Enum,
    Field,
    Fixed,
    Kind,
    Map,
    Part,
    Primitive,
    Record,
    Union,
    branch_name,
    kind_of,
)
from kcli.formats.avro.stored_values import (
    PRIMITIVE_READS,
    PROMOTED,
    Convert,
    Read,
    read_fixed,
    read_string,
)
from kcli.formats.codec import FormatError

READS_MAX = 100_000
"""The most pairs of types, and of fields in them. Two unions of records may have as many pairs as the product of their
numbers of records."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of decoded values."""

    converter: Callable[[Primitive | Fixed], Convert | None]
    """Returns the function that converts the stored values of a type."""

    field_of: Callable[[Union, Part], str | None]
    """Returns the name under which an object has the value of a branch. None if the value stands alone."""


class Readers:
    """Makes the functions that decode the types of one schema. `empty` has the types whose values have no bytes."""

    def __init__(self, form: Form, empty: frozenset[int]) -> None:
        self._form = form
        self._empty = empty
        self._reads: dict[tuple[int, int], Read] = {}
        self._comparison = Comparison()
        self._writers = Writers()
        self._made = 0

    def of(self, writer: Part, reader: Part) -> Read:
        """Returns the function that decodes values of `writer` as values of `reader`."""
        pair = (id(writer), id(reader))
        if (known := self._reads.get(pair)) is not None:
            return known
        # Records may contain themselves, so until the function is complete, it is looked up when it is called.
        self._reads[pair] = lambda data, at: self._reads[pair](data, at)
        read = self._new(writer, reader)
        self._reads[pair] = read
        return read

    def _new(self, writer: Part, reader: Part) -> Read:
        self._count(1)
        match writer, reader:
            case Union(), _:
                return self._writer_union(writer, reader)
            case _, Union():
                return self._reader_union(writer, reader)
            case Primitive(), Primitive() if writer.kind is reader.kind or writer.kind in PROMOTIONS.get(
                reader.kind, ()
            ):
                return self._primitive(writer.kind, reader)
            case Array(), Array():
                return _array(self.of(writer.items, reader.items), is_empty=id(writer.items) in self._empty)
            case Map(), Map():
                return _map(self.of(writer.values, reader.values))
            case Fixed(), Fixed() if writer.size == reader.size and names_match(reader, writer):
                return self._stored(read_fixed(writer.size), reader)
            case Enum(), Enum() if names_match(reader, writer):
                return _enum(writer, reader)
            case Record(), Record():
                return self._record(writer, reader)
            case _:
                return _unreadable(writer, reader)

    def _count(self, number: int) -> None:
        self._made += number
        if self._made > READS_MAX:
            raise FormatError("the two schemas are too complex to decode values with")

    def _writer_union(self, writer: Union, reader: Part) -> Read:
        # If both schemas are one, a branch is read as itself, because the values show from which branch they come.
        is_same = writer is reader
        reads = [
            self._branch(branch, branch, writer) if is_same else self.of(branch, reader)
            for branch in writer.branches
        ]
        count = len(reads)

        def read(data: bytes, at: int) -> tuple[object, int]:
            nth, at = read_long(data, at)
            if not 0 <= nth < count:
                raise InvalidAvro(f"the union has no branch {nth}")
            return reads[nth](data, at)

        return read

    def _reader_union(self, writer: Part, reader: Union) -> Read:
        branch = chosen_branch(writer, reader, self._comparison)
        return _unreadable(writer, reader) if branch is None else self._branch(writer, branch, reader)

    def _branch(self, writer: Part, branch: Part, union: Union) -> Read:
        """Decodes a value of a union."""
        read = self.of(writer, branch)
        name = self._form.field_of(union, branch)
        if name is None or kind_of(branch) is Kind.NULL:
            return read

        def read_named(data: bytes, at: int) -> tuple[object, int]:
            value, at = read(data, at)
            return {name: value}, at

        return read_named

    def _primitive(self, kind: Kind, reader: Primitive) -> Read:
        # A text that is read as bytes need not be UTF-8.
        read = PRIMITIVE_READS[Kind.BYTES if reader.kind is Kind.BYTES else kind]
        promote = PROMOTED.get((kind, reader.kind))
        return self._stored(read if promote is None else converted(read, promote), reader)

    def _stored(self, read: Read, reader: Primitive | Fixed) -> Read:
        """Converts stored values to values of the form."""
        convert = self._form.converter(reader)
        return read if convert is None else converted(read, convert)

    def _record(self, writer: Record, reader: Record) -> Read:
        self._count(len(reader.fields) + len(writer.fields))
        sources = writer_fields(reader, writer)
        targets = {id(sources[field.name]): field for field in reader.fields if field.name in sources}
        steps = [self._step(field, targets.get(id(field))) for field in writer.fields]
        names = [field.name for field in reader.fields]
        if [name for name, _ in steps] == names:
            return _record(steps)
        defaults = [
            (field.name, self._default(field, reader)) for field in reader.fields if field.name not in sources
        ]
        return _evolved(steps, names, defaults)

    def _step(self, source: Field, target: Field | None) -> tuple[str | None, Read]:
        if target is None:
            return None, self.of(source.type, source.type)
        return target.name, self.of(source.type, target.type)

    def _default(self, field: Field, record: Record) -> Callable[[], object]:
        """Returns a function that makes the default of a field. The default passes through the binary form, so that it
        has the form of decoded values."""
        out = bytearray()
        try:
            if field.default is None:
                raise InvalidAvro(missing_text(field, record))
            self._writers.of(field.type)(default_value(field.type, field.default.json), out)
        except InvalidAvro as error:
            return _raising(str(error))
        raw, read = bytes(out), self.of(field.type, field.type)
        return lambda: read(raw, 0)[0]


def chosen_branch(writer: Part, reader: Union, comparison: Comparison) -> Part | None:
    """Returns the branch of a reader's union for a type of the writer.

    A branch of the same name is taken even if it cannot read all values, because it may read this value.
    """
    named = [branch for branch in reader.branches if branch_name(branch) == branch_name(writer)]
    readable = [branch for branch in reader.branches if comparison.can_read(branch, writer)]
    alike = [branch for branch in readable if kind_of(branch) is kind_of(writer)]
    return next(iter(named + alike + readable), None)


def unreadable_text(writer: Part, reader: Part) -> str:
    return f"the writer's {branch_name(writer)} cannot be read as {branch_name(reader)}"


def missing_text(field: Field, record: Record) -> str:
    return f"the field {field.name} of {record.name.full} has no default, and is missing"


def _raising(text: str) -> Callable[[], object]:
    def refuse() -> object:
        raise InvalidAvro(text)

    return refuse


def _unreadable(writer: Part, reader: Part) -> Read:
    refuse = _raising(unreadable_text(writer, reader))
    return lambda data, at: (refuse(), at)


def converted(read: Read, convert: Callable[[object], object]) -> Read:
    def read_converted(data: bytes, at: int) -> tuple[object, int]:
        value, at = read(data, at)
        return convert(value), at

    return read_converted


def _record(steps: list[tuple[str | None, Read]]) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        values = {}
        for name, read_field in steps:
            values[name], at = read_field(data, at)
        return values, at

    return read


def _evolved(
    steps: list[tuple[str | None, Read]], names: list[str], defaults: list[tuple[str, Callable[[], object]]]
) -> Read:
    """Reads a record whose fields are not those of the writer, or in another order."""

    def read(data: bytes, at: int) -> tuple[object, int]:
        values: dict[str, object] = dict.fromkeys(names)
        for name, read_field in steps:
            value, at = read_field(data, at)
            if name is not None:
                values[name] = value
        for name, make in defaults:
            values[name] = make()
        return values, at

    return read


def _array(read_item: Read, *, is_empty: bool) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        items: list[object] = []
        while True:
            count, at = _block(data, at, is_empty=is_empty)
            if not count:
                return items, at
            for _ in range(count):
                item, at = read_item(data, at)
                items.append(item)

    return read


def _map(read_value: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[object, int]:
        values: dict[str, object] = {}
        while True:
            count, at = _block(data, at, is_empty=False)
            if not count:
                return values, at
            for _ in range(count):
                name, at = read_string(data, at)
                values[name], at = read_value(data, at)

    return read


def _block(data: bytes, at: int, *, is_empty: bool) -> tuple[int, int]:
    """Reads the number of elements in the next block of an array or a map."""
    count, at = read_long(data, at)
    if count < 0:  # the length of the block in bytes follows, with which a reader could skip the block
        count = -count
        _, at = read_long(data, at)
    if count > (EMPTY_ITEMS_MAX if is_empty else len(data) - at):  # any other element has at least a byte
        raise InvalidAvro(f"a block of {count} elements is too long, because {len(data) - at} bytes remain")
    return count, at


def _enum(writer: Enum, reader: Enum) -> Read:
    known = set(reader.symbols)
    symbols = [symbol if symbol in known else reader.default for symbol in writer.symbols]

    def read(data: bytes, at: int) -> tuple[object, int]:
        nth, at = read_long(data, at)
        if not 0 <= nth < len(symbols):
            raise InvalidAvro(f"the enum {writer.name.full} has no symbol {nth}")
        symbol = symbols[nth]
        if symbol is None:
            raise InvalidAvro(f"No match for {writer.symbols[nth]}")
        return symbol, at

    return read


def _latin_text(value: object) -> object:
    assert isinstance(value, bytes), "the schema says so"
    return value.decode("latin-1")


def _widened(value: object) -> object:
    assert isinstance(value, float), "the schema says so"
    return value + 0.0  # Java adds 0 to make a double, which also removes the sign of -0


_JSON: Mapping[Kind, Convert] = {
    Kind.BYTES: _latin_text,
    Kind.FIXED: _latin_text,
    Kind.FLOAT: _widened,
}

PLAIN = Form(
    lambda part: None if part.logical is None else from_stored(part.logical), lambda _union, _branch: None
)
"""Logical types have the types of Python, and the value of a union is the value of its branch."""

JSON = Form(lambda part: _JSON.get(kind_of(part)), lambda _union, branch: branch_name(branch))
"""The JSON encoding of Avro: bytes are text with a character for each byte, a value of a union is an object with the
name of its branch, and logical types have no meaning."""
