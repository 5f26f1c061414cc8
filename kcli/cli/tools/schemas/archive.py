"""A directory with the schemas of a registry, as `kcli schemas export` writes it.

    registry.json                     the configs and modes of the registry and of its contexts
    orders-value/subject.json         the versions of a subject with their ids, and its own config and mode
    orders-value/1.avsc               the text of version 1

The name of a directory is the subject, in which special characters have the form %2F. A subject is written in two
steps: first its texts, then subject.json. So an export that was interrupted leaves no subject without its texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.schemas.files import SUFFIXES, read_text
from kcli.formats.registry.documents import ConfigDocument, RegisteredSchema
from kcli.formats.registry.members import InvalidDocument, JsonObject, Members, without_empty
from kcli.formats.schemas import SchemaReference

REGISTRY_FILE, SUBJECT_FILE = "registry.json", "subject.json"
FORMAT = 1
"""The version of this layout."""

NAME_BYTES_MAX = 255
"""The longest name of a directory in most file systems."""

_SUFFIX_OF = {schema_type.value: suffix for suffix, schema_type in SUFFIXES.items()}


@dataclass(frozen=True, slots=True)
class Scope:
    """The config and the mode of a subject, of a context (`:.team:`), or of the registry (an empty name)."""

    name: str
    config: ConfigDocument | None = None
    mode: str | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "scope", *, name: str = "scope") -> Scope:
        members = Members.of(value, path)
        config = members.object_of("config", ConfigDocument.from_json)
        return cls(members.text(name) or "", config, members.text("mode"))

    def members(self) -> JsonObject:
        return {"config": None if self.config is None else self.config.to_json(), "mode": self.mode}


@dataclass(frozen=True, slots=True)
class ArchivedSubject:
    """A subject with its versions in order. A version that was deleted softly has `deleted`."""

    scope: Scope
    versions: tuple[RegisteredSchema, ...]

    @property
    def name(self) -> str:
        return self.scope.name


@dataclass(frozen=True, slots=True)
class Archive:
    """All that a directory has."""

    scopes: tuple[Scope, ...]
    subjects: Mapping[str, ArchivedSubject]

    def in_order(self) -> list[RegisteredSchema]:
        """Returns the versions, each after those to which it refers, and after the older ones of its subject.

        Raises CommandError if versions refer to each other in a circle.
        """
        order: dict[tuple[str, int], RegisteredSchema] = {}
        for subject in self.subjects.values():
            for schema in subject.versions:
                self._add(schema, order)
        return list(order.values())

    def _add(self, first: RegisteredSchema, order: dict[tuple[str, int], RegisteredSchema]) -> None:
        """Adds a version and all that it needs, without recursion, because a chain of references may be long."""
        stack = [(first, iter(self.needed_by(first)))]
        begun = {_key(first)}
        while stack:
            schema, needed = stack[-1]
            following = next((other for other in needed if _key(other) not in order), None)
            if following is None:
                order.setdefault(_key(schema), schema)
                begun.discard(_key(schema))
                stack.pop()
            elif _key(following) in begun:
                raise CommandError(
                    f"{following.subject} version {following.version} refers to itself through other schemas"
                )
            else:
                begun.add(_key(following))
                stack.append((following, iter(self.needed_by(following))))

    def needed_by(self, schema: RegisteredSchema) -> Iterator[RegisteredSchema]:
        """The versions of this directory to which a version refers, and the version before it."""
        for reference in schema.definition.references:
            referenced = self.version(reference, schema.subject)
            if referenced is not None:
                yield referenced
        earlier = [one for one in self.subjects[schema.subject].versions if one.version < schema.version]
        yield from earlier[-1:]

    def version(self, reference: SchemaReference, referrer: str) -> RegisteredSchema | None:
        """The version that a reference names, if the directory has it."""
        from kcli.formats.registry.references import in_context

        subject = self.subjects.get(in_context(reference.subject, referrer))
        versions = () if subject is None else subject.versions
        if reference.version == -1:
            return versions[-1] if versions else None
        return next((one for one in versions if one.version == reference.version), None)


def _key(schema: RegisteredSchema) -> tuple[str, int]:
    return (schema.subject, schema.version)


def directory_of(root: Path, subject: str) -> Path:
    """The directory of a subject. Raises CommandError if a file system cannot have its name."""
    name = quote(subject, safe=" :@+,=")
    if name.startswith("."):  # neither a hidden directory, nor one of the names . and ..
        name = f"%2E{name[1:]}"
    if not name or len(name.encode()) > NAME_BYTES_MAX:
        raise CommandError(f"the subject {subject[:80]} cannot be the name of a directory")
    return root / name


def has_archive(root: Path) -> bool:
    return (root / REGISTRY_FILE).is_file()


def write_subject(root: Path, subject: ArchivedSubject) -> None:
    """Writes a subject in place of an earlier export. Raises OSError, and CommandError if the directory belongs to
    another subject, because some file systems do not distinguish upper and lower case."""
    directory = directory_of(root, subject.name)
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / SUBJECT_FILE).is_file():
        owner = _members(directory / SUBJECT_FILE).values.get("subject")
        if owner != subject.name:
            raise CommandError(f"{directory} has the subject {owner} already, and not {subject.name}")
    names = {SUBJECT_FILE}
    versions: list[JsonObject] = []
    for schema in subject.versions:
        name = _file_name(schema)
        names.add(name)
        _write(directory / name, schema.definition.text.encode("utf-8", "surrogatepass"))
        document = schema.to_json()
        versions.append({key: value for key, value in document.items() if key not in ("schema", "subject")})
    content = without_empty({"subject": subject.name, **subject.scope.members(), "versions": [*versions]})
    _write(directory / SUBJECT_FILE, _pretty(content))
    for stale in directory.iterdir():
        if stale.name not in names and stale.suffix in SUFFIXES:
            stale.unlink()


def write_scopes(root: Path, scopes: Sequence[Scope]) -> None:
    """Writes the configs and modes of a registry. Raises OSError."""
    listed = [without_empty({"scope": scope.name, **scope.members()}) for scope in scopes]
    root.mkdir(parents=True, exist_ok=True)
    _write(root / REGISTRY_FILE, _pretty({"format": FORMAT, "scopes": [*listed]}))


def read_archive(root: Path) -> Archive:
    """Reads a directory. Raises CommandError."""
    if not has_archive(root):
        raise CommandError(f"{root} has no {REGISTRY_FILE}: it is not a directory of kcli schemas export")
    members = _members(root / REGISTRY_FILE)
    try:
        if members.required_number("format") != FORMAT:
            raise CommandError(f"{root / REGISTRY_FILE}: this kcli does not know the format of the directory")
        scopes = members.list_of("scopes", Scope.from_json)
    except InvalidDocument as error:
        raise CommandError(f"{root / REGISTRY_FILE}: {error}") from None
    files = sorted(root.glob(f"*/{SUBJECT_FILE}"))
    subjects = [_read_subject(file) for file in files]
    return Archive(scopes, {subject.name: subject for subject in subjects})


def _read_subject(file: Path) -> ArchivedSubject:
    members = _members(file)
    try:
        scope = Scope.from_json(members.values, "subject", name="subject")
        if not scope.name:
            raise InvalidDocument("subject: the member is missing")
        documents = members.list_of("versions", _object)
        versions = [
            RegisteredSchema.from_json({**document, "subject": scope.name}, f"versions[{nth}]")
            for nth, document in enumerate(documents)
        ]
    except InvalidDocument as error:
        raise CommandError(f"{file}: {error}") from None
    numbers = [schema.version for schema in versions]
    if numbers != sorted(set(numbers)) or any(number < 1 for number in numbers):
        raise CommandError(f"{file}: the versions are not in order")
    texts = [
        replace(
            schema, definition=replace(schema.definition, text=read_text(file.parent / _file_name(schema)))
        )
        for schema in versions
    ]
    return ArchivedSubject(scope, tuple(texts))


def _object(value: object, path: str) -> Mapping[str, object]:
    return Members.of(value, path).values


def _file_name(schema: RegisteredSchema) -> str:
    return f"{schema.version}{_SUFFIX_OF.get(schema.definition.type, '.txt')}"


def _members(file: Path) -> Members:
    try:
        return Members.of(json.loads(read_text(file)), file.name)
    except (ValueError, RecursionError, InvalidDocument) as error:
        raise CommandError(f"{file}: {error}") from None


def _pretty(document: JsonObject) -> bytes:
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode("utf-8", "surrogatepass")


def _write(path: Path, content: bytes) -> None:
    """Writes a file in one step, so that no half of it stays. An equal file is left alone."""
    if path.is_file() and path.read_bytes() == content:
        return
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
