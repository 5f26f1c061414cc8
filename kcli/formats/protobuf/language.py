"""Schemas in Protobuf, as a registry handles them."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from kcli.formats.codec import FormatError, missing_library
from kcli.formats.protobuf.compatibility import incompatibilities
from kcli.formats.protobuf.descriptors import file_descriptor
from kcli.formats.protobuf.known import KNOWN, known_descriptor, known_file
from kcli.formats.protobuf.names import Names, names_of
from kcli.formats.protobuf.normal import normal_file
from kcli.formats.protobuf.option_values import file_descriptor_type, pool_of
from kcli.formats.protobuf.parser import parse_file
from kcli.formats.protobuf.printer import print_file
from kcli.formats.protobuf.reverse import file_of
from kcli.formats.protobuf.syntax import File, Message
from kcli.formats.protobuf.tokens import MAX_TEXT_CHARS
from kcli.formats.schemas import CompatibilityPolicy, Incompatibility, SchemaType

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

MAX_IMPORTS = 1000
"""The number of files that a schema imports, directly and indirectly."""

MAX_IMPORT_DEPTH = 64
"""The longest chain of imports."""

FILE_NAME = "default"
"""The name of the schema's file in its descriptor, as in Confluent's registry."""

META = "confluent."
"""The prefix of custom options that the format `ignore_extensions` keeps."""

_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}[\r\n]*")


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """A valid Protobuf schema. `imports` has the imported files by path, each after those that it imports."""

    file: File
    canonical: str
    imports: Mapping[str, File]
    names: Names

    @property
    def type(self) -> SchemaType:
        return SchemaType.PROTOBUF

    def normalized(self) -> ProtobufSchema:
        """Returns the schema in its normal form."""
        file = normal_file(self.file, self.names)
        names = names_of([*self.imports.items(), ("", file)])
        return replace(self, file=file, canonical=print_file(file), names=names)

    def in_format(self, name: str) -> str:
        """Returns the text in a format: `serialized`, `ignore_extensions`, or the canonical text for any other name.

        Raises FormatError if the schema has no descriptor.
        """
        match name:
            case "serialized":
                return base64.b64encode(self.descriptors()[-1].SerializeToString()).decode()
            case "ignore_extensions":
                return print_file(without_extensions(self.file))
            case _:
                return self.canonical

    def is_equal(self, other: ProtobufSchema) -> bool:
        """Whether the canonical texts are equal."""
        return self.canonical == other.canonical

    def incompatibilities(
        self, writer: ProtobufSchema, policy: CompatibilityPolicy
    ) -> tuple[Incompatibility, ...]:
        """Returns why this schema cannot read values of `writer`. Protobuf does not distinguish policies."""
        return incompatibilities((self.file, self.names), (writer.file, writer.names))

    def descriptors(self, *, is_strict: bool = False) -> list[FileDescriptorProto]:
        """Returns the descriptors of the imports, then that of the schema. Raises FormatError.

        `is_strict` also checks what decoding does not need: that each import exists, and the values of custom options.
        """
        descriptors: dict[str, FileDescriptorProto] = {}
        for path, file in self.imports.items():
            if file is _known(path):
                descriptors[path] = known_descriptor(path)
            else:
                descriptors[path] = file_descriptor(file, path, self.names, descriptors, is_strict=False)
        path = FILE_NAME
        while path in descriptors:
            path = f"_{path}"
        own = file_descriptor(self.file, path, self.names, descriptors, is_strict=is_strict)
        return [*descriptors.values(), own]


def parse(text: str, resolved: Mapping[str, str], *, is_new: bool) -> ProtobufSchema:
    """Parses a schema: the text of a .proto file, or its descriptor in base64. Raises FormatError.

    `resolved` has the texts of the imports by path. `is_new` also checks all that protoc checks, such as the numbers of
    fields. Without it, an import that no file needs may be missing.
    """
    _check_library()
    try:
        file = _from_base64(text, resolved) if _BASE64.fullmatch(text) else parse_file(text)
    except FormatError as error:
        raise FormatError(f"Could not parse Protobuf - {error}") from None
    imports = imported_files(file, resolved)
    names = names_of([*imports.items(), ("", file)])
    schema = ProtobufSchema(file, print_file(file), imports, names)
    normal_file(file, names)
    if is_new:
        pool_of(schema.descriptors(is_strict=True))
    return schema


def _check_library() -> None:
    """Raises FormatError if Google's library is missing, before a part of the work needs it."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError as error:
        raise missing_library(error) from None


def _from_base64(text: str, resolved: Mapping[str, str]) -> File:
    """Returns the file of a descriptor. Its text is parsed, because a descriptor may contain names that are none."""
    from google.protobuf.message import DecodeError

    if len(text) > MAX_TEXT_CHARS:
        raise FormatError(f"the schema has {len(text)} characters, and the limit is {MAX_TEXT_CHARS}")
    try:
        descriptor = file_descriptor_type().FromString(base64.b64decode(text))
    except (DecodeError, binascii.Error, ValueError):
        raise FormatError("the text is neither a .proto file nor a file descriptor in base64") from None
    imports = imported_files(File(imports=(*descriptor.dependency,)), resolved)
    names = names_of(imports.items())
    schema = ProtobufSchema(File(imports=(*imports,)), "", imports, names)
    dependencies = {one.name: one for one in schema.descriptors()[:-1]}
    return parse_file(print_file(file_of(descriptor, dependencies)))


def imported_files(file: File, resolved: Mapping[str, str]) -> dict[str, File]:
    """Returns the files that a file imports, by path, each after those that it imports. A missing file is left out.

    Raises FormatError for cyclic imports, and for too many.
    """
    files: dict[str, File] = {}
    _add_imports(file, resolved, files, ())
    return files


def _add_imports(
    file: File, resolved: Mapping[str, str], files: dict[str, File], chain: tuple[str, ...]
) -> None:
    if len(chain) > MAX_IMPORT_DEPTH:
        raise FormatError(f"a chain of imports has more than {MAX_IMPORT_DEPTH} files")
    for path in file.all_imports:
        if path in chain:
            raise FormatError(f'"{path}" imports itself: {" -> ".join((*chain, path))}')
        if path in files:
            continue
        imported = _parsed(resolved[path]) if path in resolved else _known(path)
        if imported is None:
            continue
        _add_imports(imported, resolved, files, (*chain, path))
        files[path] = imported
        if len(files) > MAX_IMPORTS:
            raise FormatError(f"the schema imports more than {MAX_IMPORTS} files")


def _known(path: str) -> File | None:
    return known_file(path) if path in KNOWN else None


_parsed = functools.lru_cache(maxsize=64)(parse_file)


_Node = TypeVar("_Node", bound="DataclassInstance")


def without_extensions(node: _Node) -> _Node:
    """Returns a tree without custom options, extension ranges and extensions. Confluent's own options stay."""
    changes: dict[str, object] = {}
    for field in fields(node):
        match field.name, getattr(node, field.name):
            case "options", options:
                changes["options"] = tuple(
                    one for one in options if not one.is_custom or one.name.startswith(META)
                )
            case (("extensions" | "extends"), _):
                changes[field.name] = ()
            case name, tuple() as members:
                changes[name] = tuple(_inner(one) for one in members)
            case name, Message() as message:
                changes[name] = without_extensions(message)
    return replace(node, **changes)


def _inner(member: object) -> object:
    if is_dataclass(member) and not isinstance(member, type):
        return without_extensions(member)
    return member
