"""`kcli schemas list`: the subjects of a registry."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import flag
from kcli.cli.tools.schemas.connection import client_of
from kcli.cli.tools.schemas.selection import SelectionOptions, selection_of
from kcli.formats.registry.catalog import Held, latest_of, together, versions_of
from kcli.formats.registry.checks import level_of
from kcli.runtime.log_text import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(SelectionOptions):
    deleted: bool = flag("Also list what was deleted softly.")
    versions: bool = flag("List all versions, and not only the latest one of each subject.")
    no_levels: bool = flag("Leave out the compatibility levels, which need a request for each subject.")


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A version of a subject. `level` is the compatibility level that counts for the subject."""

    subject: str
    version: int
    id: int
    type: str
    level: str | None
    deleted: bool


async def list_subjects(options: ListOptions, output: Output) -> None:
    client = client_of(options)
    held = await versions_of(client, selection_of(options), deleted=options.deleted)
    shown = held if options.versions else latest_of(held)
    levels: dict[str, str | None] = {}
    if not options.no_levels:
        subjects = list(dict.fromkeys(one.schema.subject for one in shown))
        configs = await together(level_of(client, subject) for subject in subjects)
        levels = {
            subject: config.compatibility_level for subject, config in zip(subjects, configs, strict=True)
        }
    rows = [_row(one, levels.get(one.schema.subject)) for one in shown]
    if not rows and output.is_text:
        output.say(
            "There are no such subjects." if options.prefix or options.context else "There are no subjects."
        )
    width = max((len(row.subject) for row in rows), default=0)
    output.rows(rows, lambda row: _text(row, width))


def _row(held: Held, level: str | None) -> SubjectRow:
    schema = held.schema
    return SubjectRow(
        schema.subject, schema.version, schema.id, schema.definition.type, level, held.is_deleted
    )


def _text(row: SubjectRow, width: int) -> str:
    parts = [
        f"{one_line(row.subject):{width}}",
        f"version {row.version:<3}",
        f"id {row.id:<5}",
        f"{row.type:8}",
        row.level or "",
        "deleted" if row.deleted else "",
    ]
    return "  ".join(parts).rstrip(" ")
