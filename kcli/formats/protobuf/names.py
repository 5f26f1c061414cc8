"""Finds the types and extensions that a .proto file names, by the rules of scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.syntax import Enum, Extend, Field, File, Group, Message

MAX_NAMES = 100_000
"""The number of types and extensions of a schema with its imports."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A message or an enum, with the package and the import path of its file. The path of the schema is empty."""

    type: Message | Enum
    package: str
    path: str


@dataclass(frozen=True, slots=True)
class Extension:
    """A field that a file adds to a message, with the scope in which its type is named."""

    field: Field
    scope: str


@dataclass(frozen=True, slots=True)
class Names:
    """The types and the extension fields of a schema and its imports, by their full names without a leading dot."""

    types: Mapping[str, Declared] = field(default_factory=dict)
    extensions: Mapping[str, Extension] = field(default_factory=dict)
    _scopes: frozenset[str] = frozenset()
    """The packages and messages that contain one of the names."""
    _chains: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def find_type(self, name: str, scope: str) -> str | None:
        """Returns the full name of a type that is named in `scope`, or None."""
        return self._resolved(name, scope, self.types)

    def type(self, name: str, scope: str) -> str:
        """Returns the full name of a type that is named in `scope`. Raises FormatError if no file declares it."""
        full_name = self.find_type(name, scope)
        if full_name is None:
            raise FormatError(f"Could not resolve type: {name}")
        return full_name

    def extension(self, name: str, scope: str) -> str | None:
        """Returns the full name of an extension that is named in `scope`, or None."""
        return self._resolved(name, scope, self.extensions)

    def _resolved(self, name: str, scope: str, declared: Mapping[str, object]) -> str | None:
        """Returns the full name that `name` means inside `scope`: in the innermost scope that declares it."""
        if name.startswith("."):
            return name[1:] if name[1:] in declared else None
        for outer in self._chain(scope):
            if (full_name := f"{outer}.{name}") in declared:
                return full_name
        return name if name in declared else None

    def _chain(self, scope: str) -> tuple[str, ...]:
        """Returns the scopes around a place that may declare the first part of a name, the innermost first."""
        chain = self._chains.get(scope)
        if chain is None:
            scopes = []
            outer = scope
            while outer:
                if outer in self._scopes:
                    scopes.append(outer)
                outer = outer.rpartition(".")[0]
            chain = self._chains[scope] = (*scopes,)
        return chain


def names_of(files: Iterable[tuple[str, File]]) -> Names:
    """Returns the names of files, which have their import paths. Raises FormatError for names that occur twice."""
    types: dict[str, Declared] = {}
    extensions: dict[str, Extension] = {}
    for path, file in files:
        package = file.package or ""
        for full_name, declared in _types(file.types, package):
            if full_name in types:
                raise FormatError(f"{full_name} is defined twice")
            types[full_name] = Declared(declared, package, path)
            if isinstance(declared, Message):
                extensions.update(_extensions(declared.extends, full_name))
        extensions.update(_extensions(file.extends, package))
        if len(types) + len(extensions) > MAX_NAMES:
            raise FormatError(f"the schema with its imports has more than {MAX_NAMES} types")
    return Names(types, extensions, frozenset(_with_parents((*types, *extensions))))


def _with_parents(full_names: Iterable[str]) -> set[str]:
    """Returns the scopes of names, and the scopes of these, because a name may have several parts."""
    scopes: set[str] = set()
    for name in full_names:
        scope = name.rpartition(".")[0]
        while scope and scope not in scopes:
            scopes.add(scope)
            scope = scope.rpartition(".")[0]
    return scopes


def _types(types: Iterable[Message | Enum], scope: str) -> Iterator[tuple[str, Message | Enum]]:
    for declared in types:
        full_name = inner_scope(scope, declared.name)
        yield full_name, declared
        if isinstance(declared, Message):
            yield from _types(declared.types, full_name)
            groups: list[Group] = [*declared.groups]
            for oneof in declared.oneofs:
                groups += oneof.groups
            for extend in declared.extends:
                groups += extend.groups
            yield from _types([group.message for group in groups], full_name)


def _extensions(extends: Iterable[Extend], scope: str) -> Iterator[tuple[str, Extension]]:
    for extend in extends:
        for extension in extend.fields:
            yield inner_scope(scope, extension.name), Extension(extension, scope)


def inner_scope(scope: str, name: str) -> str:
    """Returns the full name of a declaration inside `scope`, which is empty at the top of a file without package."""
    return f"{scope}.{name}" if scope else name
