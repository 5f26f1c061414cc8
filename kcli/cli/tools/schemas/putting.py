"""`kcli schemas put`: registers a schema, or shows what a registration would do."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, UsageError, flag, option
from kcli.cli.tools.schemas.checking import CheckOptions, show, verdict_of
from kcli.cli.tools.schemas.connection import RegistryOptions, client_of
from kcli.cli.tools.schemas.files import TYPE_WORDS, definition_of, subject_of
from kcli.formats.codec import FormatError
from kcli.formats.registry.catalog import Held, Selection, versions_of
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.contexts import context_of
from kcli.formats.registry.documents import RegisteredSchema, RegisterRequest, SchemaDefinition
from kcli.formats.registry.errors import RegistryRefused
from kcli.formats.registry.schemas import Schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOptions(RegistryOptions):
    subject: str | None = option(
        "The subject. Default: the name of the file without its suffix.", metavar="subject"
    )
    type: str | None = option(
        "The type of the schema. Default: by the suffix .avsc, .json or .proto.",
        choices=TYPE_WORDS,
        metavar="type",
    )
    reference: tuple[str, ...] = option(
        "A schema that the file uses, as name=subject:version.", repeatable=True, metavar="name=…"
    )
    normalize: bool = flag("Register the schema in its normal form, so that its layout makes no new version.")
    dry_run: bool = flag("Show what would happen, and change nothing.")


@dataclass(frozen=True, slots=True)
class PutRow:
    """What a registration did or would do. `change` is registered or unchanged."""

    subject: str
    version: int | None
    id: int | None
    guid: str | None
    change: str


async def put(options: PutOptions, output: Output) -> int:
    if len(options.arguments) != 1:
        raise UsageError("kcli schemas put: expected one file")
    file = Path(options.arguments[0])
    client, subject = client_of(options), options.subject or subject_of(file)
    definition = await definition_of(client, file, options.type, options.reference)
    present = await _present(client, subject, definition, normalize=options.normalize)
    if present is not None:
        row = PutRow(subject, present.version, present.id, present.guid, "unchanged")
        output.row(row, f"{subject} has this schema already: version {row.version}, id {row.id}")
        return 0
    if options.dry_run:
        return await _rehearse(client, (str(file), subject, definition), options, output)
    try:
        answer = await client.register(subject, RegisterRequest(definition), normalize=options.normalize)
    except RegistryRefused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        verdict = await verdict_of(client, str(file), subject, definition, _check_options(options))
        if not verdict.breaks:
            raise  # the registry checks more than the compatibility
        show(verdict, output)
        return 1
    version = answer.version
    if version is None:  # a registry before 8.0
        version = (await client.look_up(subject, definition, normalize=options.normalize)).version
    row = PutRow(subject, version, answer.id, answer.guid, "registered")
    output.row(row, f"{subject}: registered as version {version}, id {answer.id}")
    return 0


def _check_options(options: PutOptions) -> CheckOptions:
    return CheckOptions(normalize=options.normalize)


async def _present(
    client: RegistryClient, subject: str, definition: SchemaDefinition, *, normalize: bool
) -> RegisteredSchema | None:
    try:
        return await client.look_up(subject, definition, normalize=normalize)
    except RegistryRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


async def _rehearse(
    client: RegistryClient,
    candidate: tuple[str, str, SchemaDefinition],
    options: PutOptions,
    output: Output,
) -> int:
    """Shows the version and the id that the schema would get, or why it would be refused."""
    file, subject, definition = candidate
    verdict = await verdict_of(client, file, subject, definition, _check_options(options))
    if not verdict.breaks:
        held = await versions_of(client, Selection(context=context_of(subject)), deleted=True)
        same = await _equal_id(client, candidate, held, normalize=options.normalize)
        versions = [one.schema.version for one in held if one.schema.subject == subject]
        schema_id = same or await _next_id(client, subject, held)
        row = PutRow(subject, max(versions, default=0) + 1, schema_id, None, "registered")
        reused = ", which another subject uses for the same schema" if same else ""
        shown = f"id {schema_id}{reused}" if schema_id else "a new id"
        output.row(row, f"{subject}: would be registered as version {row.version}, {shown}")
    else:
        show(verdict, output)
    output.say("Nothing was changed, because of --dry-run.")
    return 1 if verdict.breaks else 0


async def _next_id(client: RegistryClient, subject: str, held: list[Held]) -> int | None:
    """The id of the next new schema, or None if the registry does not tell its highest id. The highest one may belong
    to a schema that was deleted."""
    if not held:
        return None
    highest = (await client.schema_by_id(held[-1].schema.id, subject=subject, with_max_id=True)).max_id
    return None if highest is None else highest + 1


async def _equal_id(
    client: RegistryClient, candidate: tuple[str, str, SchemaDefinition], held: list[Held], *, normalize: bool
) -> int | None:
    """The id of an equal schema in the context of the subject, which the schema would share."""
    file, subject, definition = candidate
    try:
        loaded = await Schemas(client).with_references(definition, subject)
        parsed = loaded.parsed.normalized() if normalize else loaded.parsed
    except FormatError as error:
        raise CommandError(f"{file}: {error}") from None
    for one in held:
        other = one.schema.definition
        is_equal = other.text == parsed.canonical and other.references == definition.references
        if is_equal and other.type == definition.type and other.metadata is None and other.rule_set is None:
            return one.schema.id
    return None
