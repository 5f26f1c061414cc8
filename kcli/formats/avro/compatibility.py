"""Decides whether a reader's schema can read values of a writer's schema, with the rules of Apache Avro for Java.

The messages are those of Confluent's registry. A pair of types is compared once. If the comparison of a pair needs the
pair itself, because the types are recursive, the pair counts as compatible there.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.formats.avro.schema import (
    Array,
    Enum,
    Field,
    Fixed,
    Kind,
    Map,
    Named,
    Part,
    Primitive,
    Record,
    Union,
    kind_of,
)
from kcli.formats.codec import FormatError
from kcli.formats.schemas import Incompatibility

PAIRS_MAX = 1_000_000
"""The most comparisons of two types, and fields in them. Two unions of n records need n² comparisons."""

DEPTH_MAX = 150
"""The deepest nesting of comparisons. Recursive types that are nested differently need more depth than each alone."""

REPORTS_MAX = 10_000
"""The most reasons in a result."""

PROMOTIONS: Mapping[Kind, tuple[Kind, ...]] = {
    Kind.LONG: (Kind.INT,),
    Kind.FLOAT: (Kind.INT, Kind.LONG),
    Kind.DOUBLE: (Kind.INT, Kind.LONG, Kind.FLOAT),
    Kind.BYTES: (Kind.STRING,),
    Kind.STRING: (Kind.BYTES,),
}
"""The types of a writer that each type of a reader accepts, apart from itself."""

_Reasons = tuple[Incompatibility, ...]
_Path = tuple[str, ...]


def incompatibilities(reader: Part, writer: Part) -> _Reasons:
    """Returns why `reader` cannot read values of `writer`. Raises FormatError if the schemas are too complex."""
    return Comparison().reasons(reader, writer)


def names_match(reader: Named, writer: Named) -> bool:
    """Whether the reader means the writer's type: by the name without its namespace, or by an alias."""
    if reader.name.name == writer.name.name:
        return True
    return any(alias.full == writer.name.full for alias in reader.aliases)


def writer_fields(reader: Record, writer: Record) -> dict[str, Field]:
    """Returns the writer's field that each field of the reader takes, by its name or an alias.

    A field of the reader may have none. Raises FormatError if several fields match.
    """
    written = {field.name: field for field in writer.fields}
    sources: dict[str, Field] = {}
    for field in reader.fields:
        names = [name for name in dict.fromkeys((field.name, *field.aliases)) if name in written]
        if len(names) > 1:
            raise FormatError(
                f"Reader record field {field.name} matches multiple fields in writer record schema {writer.name.full}"
            )
        if names:
            sources[field.name] = written[names[0]]
    return sources


class Comparison:
    """Compares types of readers with types of writers, and remembers the results."""

    def __init__(self) -> None:
        self._results: dict[tuple[int, int], _Reasons] = {}
        self._pairs = 0
        self._depth = 0

    def reasons(self, reader: Part, writer: Part, path: _Path = ()) -> _Reasons:
        """Returns the reasons why a pair is incompatible. `path` is the place in the reader's schema."""
        pair = (id(reader), id(writer))
        if (known := self._results.get(pair)) is not None:
            return known
        self._count(1)
        self._results[pair] = ()
        self._depth += 1
        reasons = self._compared(reader, writer, path)[:REPORTS_MAX]
        self._depth -= 1
        self._results[pair] = reasons
        return reasons

    def can_read(self, reader: Part, writer: Part) -> bool:
        """Whether a branch of a union can be read. Records of other names are refused before their fields."""
        self._count(1)
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            return reader.kind is writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ())
        if (
            isinstance(reader, Named)
            and isinstance(writer, Named)
            and (type(reader) is not type(writer) or not names_match(reader, writer))
        ):
            return False
        return not self.reasons(reader, writer)

    def _count(self, number: int) -> None:
        self._pairs += number
        if self._pairs > PAIRS_MAX or self._depth > DEPTH_MAX:
            raise FormatError("the two schemas are too complex to compare")

    def _compared(self, reader: Part, writer: Part, path: _Path) -> _Reasons:
        match reader, writer:
            case Primitive(), Primitive():
                if reader.kind is writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
                    return ()
                return _type_mismatch(reader, writer, path)
            case Array(), Array():
                return self.reasons(reader.items, writer.items, (*path, "items"))
            case Map(), Map():
                return self.reasons(reader.values, writer.values, (*path, "values"))
            case Fixed(), Fixed():
                return _name_reasons(reader, writer, path) + _size_reasons(reader, writer, path)
            case Enum(), Enum():
                return _name_reasons(reader, writer, path) + _symbol_reasons(reader, writer, path)
            case Record(), Record():
                return _name_reasons(reader, writer, path) + self._field_reasons(reader, writer, path)
            case Union(), Union():
                return self._union_reasons(reader, writer, path)
            case _, Union():
                return tuple(
                    reason
                    for nth, branch in enumerate(writer.branches)
                    for reason in self.reasons(reader, branch, (*path, str(nth)))
                )
            case Union(), _:
                if any(self.can_read(branch, writer) for branch in reader.branches):
                    return ()
                return (_missing_branch(writer, path),)
            case _:
                return _type_mismatch(reader, writer, path)

    def _union_reasons(self, reader: Union, writer: Union, path: _Path) -> _Reasons:
        return tuple(
            _missing_branch(branch, (*path, str(nth)))
            for nth, branch in enumerate(writer.branches)
            if not any(self.can_read(candidate, branch) for candidate in reader.branches)
        )

    def _field_reasons(self, reader: Record, writer: Record, path: _Path) -> _Reasons:
        reasons: list[Incompatibility] = []
        self._count(len(reader.fields) + len(writer.fields))
        sources = writer_fields(reader, writer)
        for nth, field in enumerate(reader.fields):
            place = (*path, "fields", str(nth))
            source = sources.get(field.name)
            if source is not None:
                reasons += self.reasons(field.type, source.type, (*place, "type"))
            elif field.default is not None:
                continue
            elif isinstance(field.type, Enum) and field.type.default is not None:
                # Java compares the enum with the writer's record here, so it reports that the types differ.
                reasons += self.reasons(field.type, writer, (*place, "type"))
            else:
                reasons.append(
                    _reason(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        place,
                        field.name,
                        f"The field '{field.name}' at path '{{path}}' in the %(reader)s schema has no default value"
                        " and is missing in the %(writer)s schema",
                    )
                )
        return tuple(reasons)


def _reason(kind: str, path: _Path, information: str, description: str) -> Incompatibility:
    """Returns a reason. `{path}` in the description is replaced by the path."""
    place = "/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in path)
    text = description.replace("{path}", place)
    return Incompatibility(
        kind, place, f"{{errorType:'{kind}', description:'{text}', additionalInfo:'{information}'}}"
    )


def _type_mismatch(reader: Part, writer: Part, path: _Path) -> _Reasons:
    return (
        _reason(
            "TYPE_MISMATCH",
            path,
            f"reader type: {kind_of(reader).upper()} not compatible with writer type: {kind_of(writer).upper()}",
            "The type (path '{path}') of a field in the %(reader)s schema does not match with the %(writer)s schema",
        ),
    )


def _missing_branch(writer: Part, path: _Path) -> Incompatibility:
    return _reason(
        "MISSING_UNION_BRANCH",
        path,
        f"reader union lacking writer type: {kind_of(writer).upper()}",
        "The %(reader)s schema is missing a type inside a union field at path '{path}' in the %(writer)s schema",
    )


def _name_reasons(reader: Named, writer: Named, path: _Path) -> _Reasons:
    if names_match(reader, writer):
        return ()
    return (
        _reason(
            "NAME_MISMATCH",
            (*path, "name"),
            f"expected: {writer.name.full}",
            "The name of the schema has changed (path '{path}')",
        ),
    )


def _size_reasons(reader: Fixed, writer: Fixed, path: _Path) -> _Reasons:
    if reader.size == writer.size:
        return ()
    return (
        _reason(
            "FIXED_SIZE_MISMATCH",
            (*path, "size"),
            f"expected: {writer.size}, found: {reader.size}",
            "The size of FIXED type field at path '{path}' in the %(reader)s schema does not match with the"
            " %(writer)s schema",
        ),
    )


def _symbol_reasons(reader: Enum, writer: Enum, path: _Path) -> _Reasons:
    missing = sorted(set(writer.symbols).difference(reader.symbols))
    if not missing or reader.default is not None:
        return ()
    listed = f"[{', '.join(missing)}]"
    return (
        _reason(
            "MISSING_ENUM_SYMBOLS",
            (*path, "symbols"),
            listed,
            f"The %(reader)s schema is missing enum symbols '{listed}' at path '{{path}}' in the %(writer)s schema",
        ),
    )
