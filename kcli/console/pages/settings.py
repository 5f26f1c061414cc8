"""Settings of brokers and topics: their rows, and changes of settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.client.admin.configs import AlterConfig, ConfigEntry
from kcli.config.describe import broker_key
from kcli.config.properties import editable
from kcli.config.topic import TOPIC
from kcli.console.answers import Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.errors import KafkaError
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """A setting of a broker or a topic, and its default (the value after a reset)."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    is_changed: bool
    default: str | None


def setting_rows(entries: Iterable[ConfigEntry], *own: ConfigSource) -> list[SettingRow]:
    """The rows of settings. A setting counts as changed if the source of its value is in `own`."""
    return [
        SettingRow(
            name=entry.name,
            value=entry.value,
            source=entry.source.name,
            is_sensitive=entry.is_sensitive,
            is_read_only=entry.is_read_only,
            is_changed=entry.source in own,
            default=next((synonym.value for synonym in entry.synonyms if synonym.source not in own), None),
        )
        for entry in entries
    ]


async def settings_of(call: Call, resource: ConfigResource, own: ConfigSource) -> Rows:
    """The settings of a broker or a topic that the page shows. `own` are the sources of changed settings. Raises
    KafkaError."""

    async def load() -> list[SettingRow]:
        config = (await call.admin.describe_configs([resource], synonyms=True))[resource]
        if isinstance(config, KafkaError):
            raise config
        return setting_rows(config, own)

    answer = await call.cached((f"{resource.type.name.lower()}-configs", resource.name), load)
    only_changed = call.query("changed") == "1"
    rows = [row for row in answer.value if row.is_changed or not only_changed]
    return call.listing().rows(
        rows,
        text=lambda row: f"{row.name} {row.value or ''} {row.source}",
        columns={
            "name": lambda row: row.name,
            "source": lambda row: row.source,
            "changed": lambda row: (not row.is_changed, row.name),
        },
    )


def config_changes(action: Action) -> list[AlterConfig]:
    """The changes in the body of an action. Raises HttpError if there are none."""
    settings = action.settings_of("settings")
    if not settings:
        raise bad_request("settings: expected at least one setting")
    return [
        AlterConfig(
            name=name, value=value, op=ConfigOperation.DELETE if value is None else ConfigOperation.SET
        )
        for name, value in settings.items()
    ]


def change_command(action: Action, entity: Sequence[str], changes: Iterable[AlterConfig]) -> str:
    """The command line of `kcli configs` for these changes. `entity` has the options that name the resource. A
    placeholder replaces a secret."""
    changes = list(changes)
    added = {
        change.name: _shown(change.name, change.value or "")
        for change in changes
        if change.op is ConfigOperation.SET
    }
    deleted = [change.name for change in changes if change.op is ConfigOperation.DELETE]
    removed = ["--delete-config", ",".join(deleted)] if deleted else []
    if any(mark in value for value in added.values() for mark in "[]"):
        # --add-config removes brackets, so the values are in a file.
        command = action.command("configs", "--alter", *entity, "--add-config-file", "/dev/stdin", *removed)
        return f"printf '%s' {shlex.quote(editable(added))} | {command}"
    texts = [
        f"{name}=[{value}]" if set(value) & set(",=") else f"{name}={value}" for name, value in added.items()
    ]
    return action.command(
        "configs", "--alter", *entity, *(["--add-config", ",".join(texts)] if texts else []), *removed
    )


def changes_summary(target: str, changes: Iterable[AlterConfig], *, is_preview: bool) -> str:
    """One sentence about changed settings."""
    names = ", ".join(change.name for change in changes)
    return (
        f"The cluster accepts the change of {names} of {target}."
        if is_preview
        else f"Changed {names} of {target}."
    )


def setting_text(name: str, value: str) -> str:
    """A setting for `kcli topics --create --config`. A placeholder replaces a secret."""
    return f"{name}={_shown(name, value)}"


def _shown(name: str, value: str) -> str:
    """The value of a setting, or a placeholder if the key is sensitive or unknown: the value may then be a secret."""
    key = TOPIC.get(name) or broker_key(name)
    if key is None:
        return "VALUE"
    return "PASSWORD" if key.sensitive else value
