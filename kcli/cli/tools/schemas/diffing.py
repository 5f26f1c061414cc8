"""`kcli schemas diff`: the differences between two versions of a subject, or between two registries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import UsageError, flag, option
from kcli.cli.tools.schemas.connection import client_at, client_of, own_config, own_mode, version_number
from kcli.cli.tools.schemas.selection import SelectionOptions, selection_of
from kcli.formats.registry.catalog import Held, Selection, contexts_of, together, versions_of
from kcli.formats.registry.client import LATEST, RegistryClient
from kcli.formats.registry.contexts import DEFAULT_CONTEXT
from kcli.formats.registry.differences import line_changes
from kcli.runtime.log_text import one_line

DIFFERENT = 1
"""The exit code if there is a difference, as of `diff`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions(SelectionOptions):
    to_registry: str | None = option("Compare with this registry.", metavar="URL")
    to_config: str | None = option(
        "The properties file for --to-registry. Default: that of --command-config.", metavar="file"
    )
    deleted: bool = flag("Also compare what was deleted softly.")
    no_settings: bool = flag("Leave out the configs and modes, which need requests for each subject.")


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """A difference between two registries. `here` and `there` are empty if the registry does not have it."""

    subject: str
    version: int | None
    what: str
    here: str | None
    there: str | None


async def diff(options: DiffOptions, output: Output) -> int:
    if options.to_registry is not None or options.to_config is not None:
        if options.arguments:
            raise UsageError("kcli schemas diff: --to-registry compares all subjects, or those of --prefix")
        return await _registries(options, output)
    if not 1 <= len(options.arguments) <= 3:
        raise UsageError("kcli schemas diff: expected a subject and up to two versions, or --to-registry")
    return await _versions(options, output)


async def _versions(options: DiffOptions, output: Output) -> int:
    """Compares two versions. Without versions, the two newest. With one, this version and the newest."""
    client = client_of(options)
    subject, *texts = options.arguments
    if texts:
        numbers = [version_number(text) for text in texts]
        if len(numbers) == 1:
            numbers.append(LATEST)
    else:
        listed = await client.versions(subject, deleted=options.deleted)
        numbers = [*listed[-2:]]
    old, new = [
        await client.version(subject, number, deleted=options.deleted) for number in (numbers[0], numbers[-1])
    ]
    rows = list(line_changes(old, new))
    if rows:
        output.say(f"--- {subject} version {old.version} (id {old.id})")
        output.say(f"+++ {subject} version {new.version} (id {new.id})")
    else:
        output.say(f"{subject}: the versions {old.version} and {new.version} are equal")
    output.rows(rows, lambda row: f"{row.change}{one_line(row.line)}")
    return DIFFERENT if rows else 0


async def _registries(options: DiffOptions, output: Output) -> int:
    here, there = client_of(options), client_at(options.to_registry, options, options.to_config)
    selection = selection_of(options)
    left, right = await together(
        versions_of(client, selection, deleted=options.deleted) for client in (here, there)
    )
    rows = list(_schema_differences(left, right))
    if not options.no_settings:
        rows += await _setting_differences(here, there, selection, (left, right))
    output.rows(rows, _difference_text)
    if not rows:
        output.say(f"There is no difference: {len(left)} versions are equal.")
    return DIFFERENT if rows else 0


def _schema_differences(left: Sequence[Held], right: Sequence[Held]) -> Iterator[DifferenceRow]:
    here, there = _by_key(left), _by_key(right)
    for subject, version in sorted({*here, *there}):
        one, other = here.get((subject, version)), there.get((subject, version))
        if one is None or other is None:
            yield DifferenceRow(
                subject, version, "version", "present" if one else None, "present" if other else None
            )
            continue
        for what, mine, yours in (
            ("id", one.schema.id, other.schema.id),
            ("type", one.schema.definition.type, other.schema.definition.type),
            ("deleted", _word(one.is_deleted), _word(other.is_deleted)),
        ):
            if mine != yours:
                yield DifferenceRow(subject, version, what, str(mine), str(yours))
        lines = list(line_changes(one.schema, other.schema))
        if lines:
            changed = [row for row in lines if row.change != " "]
            gone = "\n".join(row.line for row in changed if row.change == "-")
            come = "\n".join(row.line for row in changed if row.change == "+")
            yield DifferenceRow(subject, version, "schema", gone or None, come or None)


async def _setting_differences(
    here: RegistryClient,
    there: RegistryClient,
    selection: Selection,
    versions: tuple[Sequence[Held], Sequence[Held]],
) -> list[DifferenceRow]:
    """The configs and modes that differ: of the registry, of contexts, and of subjects that both registries have."""
    left, right = ({one.schema.subject for one in held} for held in versions)
    scopes = [""] if selection == Selection() else []
    if selection == Selection():
        common = set(await contexts_of(here)) & set(await contexts_of(there))
        scopes += [f":{context}:" for context in sorted(common) if context != DEFAULT_CONTEXT]
    scopes += sorted(left & right)
    mine, yours = [await together(_settings(client, scope) for scope in scopes) for client in (here, there)]
    return [
        DifferenceRow(scope, None, what, one.get(what), other.get(what))
        for scope, one, other in zip(scopes, mine, yours, strict=True)
        for what in sorted({*one, *other})
        if one.get(what) != other.get(what)
    ]


async def _settings(client: RegistryClient, scope: str) -> dict[str, str | None]:
    """The config and the mode of a scope, as far as it has its own."""
    config = await own_config(client, scope) if scope else await client.config()
    settings: dict[str, str | None] = {
        f"config {name}": str(value) for name, value in (config.to_json() if config else {}).items()
    }
    settings["mode"] = await own_mode(client, scope or None)
    return settings


def _by_key(held: Sequence[Held]) -> dict[tuple[str, int], Held]:
    return {(one.schema.subject, one.schema.version): one for one in held}


def _word(value: bool) -> str:
    return "yes" if value else "no"


def _difference_text(row: DifferenceRow) -> str:
    place = one_line(row.subject) or "the registry"
    if row.version is not None:
        place += f" version {row.version}"
    if row.what == "version":
        return f"{place}: only {'here' if row.here else 'there'}"
    if row.what != "schema":
        return f"{place}: {row.what} is {row.here or 'not set'} here, and {row.there or 'not set'} there"
    lines = [f"{place}: the schemas differ"]
    lines += [f"  - {one_line(line)}" for line in (row.here or "").splitlines()]
    lines += [f"  + {one_line(line)}" for line in (row.there or "").splitlines()]
    return "\n".join(lines)
