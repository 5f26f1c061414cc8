"""`kcli schemas delete`: deletes a subject or a version, unless another schema refers to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from kcli.cli.confirm import confirm
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, UsageError, flag
from kcli.cli.tools.schemas.connection import RegistryOptions, client_of, version_number
from kcli.formats.registry.catalog import together
from kcli.formats.registry.client import LATEST, RegistryClient
from kcli.formats.registry.documents import SubjectVersion
from kcli.formats.registry.errors import RegistryRefused

NAMES_MAX = 10
"""The most schemas that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions(RegistryOptions):
    permanent: bool = flag(
        "Delete for ever, in one step. Records with these schemas cannot be read any more."
    )
    dry_run: bool = flag("Show what would be deleted, and change nothing.")
    yes: bool = flag("Do not ask.")


@dataclass(frozen=True, slots=True)
class DeletedRow:
    subject: str
    version: int
    permanent: bool


async def delete(options: DeleteOptions, output: Output) -> None:
    if not 1 <= len(options.arguments) <= 2:
        raise UsageError("kcli schemas delete: expected a subject, and perhaps a version")
    subject, *version = options.arguments
    client = client_of(options)
    versions = await _versions(client, subject, version[0] if version else None, permanent=options.permanent)
    live = await _live(client, subject)
    whole = not version
    await _refuse_referenced(client, subject, versions, whole=whole, permanent=options.permanent)
    rows = [DeletedRow(subject, number, options.permanent) for number in versions]
    if options.dry_run:
        output.rows(rows, lambda row: f"{row.subject} version {row.version} would be deleted{_how(row)}")
        output.say("Nothing was changed, because of --dry-run.")
        return
    what = subject if whole else f"{subject} version {versions[0]}"
    loss = "for ever, and records with its schemas can then not be read" if options.permanent else "softly"
    confirm(f"{what} will be deleted {loss}.", yes=options.yes)
    if whole:
        if live:
            await client.delete_subject(subject)
        if options.permanent:
            await client.delete_subject(subject, permanent=True)
    else:
        if versions[0] in live:
            await client.delete_version(subject, versions[0])
        if options.permanent:
            await client.delete_version(subject, versions[0], permanent=True)
    output.rows(rows, lambda row: f"{row.subject} version {row.version} is deleted{_how(row)}")


def _how(row: DeletedRow) -> str:
    return " permanently" if row.permanent else ""


async def _live(client: RegistryClient, subject: str) -> Sequence[int]:
    try:
        return await client.versions(subject)
    except RegistryRefused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return ()
        raise


async def _versions(
    client: RegistryClient, subject: str, version: str | None, *, permanent: bool
) -> Sequence[int]:
    """The versions to delete. Versions that were deleted softly can only be deleted permanently."""
    if version is None:
        return await client.versions(subject, deleted=permanent)
    number = version_number(version)
    if number == LATEST:
        return ((await client.version(subject)).version,)
    return ((await client.version(subject, number, deleted=permanent)).version,)


async def _refuse_referenced(
    client: RegistryClient, subject: str, versions: Sequence[int], *, whole: bool, permanent: bool
) -> None:
    """Raises CommandError if other schemas refer to the versions. Inside of a subject that is deleted as a whole,
    versions may refer to each other."""
    answers = await together(client.referenced_by(subject, number, deleted=permanent) for number in versions)
    referrers: dict[int, list[SubjectVersion]] = {}
    for number, ids in zip(versions, answers, strict=True):
        for schema_id in ids:
            holders = await client.versions_of_id(schema_id, deleted=permanent)
            others = [one for one in holders if not (whole and one.subject == subject)]
            if others:
                referrers.setdefault(number, []).extend(others)
    if not referrers:
        return
    lines = [
        f"version {number} is used by {_named(holders)}" for number, holders in sorted(referrers.items())
    ]
    raise CommandError(f"{subject} cannot be deleted, because {'; '.join(lines)}. Delete these first.")


def _named(holders: Sequence[SubjectVersion]) -> str:
    names = [f"{holder.subject} version {holder.version}" for holder in holders]
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
