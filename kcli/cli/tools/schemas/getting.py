"""`kcli schemas get`: shows a schema."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, Kind, UsageError, flag, option
from kcli.cli.tools.schemas.archive import ArchivedSubject, Scope, has_archive, write_scopes, write_subject
from kcli.cli.tools.schemas.connection import RegistryOptions, client_of, feature, version_number
from kcli.command.rows import Json
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.differences import pretty
from kcli.formats.registry.documents import RegisteredSchema, SchemaDefinition, SchemaString
from kcli.formats.registry.references import DEPTH_MAX, in_context

FORMATS = ("resolved", "serialized", "ignore_extensions")


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions(RegistryOptions):
    id: int | None = option("Show the schema with this id.", Kind.INTEGER, metavar="id")
    guid: str | None = option("Show the schema with this guid.", metavar="guid")
    context: str | None = option("The context of the id, such as .team.", metavar="context")
    format: str | None = option(
        "Another form of the text. Avro: resolved. Protobuf: serialized, ignore_extensions.",
        choices=FORMATS,
        metavar="format",
    )
    deleted: bool = flag("Also show a version that was deleted softly.")
    pretty: bool = flag("Indent a schema in JSON.")
    with_references: str | None = option(
        "Write the schema, and the schemas to which it refers, to a directory as kcli schemas export does.",
        metavar="directory",
    )


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """A schema with all that the registry knows about it."""

    subject: str | None
    version: int | None
    id: int | None
    guid: str | None
    type: str
    references: Sequence[Json]
    metadata: Mapping[str, Json] | None
    rule_set: Mapping[str, Json] | None
    schema: str


async def get(options: GetOptions, output: Output) -> None:
    client = client_of(options)
    if options.with_references is not None:
        await _write(client, options, Path(options.with_references), output)
        return
    if options.id is not None or options.guid is not None:
        if options.arguments:
            raise UsageError("--id and --guid: expected no subject")
        row = await _by_key(client, options)
    else:
        row = _row(await _by_subject(client, options, options.format))
    output.row(row, pretty(row.schema) if options.pretty else row.schema)


async def _by_key(client: RegistryClient, options: GetOptions) -> SchemaRow:
    if options.guid is not None:
        try:
            guid = uuid.UUID(options.guid)
        except ValueError:
            raise CommandError(f"--guid {options.guid}: expected a guid") from None
        request = client.schema_by_guid(guid, format=options.format)
        answer = await feature(client, request, "schemas by guid")
    else:
        assert options.id is not None
        subject = f":{options.context}:" if options.context else None
        answer = await client.schema_by_id(options.id, subject=subject, format=options.format)
    return _row_of(answer.definition, answer, options.id)


async def _by_subject(client: RegistryClient, options: GetOptions, format: str | None) -> RegisteredSchema:
    if not 1 <= len(options.arguments) <= 2:
        raise UsageError("kcli schemas get: expected a subject, or --id, or --guid")
    subject, *version = options.arguments
    number = version_number(version[0]) if version else LATEST
    return await client.version(subject, number, deleted=options.deleted, format=format)


def _row(schema: RegisteredSchema) -> SchemaRow:
    return _row_of(schema.definition, schema, schema.id)


def _row_of(
    definition: SchemaDefinition, place: RegisteredSchema | SchemaString, schema_id: int | None
) -> SchemaRow:
    members = definition.members()
    references, metadata, rules = members["references"], members["metadata"], members["ruleSet"]
    assert isinstance(references, list)
    return SchemaRow(
        place.subject,
        place.version,
        schema_id,
        place.guid,
        definition.type,
        references,
        metadata if isinstance(metadata, dict) else None,
        rules if isinstance(rules, dict) else None,
        definition.text,
    )


async def _write(client: RegistryClient, options: GetOptions, root: Path, output: Output) -> None:
    """Writes a version with all that it needs, in the layout of an export."""
    for name in ("id", "guid", "format"):
        if options.has(name):
            raise UsageError(f"--with-references: --{name} cannot be used, because files have subjects")
    if has_archive(root):
        raise CommandError(f"{root} has an export already: name another directory")
    first = await _by_subject(client, options, None)
    versions: dict[tuple[str, int], RegisteredSchema] = {}

    async def add(schema: RegisteredSchema, depth: int) -> None:
        if (schema.subject, schema.version) in versions:
            return
        if depth > DEPTH_MAX:
            raise CommandError(f"{first.subject} has a chain of more than {DEPTH_MAX} references")
        versions[schema.subject, schema.version] = schema
        for reference in schema.definition.references:
            subject = in_context(reference.subject, schema.subject)
            number: Version = LATEST if reference.version == -1 else reference.version
            await add(await client.version(subject, number, deleted=True), depth + 1)

    await add(first, 0)
    try:
        write_scopes(root, ())
        for subject in dict.fromkeys(subject for subject, _ in versions):
            chosen = sorted(
                (
                    replace(one, deleted=one.deleted or None)
                    for one in versions.values()
                    if one.subject == subject
                ),
                key=lambda schema: schema.version,
            )
            write_subject(root, ArchivedSubject(Scope(subject), tuple(chosen)))
    except OSError as error:
        raise CommandError(f"{error.filename or root}: {error.strerror}") from None
    others = len(versions) - 1
    output.say(f"{root}: {first.subject} version {first.version}, and the schemas that it needs: {others}")
