"""`kcli schemas export`: writes the schemas of a registry to a directory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.tools.schemas.archive import (
    SUBJECT_FILE,
    ArchivedSubject,
    Scope,
    directory_of,
    has_archive,
    write_scopes,
    write_subject,
)
from kcli.cli.tools.schemas.connection import client_of, own_config, own_mode
from kcli.cli.tools.schemas.selection import SelectionOptions, selection_of
from kcli.formats.registry.catalog import Held, Selection, by_subject, contexts_of, together, versions_of
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.contexts import DEFAULT_CONTEXT
from kcli.formats.registry.documents import RegisteredSchema
from kcli.runtime.log_text import one_line

GLOBAL_SCOPE = ":.__GLOBAL:"
"""The scope of configs and modes that apply to all contexts."""


@dataclass(frozen=True, slots=True)
class ExportedRow:
    subject: str
    versions: int
    directory: str


async def export(options: SelectionOptions, output: Output) -> None:
    if len(options.arguments) != 1:
        raise UsageError("kcli schemas export: expected one directory")
    root, client, selection = Path(options.arguments[0]), client_of(options), selection_of(options)
    held = by_subject(await versions_of(client, selection, deleted=True))
    scopes = await together(_scope(client, subject) for subject in held)
    try:
        # A part of a registry does not replace the configs and modes of an earlier export of the whole.
        if selection == Selection() or not has_archive(root):
            write_scopes(root, await _scopes(client, selection))
        for scope in scopes:
            versions = tuple(_archived(one) for one in held[scope.name])
            write_subject(root, ArchivedSubject(scope, versions))
            directory = str(directory_of(root, scope.name))
            row = ExportedRow(scope.name, len(versions), directory)
            output.row(row, f"{one_line(scope.name)}: {row.versions} versions")
    except OSError as error:
        raise CommandError(f"{error.filename or root}: {error.strerror}") from None
    _warn_of_others(root, held, output)
    output.say(f"{root}: {len(held)} subjects")


def _archived(held: Held) -> RegisteredSchema:
    return replace(held.schema, deleted=True if held.is_deleted else None)


async def _scope(client: RegistryClient, subject: str) -> Scope:
    return Scope(subject, await own_config(client, subject), await own_mode(client, subject))


async def _scopes(client: RegistryClient, selection: Selection) -> list[Scope]:
    """The configs and modes of the registry and of its contexts, unless only some subjects are exported."""
    scopes = [Scope("", await client.config(), await own_mode(client, None))]
    contexts = await contexts_of(client)
    names = [f":{context}:" for context in contexts if context != DEFAULT_CONTEXT]
    if len(contexts) > 1:
        names.append(GLOBAL_SCOPE)
    scopes += await together(_scope(client, name) for name in names)
    return [scope for scope in scopes if selection == Selection() or not scope.name]


def _warn_of_others(root: Path, held: dict[str, list[Held]], output: Output) -> None:
    """Warns about subjects of an earlier export, because an import would bring them back."""
    known = {directory_of(root, subject).name for subject in held}
    others = sorted(
        file.parent.name for file in root.glob(f"*/{SUBJECT_FILE}") if file.parent.name not in known
    )
    if others:
        shown = ", ".join(others[:10]) + (" …" if len(others) > 10 else "")
        output.warn(f"WARN {root} also has subjects that were not exported now: {shown}")
