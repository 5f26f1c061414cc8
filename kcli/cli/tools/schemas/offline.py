"""Compares schemas without a registry: with a file, with a directory of files, or with an exported registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.schemas.archive import Archive, has_archive, read_archive
from kcli.cli.tools.schemas.files import read_text, type_of
from kcli.formats.codec import FormatError
from kcli.formats.registry.contexts import context_of
from kcli.formats.registry.documents import ConfigDocument, RegisteredSchema
from kcli.formats.registry.reasons import DIFFERENT_TYPE, Broken, Reason, reasons_of
from kcli.formats.registry.schemas import LoadedSchema, schema_type
from kcli.formats.schemas import CompatibilityPolicy
from kcli.registry.decisions.configs import Level

NEW, OLD = "new", "old"


class InvalidSchema(CommandError):
    """A file has no valid schema. The other files are checked nevertheless."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A compatibility level with its policy."""

    level: Level = Level.BACKWARD
    policy: CompatibilityPolicy = CompatibilityPolicy.STRICT

    @classmethod
    def of(cls, config: ConfigDocument | None, level: str | None, policy: str | None) -> Rule:
        """The rule of a config. A level and a policy of the command line take precedence. Raises CommandError."""
        level = level or (config.compatibility_level if config else None) or Level.BACKWARD
        policy = policy or (config.compatibility_policy if config else None) or CompatibilityPolicy.STRICT
        try:
            return cls(Level(level.upper()), CompatibilityPolicy(policy.upper()))
        except ValueError:
            raise CommandError(f"unknown level {level} or policy {policy}") from None


@dataclass(frozen=True, slots=True)
class OldSchema:
    """A schema with which a new one is compared, and its name in messages, such as "version 3"."""

    name: str
    schema: LoadedSchema


def compared(
    new: LoadedSchema, olds: Sequence[OldSchema], rule: Rule
) -> list[tuple[OldSchema, Sequence[Reason]]]:
    """Compares a schema with the newest of the old ones, or with all if the level is transitive.

    Returns the old ones that are not compatible, from the newest, with the reasons. Raises CommandError if a schema is
    invalid.
    """
    if rule.level is Level.NONE:
        return []
    chosen = olds if rule.level.is_transitive else olds[-1:]
    results = [(old, _reasons(new, old, rule)) for old in reversed(chosen)]
    return [(old, reasons) for old, reasons in results if reasons]


def _reasons(new: LoadedSchema, old: OldSchema, rule: Rule) -> Sequence[Reason]:
    if new.type is not old.schema.type:
        return reasons_of([DIFFERENT_TYPE])
    try:
        added, present = new.parsed, old.schema.parsed
        backward = added.incompatibilities(present, rule.policy) if rule.level.is_backward else ()
        forward = present.incompatibilities(added, rule.policy) if rule.level.is_forward else ()
    except FormatError as error:
        raise CommandError(f"{old.name}: {error}") from None
    new_breaks = (reason.message(reader=NEW, writer=OLD) for reason in backward)
    old_breaks = (reason.message(reader=OLD, writer=NEW) for reason in forward)
    return [*reasons_of(new_breaks, Broken.NEW_CONSUMERS), *reasons_of(old_breaks, Broken.OLD_CONSUMERS)]


def loaded_file(path: Path, type_word: str | None, references: Mapping[str, str]) -> LoadedSchema:
    """The schema of a file, with the texts of its references by name. Raises CommandError if it is invalid."""
    schema = LoadedSchema(type_of(path, type_word), read_text(path), resolved=references)
    try:
        schema.parsed  # noqa: B018  # An invalid file is an error also if there is nothing to compare it with.
    except FormatError as error:
        raise InvalidSchema(f"{path}: {error}") from None
    return schema


def reference_files(texts: Iterable[str]) -> dict[str, str]:
    """Reads arguments such as `name=file`, each after those that it uses. Raises CommandError."""
    files: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.rpartition("=")
        if not (name and equals and file):
            raise CommandError(f"--reference {text}: expected name=file, because of --against")
        files[name] = read_text(Path(file))
    return files


class Against:
    """The old schemas of --against."""

    def __init__(self, path: Path, type_word: str | None, references: Mapping[str, str]) -> None:
        """Raises CommandError."""
        self._path, self._type, self._references = path, type_word, references
        self._archive = read_archive(path) if has_archive(path) else None
        if self._archive is None and not path.exists():
            raise CommandError(f"{path}: no such file or directory")

    def olds(self, subject: str, relative: Path) -> list[OldSchema]:
        """The old schemas of a subject, from the oldest. A directory that is not an export has a file at the path
        `relative`. Raises CommandError."""
        if self._archive is not None:
            return [
                OldSchema(f"version {schema.version}", archived_schema(self._archive, schema))
                for schema in self._versions(subject)
            ]
        file = self._path / relative if self._path.is_dir() else self._path
        if not file.exists():
            return []
        return [OldSchema(str(file), loaded_file(file, self._type, self._references))]

    def config(self, subject: str) -> ConfigDocument | None:
        """The config of an exported subject, of its context, or of its registry."""
        if self._archive is None:
            return None
        scopes = {scope.name: scope.config for scope in self._archive.scopes}
        archived = self._archive.subjects.get(subject)
        context = context_of(subject)
        own = None if archived is None else archived.scope.config
        candidates = (own, scopes.get("" if context == "." else f":{context}:"), scopes.get(":.__GLOBAL:"))
        return next((config for config in candidates if config and config.compatibility_level), None)

    def _versions(self, subject: str) -> Sequence[RegisteredSchema]:
        assert self._archive is not None
        archived = self._archive.subjects.get(subject)
        return [] if archived is None else [schema for schema in archived.versions if not schema.deleted]


def archived_schema(archive: Archive, schema: RegisteredSchema) -> LoadedSchema:
    """A version of an export, with the texts of its references. Raises CommandError."""
    resolved: dict[str, str] = {}

    def add(referrer: RegisteredSchema, depth: int) -> None:
        for reference in referrer.definition.references:
            referenced = archive.version(reference, referrer.subject)
            if referenced is None or depth > DEPTH_MAX:
                raise CommandError(
                    f"{referrer.subject} version {referrer.version}: the export does not have {reference.subject} "
                    f"version {reference.version}"
                )
            if reference.name not in resolved:
                add(referenced, depth + 1)
                resolved[reference.name] = referenced.definition.text

    add(schema, 0)
    try:
        return LoadedSchema(
            schema_type(schema.definition.type),
            schema.definition.text,
            schema.definition.references,
            resolved,
        )
    except FormatError as error:
        raise CommandError(f"{schema.subject} version {schema.version}: {error}") from None


DEPTH_MAX = 100
"""The longest chain of references, as in a registry's client."""
