"""The schemas of the registry that the settings of a cluster name: subjects, versions, differences, and registrations.

The registry only knows the login of the console, so `cluster_rights` decides what a user may do. A page sends subjects,
versions and texts, never addresses.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.cluster_rights import check_rights
from kcli.console.failures import ConsoleError
from kcli.console.listing import ROWS_MAX
from kcli.console.pages.message_sharing import schemas_of, workers_of
from kcli.console.routes import Change, Read
from kcli.formats.registry.catalog import is_missing, together
from kcli.formats.registry.checks import level_of, live_versions, registry_answer
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.differences import line_changes, pretty
from kcli.formats.registry.documents import (
    ConfigDocument,
    RegisteredSchema,
    RegisterRequest,
    SchemaDefinition,
    reference_from_json,
)
from kcli.formats.registry.errors import RegistryError, RegistryRefused
from kcli.formats.registry.members import InvalidDocument
from kcli.formats.registry.reasons import broken_by, old_version_of, reasons_of
from kcli.formats.schemas import SchemaReference, SchemaType
from kcli.model.acl import AclOperation
from kcli.model.java_text import parse_int

_SEE, _CHANGE = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS

HOLDERS_MAX = 100
"""The most referrers of a version whose names a page shows."""

REFERENCES_MAX = 1_000
"""The most references in a request."""

SCHEMA_BYTES_MAX = 4 << 20
"""The longest body of a check or a registration. Confluent's registry has a limit of 1 MB for records by default."""

NAME_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRow:
    """A subject with its latest version. `problem` is the reason why the registry does not show the version."""

    subject: str
    version: int | None = None
    id: int | None = None
    type: str | None = None
    level: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDetails:
    """A subject. `level` and `mode` count for the subject, also if it has none of its own."""

    subject: str
    versions: Sequence[int]
    level: str | None
    policy: str | None
    mode: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDetails:
    """A version with its indented text. `used_by` are versions that refer to it."""

    subject: str
    version: int
    id: int
    guid: str | None
    type: str
    text: str
    references: Sequence[SchemaReference]
    used_by: Sequence[object]
    used_by_count: int
    metadata: object = None
    rules: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDetails:
    """The result of a check. `present` is the version that has this schema already."""

    is_compatible: bool
    level: str | None
    present: int | None = None
    reasons: Sequence[object] = field(default_factory=tuple)


async def show_registry(call: Call) -> dict[str, object]:
    """GET /schemas: the registry, its level and its mode, or no registry if the settings name none."""
    await check_rights(call, _SEE)
    if schemas_of(call) is None:
        return {"registry": None, "level": None, "mode": None}
    client = _client(call)
    with _answers():
        config, mode = await level_of(client, None), await _mode(client, None)
    return {"registry": client.settings.shown, "level": config.compatibility_level, "mode": mode}


async def list_subjects(call: Call) -> Rows:
    """GET /schemas/subjects: the subjects. Only the rows of the page are requested with their latest version."""
    await check_rights(call, _SEE)
    client, listing = _client(call), call.listing()
    with _answers():
        names = await call.cached(("subjects",), client.subjects)
    found = listing.rows(names.value, text=str, columns={"subject": str})
    shown = [str(name) for name in found.rows[:ROWS_MAX]]

    async def row(name: str) -> SubjectRow:
        return (await call.cached(("subject", name), lambda: _row(client, name))).value

    return Rows(total=found.total, rows=[*await together(row(name) for name in shown)])


async def _row(client: RegistryClient, subject: str) -> SubjectRow:
    try:
        schema, config = await client.version(subject), await level_of(client, subject)
    except RegistryError as error:
        return SubjectRow(subject=subject, problem=str(error))
    return SubjectRow(
        subject=subject,
        version=schema.version,
        id=schema.id,
        type=schema.definition.type,
        level=config.compatibility_level,
    )


async def show_subject(call: Call) -> SubjectDetails:
    """GET /schemas/subjects/{subject}: its versions, its level and its mode."""
    await check_rights(call, _SEE)
    client, subject = _client(call), _subject(call)
    with _answers():
        versions = await client.versions(subject)
        config, mode = await level_of(client, subject), await _mode(client, subject)
    return SubjectDetails(
        subject=subject,
        versions=sorted(versions, reverse=True),
        level=config.compatibility_level,
        policy=config.compatibility_policy,
        mode=mode,
    )


async def show_version(call: Call) -> VersionDetails:
    """GET /schemas/subjects/{subject}/versions/{version}: its text, its references, and the schemas that use it."""
    await check_rights(call, _SEE)
    client, subject = _client(call), _subject(call)
    with _answers():
        schema = await client.version(subject, _version(call.part("version")))
        users = await client.referenced_by(subject, schema.version)
        holders = await together(client.versions_of_id(number) for number in users[:HOLDERS_MAX])
    definition = schema.definition
    return VersionDetails(
        subject=subject,
        version=schema.version,
        id=schema.id,
        guid=schema.guid,
        type=definition.type,
        text=await workers_of(call).run(lambda: pretty(definition.text)),
        references=definition.references,
        used_by=[holder for held in holders for holder in held][:HOLDERS_MAX],
        used_by_count=len(users),
        metadata=None if definition.metadata is None else definition.metadata.to_json(),
        rules=None if definition.rule_set is None else definition.rule_set.to_json(),
    )


async def show_difference(call: Call) -> dict[str, object]:
    """GET /schemas/subjects/{subject}/diff?from=1&to=2: the lines of two versions."""
    await check_rights(call, _SEE)
    client, subject = _client(call), _subject(call)
    with _answers():
        old = await client.version(subject, _version(call.query("from", LATEST)))
        new = await client.version(subject, _version(call.query("to", LATEST)))
    lines = await workers_of(call).run(lambda: list(line_changes(old, new)))
    return {"from": _place(old), "to": _place(new), "lines": lines}


def _place(schema: RegisteredSchema) -> dict[str, int]:
    return {"version": schema.version, "id": schema.id}


async def find_schema(call: Call) -> dict[str, object]:
    """GET /schemas/ids/{id}: the versions that have an id or a guid."""
    await check_rights(call, _SEE)
    client, key = _client(call), call.part("id")
    with _answers():
        try:
            ids = [parse_int(key)]
        except ValueError:
            try:
                guid = uuid.UUID(key)
            except ValueError:
                raise bad_request("expected an id or a guid") from None
            ids = [one.id for one in await client.ids_of_guid(guid)]
        holders = await together(client.versions_of_id(number) for number in ids[:HOLDERS_MAX])
    return {"versions": [holder for held in holders for holder in held]}


async def register_schema(action: Action) -> Outcome:
    """POST /schemas/subjects/{subject}/versions {schema, type, references}: registers a schema.

    The preview checks whether the schema is compatible, and changes nothing, so it needs only the right to see schemas.
    """
    await check_rights(action, _SEE if action.is_preview else _CHANGE)
    client, subject = _client(action), _subject(action)
    action.target = f"subject {subject}"
    definition = SchemaDefinition(action.text("schema"), _type(action), _references(action))
    suffix = {"JSON": "json", "PROTOBUF": "proto"}.get(definition.type, "avsc")
    words = ["kcli", "schemas", "put", f"schema.{suffix}", "--subject", subject]
    for reference in definition.references:
        words += ["--reference", f"{reference.name}={reference.subject}:{reference.version}"]
    command = shlex.join([*words, "--registry", client.settings.shown.partition(",")[0]])
    with _answers():
        if action.is_preview:
            details = await _checked(client, subject, definition)
            return Outcome(command=command, summary=_summary(subject, details), details=details)
        answer = await client.register(subject, RegisterRequest(definition))
    return Outcome(command=command, summary=f"Registered the schema of {subject} with the id {answer.id}.")


async def _checked(client: RegistryClient, subject: str, definition: SchemaDefinition) -> CheckDetails:
    config = await level_of(client, subject)
    try:
        present = (await client.look_up(subject, definition)).version
    except RegistryRefused as error:
        if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise
    else:
        return CheckDetails(is_compatible=True, level=config.compatibility_level, present=present)
    answer = await registry_answer(client, subject, definition, normalize=False)
    messages = answer.messages or ()
    reasons = reasons_of(messages, broken_by(config.compatibility_level or ""))
    old = old_version_of(messages) or await _only_version(client, subject, config)
    return CheckDetails(
        is_compatible=answer.is_compatible,
        level=config.compatibility_level,
        reasons=[
            {"text": reason.text, "broken": reason.broken, "cure": reason.cure, "version": old}
            for reason in (() if answer.is_compatible else reasons)
        ],
    )


async def _only_version(client: RegistryClient, subject: str, config: ConfigDocument) -> int | None:
    """The version with which a level compares that is not transitive."""
    if (config.compatibility_level or "").endswith("_TRANSITIVE"):
        return None
    return max(await live_versions(client, subject), default=None)


def _summary(subject: str, details: CheckDetails) -> str:
    if details.present is not None:
        return f"Version {details.present} of {subject} has this schema already."
    if details.is_compatible:
        return f"The schema is compatible with {subject} (level {details.level})."
    return f"The schema is not compatible with {subject} (level {details.level})."


# The parts of requests, and the errors of the registry.


def _client(call: Call) -> RegistryClient:
    registry = schemas_of(call)
    if registry is None:
        raise ConsoleError(
            HTTPStatus.NOT_FOUND, "NO_REGISTRY", "the console has no schema registry (--schema-registry)"
        )
    return registry.client


def _subject(call: Call) -> str:
    subject = call.part("subject")
    if len(subject) > NAME_MAX:
        raise bad_request(f"a subject has {NAME_MAX} characters at most")
    return subject


def _version(text: str) -> Version:
    if text == LATEST:
        return LATEST
    try:
        number = parse_int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise bad_request(f"expected a version, not {text[:40]!r}")
    return number


def _type(action: Action) -> str:
    try:
        return SchemaType(action.text("type", SchemaType.AVRO)).value
    except ValueError:
        raise bad_request(f"type: expected one of {', '.join(SchemaType)}") from None


def _references(action: Action) -> tuple[SchemaReference, ...]:
    listed = action.body.get("references", [])
    if not isinstance(listed, list) or len(listed) > REFERENCES_MAX:
        raise bad_request(f"references: expected a list of up to {REFERENCES_MAX}")
    try:
        return tuple(reference_from_json(item, f"references[{nth}]") for nth, item in enumerate(listed))
    except InvalidDocument as error:
        raise bad_request(str(error)) from None


async def _mode(client: RegistryClient, subject: str | None) -> str | None:
    """The mode that counts for a subject. Some registries have no modes."""
    try:
        return (await client.mode(subject, default_to_global=subject is not None)).mode
    except RegistryRefused as error:
        if is_missing(error):
            return None
        raise


@contextmanager
def _answers() -> Iterator[None]:
    """Turns errors of the registry into HTTP errors for the page."""
    try:
        yield
    except RegistryRefused as error:
        raise ConsoleError(_status(error), "REGISTRY_REFUSED", str(error)) from error
    except RegistryError as error:
        raise ConsoleError(HTTPStatus.BAD_GATEWAY, "NO_REGISTRY", str(error)) from error


def _status(error: RegistryRefused) -> HTTPStatus:
    """Refusals of the registry that concern the page's request. A refused login is one of the console's settings."""
    match error.status:
        case HTTPStatus.NOT_FOUND | HTTPStatus.CONFLICT:
            return HTTPStatus(error.status)
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return HTTPStatus.BAD_REQUEST
        case _:
            return HTTPStatus.BAD_GATEWAY


ROUTES = (
    Read("/schemas", show_registry),
    Read("/schemas/subjects", list_subjects),
    Read("/schemas/subjects/{subject}", show_subject),
    Read("/schemas/subjects/{subject}/versions/{version}", show_version),
    Read("/schemas/subjects/{subject}/diff", show_difference),
    Read("/schemas/ids/{id}", find_schema),
    Change(
        "/schemas/subjects/{subject}/versions",
        "register schema",
        register_schema,
        body_max_bytes=SCHEMA_BYTES_MAX,
    ),
)
