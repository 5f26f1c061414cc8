"""`kcli schemas import`: registers the schemas of a directory under their ids and versions.

A registry takes ids only in the mode IMPORT, so each subject has this mode while it is imported. An import compares
first, so it can be repeated. Then it continues after an interruption, and ends the mode IMPORT that was left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.confirm import confirm
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, UsageError, flag
from kcli.cli.tools.schemas.archive import Archive, ArchivedSubject, Scope, read_archive
from kcli.cli.tools.schemas.connection import client_of, feature, own_config, own_mode
from kcli.cli.tools.schemas.offline import archived_schema
from kcli.cli.tools.schemas.selection import SelectionOptions, selection_of
from kcli.formats.codec import FormatError
from kcli.formats.registry.catalog import Held, Selection, together, versions_of
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.contexts import context_of
from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate, RegisteredSchema, RegisterRequest
from kcli.formats.registry.schemas import LoadedSchema
from kcli.runtime.log_text import one_line

IMPORT = "IMPORT"
NO_IMPORT = "mode IMPORT"
NO_IMPORT_ADVICE = (
    "It cannot take schemas with their ids. Register them with kcli schemas put, under new ids."
)

CONFLICT = 1
"""The exit code if the registry has other schemas under the same versions or ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions(SelectionOptions):
    settings: bool = flag("Also set the configs and modes of the registry and of its contexts.")
    dry_run: bool = flag("Show what would be imported, and change nothing.")
    yes: bool = flag("Do not ask.")


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A version, and what happened to it: imported, unchanged or conflict."""

    subject: str
    version: int
    id: int
    change: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A config or a mode that was set. An empty subject stands for the registry."""

    subject: str
    what: str
    value: str


@dataclass(frozen=True, slots=True)
class Target:
    """All that the registry has of the selected subjects."""

    versions: Mapping[tuple[str, int], Held]
    ids: Mapping[tuple[str, int], RegisteredSchema]
    """A schema of each id, by the context and the id."""

    @classmethod
    async def of(cls, client: RegistryClient) -> Target:
        # An id may belong to a subject that is not selected, so all subjects are compared.
        held = await versions_of(client, Selection(), deleted=True)
        return cls(
            {(one.schema.subject, one.schema.version): one for one in held},
            {(context_of(one.schema.subject), one.schema.id): one.schema for one in held},
        )


async def import_schemas(options: ImportOptions, output: Output) -> int:
    if len(options.arguments) != 1:
        raise UsageError("kcli schemas import: expected one directory")
    client, selection = client_of(options), selection_of(options)
    archive = read_archive(Path(options.arguments[0]))
    schemas = [schema for schema in archive.in_order() if selection.takes(schema.subject)]
    target = await Target.of(client)
    rows = [_row(archive, schema, target) for schema in schemas]
    conflicts = [row for row in rows if row.change == "conflict"]
    if conflicts or options.dry_run:
        output.rows(
            [row for row in rows if row.change != "unchanged"] if options.dry_run else conflicts, _text
        )
        count = sum(row.change == "imported" for row in rows)
        output.say(f"{count} of {len(rows)} versions can be imported. Nothing was changed.")
        return CONFLICT if conflicts else 0
    url = client.settings.shown
    confirm(
        f"{len(schemas)} versions will be imported to {url}.", yes=options.yes, refused="Nothing was changed."
    )
    subjects = [subject for name, subject in archive.subjects.items() if selection.takes(name)]
    await _Import(client, archive, output).run(schemas, rows, subjects, target)
    await _scopes(client, archive.scopes, output, is_set=options.settings)
    count = sum(row.change == "imported" for row in rows)
    output.say(f"{count} versions were imported, and {len(rows) - count} were there already.")
    return 0


def _row(archive: Archive, schema: RegisteredSchema, target: Target) -> ImportRow:
    present = target.versions.get((schema.subject, schema.version))
    row = ImportRow(schema.subject, schema.version, schema.id, "imported")
    if present is not None:
        if present.schema.id != schema.id:
            return _conflict(row, f"the registry has this version with the id {present.schema.id}")
        if not _is_equal(archive, schema, present.schema):
            return _conflict(row, "the registry has another schema as this version")
        if present.is_deleted and not schema.deleted:
            return _conflict(row, "the registry has deleted this version softly")
        return ImportRow(schema.subject, schema.version, schema.id, "unchanged")
    same_id = target.ids.get((context_of(schema.subject), schema.id))
    if same_id is not None and not _is_equal(archive, schema, same_id):
        return _conflict(
            row, f"the id belongs to another schema, {same_id.subject} version {same_id.version}"
        )
    return row


def _conflict(row: ImportRow, reason: str) -> ImportRow:
    return ImportRow(row.subject, row.version, row.id, "conflict", reason)


def _is_equal(archive: Archive, schema: RegisteredSchema, other: RegisteredSchema) -> bool:
    """Whether two schemas are one. A registry may have written the text in another way."""
    one, two = schema.definition, other.definition
    if (one.type, one.references) != (two.type, two.references):
        return False
    if one.text == two.text:
        return True
    try:
        loaded = archived_schema(archive, schema)
        return loaded.parsed.is_equal(LoadedSchema(loaded.type, two.text, resolved=loaded.resolved).parsed)
    except FormatError:
        return False


class _Import:
    """One import, which has changed the modes of some subjects."""

    def __init__(self, client: RegistryClient, archive: Archive, output: Output) -> None:
        self._client, self._archive, self._output = client, archive, output
        self._modes: dict[str, str | None] = {}
        """The own modes of subjects before the import."""
        self._importing: set[str] = set()

    async def run(
        self,
        schemas: Sequence[RegisteredSchema],
        rows: Sequence[ImportRow],
        subjects: Sequence[ArchivedSubject],
        target: Target,
    ) -> None:
        names = [subject.name for subject in subjects]
        modes = await together(own_mode(self._client, name) for name in names)
        self._modes = dict(zip(names, modes, strict=True))
        # A subject that has this mode already comes from an import that was interrupted.
        self._importing = {name for name, mode in self._modes.items() if mode == IMPORT}
        missing = [schema for schema, row in zip(schemas, rows, strict=True) if row.change == "imported"]
        try:
            for schema in missing:
                await self._add(schema)
            for schema in reversed(schemas):
                await self._delete(schema, target)
            for subject in subjects:
                await self._set_config(subject.scope)
        finally:
            for subject in subjects:
                await self._end_mode(subject.scope)

    async def _add(self, schema: RegisteredSchema) -> None:
        if schema.subject not in self._importing:
            change = self._client.set_mode(IMPORT, schema.subject, force=True)
            await feature(self._client, change, NO_IMPORT, NO_IMPORT_ADVICE)
            self._importing.add(schema.subject)
        request = RegisterRequest(schema.definition, version=schema.version, id=schema.id)
        answer = await self._client.register(schema.subject, request)
        if answer.id != schema.id:
            raise CommandError(
                f"{schema.subject} version {schema.version}: the registry gave the id {answer.id} in place of "
                f"{schema.id}"
            )
        self._output.row(ImportRow(schema.subject, schema.version, schema.id, "imported"), _text)

    async def _delete(self, schema: RegisteredSchema, target: Target) -> None:
        """Deletes a version softly, if the export says so and it is not deleted yet."""
        present = target.versions.get((schema.subject, schema.version))
        if schema.deleted and not (present is not None and present.is_deleted):
            await self._client.delete_version(schema.subject, schema.version)

    async def _set_config(self, scope: Scope) -> None:
        if scope.config is None or await own_config(self._client, scope.name) == scope.config:
            return
        await self._client.set_config(ConfigUpdate(scope.config), scope.name)
        self._output.row(SettingRow(scope.name, "config", _config_text(scope.config)), _setting_text)

    async def _end_mode(self, scope: Scope) -> None:
        """Gives a subject the mode of the export, or else the mode that it had before."""
        before = self._modes.get(scope.name)
        after = scope.mode or (before if before != IMPORT else None)
        now = IMPORT if scope.name in self._importing else before
        if now == after:
            return
        if after is None:
            await self._client.delete_mode(scope.name)
        else:
            await feature(self._client, self._client.set_mode(after, scope.name, force=True), NO_IMPORT)


async def _scopes(client: RegistryClient, scopes: Sequence[Scope], output: Output, *, is_set: bool) -> None:
    """Sets the configs and modes of the registry and of contexts, or reports those that differ."""
    for scope in scopes:
        name = scope.name or None
        config = await own_config(client, scope.name) if scope.name else await client.config()
        mode = await own_mode(client, name)
        for row in _differences(scope, config, mode):
            if not is_set:
                shown = row.subject or "the registry"
                output.warn(
                    f"WARN {shown} has another {row.what} than the export, which has {row.value}: see --settings"
                )
                continue
            if row.what == "config" and scope.config is not None:
                await client.set_config(ConfigUpdate(scope.config), name)
            elif scope.mode is not None:
                await feature(
                    client, client.set_mode(scope.mode, name, force=True), "resource that changes modes"
                )
            output.row(row, _setting_text)


def _differences(scope: Scope, config: ConfigDocument | None, mode: str | None) -> Iterator[SettingRow]:
    if scope.config is not None and scope.config != config:
        yield SettingRow(scope.name, "config", _config_text(scope.config))
    if scope.mode is not None and scope.mode != mode:
        yield SettingRow(scope.name, "mode", scope.mode)


def _config_text(config: ConfigDocument) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.to_json().items())


def _setting_text(row: SettingRow) -> str:
    return f"{row.subject or 'the registry'}: {row.what} {row.value}"


def _text(row: ImportRow) -> str:
    reason = f": {row.reason}" if row.reason else ""
    return f"{one_line(row.subject)} version {row.version}, id {row.id}: {row.change}{reason}"
