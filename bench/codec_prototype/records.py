"""Writes the package `wire_records`: every wire message of kcli as a record class, from kio's schema classes.

It reads the same classes as `kcli.protocol.wire.generate` and gives the fields the same names, types and defaults. This
module adds the annotations from which the prototype codecs know the fields of a version: `since`, `until`, `null_since`
and `tag`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kcli.protocol.wire import generate, schema
from kcli.protocol.wire.api import API, ApiSpec

_NUMBERS = {
    "int8": "Int8",
    "int16": "Int16",
    "uint16": "UInt16",
    "int32": "Int32",
    "uint32": "UInt32",
    "int64": "Int64",
    "timedelta_i32": "Int32",
    "timedelta_i64": "Int64",
    "datetime_i64": "Int64",
    "error_code": "Error",
}
_HEAD = '''"""{name} (API key {key}), as record classes."""

from __future__ import annotations

import uuid
from typing import Annotated

from codec_prototype.fields import Error, UInt32, null_since, until
from kcli.errors import ErrorCode
from kcli.protocol.records.schema import Int8, Int16, Int32, Int64, UInt16, record, since, tag
'''


@dataclass(slots=True)
class Attribute:
    """A field of a struct, with the versions that have it."""

    merged: generate.Attribute
    kafka_type: str | None
    versions: list[int] = field(default_factory=list)
    null_versions: list[int] = field(default_factory=list)
    tags: set[int | None] = field(default_factory=set)


@dataclass(slots=True)
class Struct:
    """A class to write. `order` is compatible with the wire order of every version."""

    name: str
    versions: set[int] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)


def write_records(package: Path) -> int:
    """Writes the package, and returns the number of lines of its modules."""
    package.mkdir()
    lines, index = 0, ["MESSAGES = {"]
    for spec in API.values():
        text = _module(spec)
        (package / f"{spec.module}.py").write_text(text, encoding="utf-8")
        lines += text.count("\n")
        for kind in schema.KINDS:
            name = schema.payload_class(spec, spec.max_version, kind).__name__
            index.append(f"    ({spec.key.value}, {kind!r}): ({spec.module!r}, {name!r}),")
    (package / "__init__.py").write_text("\n".join([*index, "}", ""]), encoding="utf-8")
    return lines


def _module(spec: ApiSpec) -> str:
    sides = [_structs(spec, kind) for kind in schema.KINDS]
    clashes = sides[0].keys() & sides[1].keys()
    body = ""
    for side, structs in zip(("Request", "Response"), sides, strict=True):
        rename = {name: f"{side}{name}" for name in clashes}
        body += "".join(_class(spec, struct, rename) for struct in structs.values())
    return _HEAD.format(name=spec.name, key=spec.key.value) + body


def _structs(spec: ApiSpec, kind: str) -> dict[str, Struct]:
    """Returns the structs of a message: nested structs first, and the message itself last."""
    structs: dict[str, Struct] = {}
    for version in reversed(schema.versions(spec)):
        _merge(schema.payload_class(spec, version, kind), version, structs)
    return structs


def _merge(cls: type, version: int, structs: dict[str, Struct]) -> None:
    struct = structs.get(cls.__name__) or Struct(cls.__name__)
    if version in struct.versions:
        return
    struct.versions.add(version)
    tags = {each.name: each.metadata.get("tag") for each in cls.__dataclass_fields__.values()}  # type: ignore[attr-defined]
    previous = -1
    for each in schema.fields(cls):
        if each.struct is not None:
            _merge(each.struct, version, structs)
        merged = generate._attribute(each)
        known = struct.attributes.setdefault(merged.name, Attribute(merged, each.kafka_type))
        known.versions.append(version)
        known.tags.add(tags[each.kio_name])
        if each.nullable:
            known.null_versions.append(version)
        if merged.name not in struct.order:
            struct.order.insert(previous + 1, merged.name)
        place = struct.order.index(merged.name)
        assert place > previous or tags[each.kio_name] is not None, f"{cls}: no common order of fields"
        previous = max(place, previous)
    structs.setdefault(struct.name, struct)


def _class(spec: ApiSpec, struct: Struct, rename: dict[str, str]) -> str:
    flexible = "" if spec.flexible_from is None else f", flexible_since={spec.flexible_from}"
    if spec.flexible_from is None:
        flexible = ", flexible_since=1 << 15"
    is_message = struct.name.removeprefix(spec.name) in ("Request", "Response")
    key = f"{spec.key.value}, " if is_message else ""
    lines = [
        f"\n\n@record({key}versions=({spec.min_version}, {spec.max_version}){flexible})",
        f"class {rename.get(struct.name, struct.name)}:",
    ]
    lines += ["    " + _attribute_line(struct.attributes[name], struct, rename) for name in struct.order]
    if not struct.order:
        lines.append("    pass")
    return "\n".join(lines) + "\n"


def _attribute_line(attribute: Attribute, struct: Struct, rename: dict[str, str]) -> str:
    merged = attribute.merged
    (number,) = attribute.tags
    item = _NUMBERS.get(attribute.kafka_type or "", rename.get(merged.item, merged.item))
    hint = f"tuple[{item}, ...]" if merged.is_array else item
    if attribute.null_versions and "None" not in hint.rpartition("]")[2]:
        hint += " | None"
    marks = [] if number is None else [f"tag({number})"]
    first, last = min(attribute.versions), max(attribute.versions)
    assert len(attribute.versions) == last - first + 1, (
        f"{struct.name}.{merged.name} was taken out and came back"
    )
    if first > min(struct.versions):
        marks.append(f"since({first}, ignorable=True)")
    if last < max(struct.versions):
        marks.append(f"until({last})")
    if attribute.null_versions and min(attribute.null_versions) > first:
        marks.append(f"null_since({min(attribute.null_versions)})")
    assert not attribute.null_versions or max(attribute.null_versions) == last
    hint = f"Annotated[{', '.join([hint, *marks])}]" if marks else hint
    default = merged.default.replace(merged.item, rename.get(merged.item, merged.item))
    return f"{merged.name}: {hint} = {default}"
