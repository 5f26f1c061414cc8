"""`kcli schemas config` and `mode`: shows and changes those of a subject, of a context or of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.cli.confirm import confirm
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, Kind, UsageError, flag, option
from kcli.cli.tools.schemas.checking import LEVEL_WORDS, POLICY_WORDS
from kcli.cli.tools.schemas.connection import RegistryOptions, client_of, feature
from kcli.command.rows import Json
from kcli.formats.registry.checks import level_of
from kcli.formats.registry.documents import ConfigDocument, ConfigUpdate

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
NO_CHANGES = "resource that changes modes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOptions(RegistryOptions):
    level: str | None = option("Set the compatibility level.", choices=LEVEL_WORDS, metavar="level")
    policy: str | None = option(
        "JSON Schema: set how strict comparisons are.", choices=POLICY_WORDS, metavar="policy"
    )
    group: str | None = option(
        "Compare only versions that have an equal value of this metadata property.", metavar="property"
    )
    normalize: bool | None = option(
        "Register schemas in their normal form.", Kind.BOOLEAN, metavar="true|false"
    )
    alias: str | None = option("Make the subject another name of this subject.", metavar="subject")
    delete: bool = flag("Delete the config, so that that of the context or of the registry counts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeOptions(RegistryOptions):
    set: str | None = option("Set the mode.", choices=MODES, metavar="mode")
    force: bool = flag("Set IMPORT although there are schemas.")
    delete: bool = flag("Delete the mode, so that that of the context or of the registry counts.")
    yes: bool = flag("Do not ask.")


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """The config that counts for a subject. An empty subject stands for the registry."""

    subject: str
    config: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ModeRow:
    subject: str
    mode: str | None


def _scope(arguments: tuple[str, ...], verb: str) -> str | None:
    if len(arguments) > 1:
        raise UsageError(f"kcli schemas {verb}: expected one subject, or none for the registry")
    return arguments[0] if arguments else None


async def config(options: ConfigOptions, output: Output) -> None:
    scope, client = _scope(options.arguments, "config"), client_of(options)
    changes = ConfigDocument(
        compatibility_level=options.level,
        compatibility_policy=options.policy,
        compatibility_group=options.group,
        normalize=options.normalize,
        alias=options.alias,
    )
    if options.delete and changes != ConfigDocument():
        raise UsageError("--delete: expected no other change")
    if options.delete:
        await client.delete_config(scope)
    elif changes != ConfigDocument():
        await client.set_config(ConfigUpdate(changes), scope)
    counting = await level_of(client, scope)
    _refuse_ignored(changes, counting, client.settings.shown)
    row = ConfigRow(scope or "", counting.to_json())
    output.row(row, "\n".join(f"{name}: {_word(value)}" for name, value in row.config.items()))


_NEWER_KEYS = {"policy": "compatibility_policy", "group": "compatibility_group", "normalize": "normalize"}
"""The options whose fields a registry with fewer features does not have, and ignores."""


def _refuse_ignored(changes: ConfigDocument, counting: ConfigDocument, url: str) -> None:
    """Raises CommandError if the registry has ignored a change, as registries with fewer features do."""
    ignored = [
        f"--{name}"
        for name, member in _NEWER_KEYS.items()
        if getattr(changes, member) is not None and getattr(counting, member) is None
    ]
    if ignored:
        raise CommandError(
            f"the registry {url} has ignored {', '.join(ignored)}: it does not have this config"
        )


def _word(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def mode(options: ModeOptions, output: Output) -> None:
    scope, client = _scope(options.arguments, "mode"), client_of(options)
    if options.delete and options.set is not None:
        raise UsageError("--delete: expected no --set")
    if options.delete and scope is None:
        raise UsageError("--delete: expected a subject")
    if options.delete:
        assert scope is not None
        await feature(client, client.delete_mode(scope), NO_CHANGES)
    elif options.set is not None:
        if options.set == "IMPORT":
            confirm(
                f"{scope or 'The registry'} will only accept schemas with ids, and its versions that were deleted "
                "softly will be lost.",
                yes=options.yes or options.force,
                refused="Nothing was changed.",
            )
        await feature(client, client.set_mode(options.set, scope, force=options.force), NO_CHANGES)
    shown = await feature(client, client.mode(scope, default_to_global=scope is not None), "modes")
    output.row(ModeRow(scope or "", shown.mode), lambda row: f"mode: {row.mode}")
