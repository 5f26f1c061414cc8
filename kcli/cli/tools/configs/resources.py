"""`kafka-configs` for entities with key-value settings: topics, brokers, loggers, client metrics, groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.cli.connect import admin
from kcli.cli.output import Output
from kcli.cli.syntax.options import java_split, separated
from kcli.cli.tools.configs.options import ConfigsOptions, Entity
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.configs import AlterConfig, ConfigEntry, Settings
from kcli.client.admin.parts import in_parts
from kcli.config.properties import load
from kcli.errors import KafkaError
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_order import map_order, string_hash
from kcli.model.java_text import trim
from kcli.runtime.hidden_arguments import without_secrets

# The empty name stands for the default of all brokers.
DEFAULT = ""

_RESOURCES: dict[str, tuple[ConfigResourceType, ConfigSource | None]] = {
    "topics": (ConfigResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    "brokers": (ConfigResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG),
    "broker-loggers": (ConfigResourceType.BROKER_LOGGER, None),
    "client-metrics": (ConfigResourceType.CLIENT_METRICS, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),
    "groups": (ConfigResourceType.GROUP, ConfigSource.DYNAMIC_GROUP_CONFIG),
}

# The most entities whose settings are in memory at the same time.
NAMES_AT_ONCE = 5000

# The patterns below match a comma or an equals sign only outside square brackets.
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_COMMA = re.compile("," + _OUTSIDE_BRACKETS)
_EQUALS = re.compile(r"\s*=\s*" + _OUTSIDE_BRACKETS, re.ASCII)
_KEY = re.compile(r"[$a-zA-Z0-9._-]*")

# The valid names of topics (Topic.validate).
TOPIC_NAME_MAX = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SynonymRow:
    """A setting that can supply a value: the setting in use, or a setting of lower precedence."""

    source: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting of one entity."""

    entity_type: str
    entity_name: str
    name: str
    value: str | None
    source: str
    sensitive: bool
    read_only: bool
    synonyms: tuple[SynonymRow, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change that was made or, in a dry run, that would be made."""

    entity_type: str
    entity_name: str
    added: dict[str, str]
    deleted: tuple[str, ...]
    dry_run: bool


async def act(options: ConfigsOptions, entity: Entity, output: Output) -> None:
    """Describes or alters settings."""
    async with admin(options, bootstrap_controller=options.bootstrap_controller) as client:
        if options.describe:
            await _describe(client, options, entity, output)
        else:
            await _alter(client, options, entity, output)


def configs_to_add(options: ConfigsOptions) -> dict[str, str]:
    """Returns the settings of --add-config or --add-config-file. Raises ValueError for an invalid setting."""
    added: dict[str, str] = {}
    if options.add_config_file is not None:
        added |= load(options.add_config_file)
    if options.add_config is not None:
        for part in java_split(options.add_config, _COMMA):
            pair = _EQUALS.split(part)
            if len(pair) != 2:
                raise ValueError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format "
                    '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            added[trim(pair[0])] = trim(pair[1].replace("[", "").replace("]", ""))
    for name in added:
        if not _KEY.fullmatch(name):
            raise ValueError(f"Invalid character found for config key: {name}")
    return added


def configs_to_delete(options: ConfigsOptions) -> list[str]:
    """Returns the settings of --delete-config."""
    return [trim(name) for name in separated(options.delete_config)]


async def _describe(client: AdminClient, options: ConfigsOptions, entity: Entity, output: Output) -> None:
    kind = entity.type
    names = [entity.name] if entity.name is not None else None
    if names is not None and not options.all and not await _exists(client, kind, names[0]):
        output.say(f"The {kind[:-1]} '{names[0]}' doesn't exist and doesn't have dynamic config.")
        return
    if names is None:
        names = await _all_names(client, kind)
    # A broker describes only itself, so the settings of brokers are requested one by one.
    one_by_one = kind in ("brokers", "broker-loggers")
    for part in in_parts(names, 1 if one_by_one else NAMES_AT_ONCE):
        settings: dict[str, Settings] = {}
        for name in part:
            if kind == "brokers" and name == DEFAULT:
                output.say(f"Default configs for {kind} in the cluster are:")
            else:
                output.say(f"{'All' if options.all else 'Dynamic'} configs for {kind[:-1]} {name} are:")
            settings = settings or await _settings(client, kind, part, synonyms=True)
            entries = _entries(kind, name, settings[name], every=options.all)
            output.rows([_row(kind, name, entry) for entry in entries], _line)


async def _alter(client: AdminClient, options: ConfigsOptions, entity: Entity, output: Output) -> None:
    added = configs_to_add(options)
    deleted = configs_to_delete(options)
    kind, name = entity.type, entity.name
    assert name is not None
    settings = (await _settings(client, kind, [name], synonyms=False))[name]
    present = {entry.name for entry in _entries(kind, name, settings, every=False)}
    if kind == "broker-loggers":
        unknown = [key for key in (*deleted, *added) if key not in present]
        if unknown:
            raise ValueError(f"Invalid broker logger(s): {','.join(unknown)}")
    else:
        missing = [key for key in deleted if key not in present]
        if missing:
            raise ValueError(f"Invalid config(s): {','.join(missing)}")
    resource = ConfigResource(_RESOURCES[kind][0], name)
    changes = [AlterConfig(name=key, value=value) for key, value in added.items()]
    changes += [AlterConfig(name=key, value="", op=ConfigOperation.DELETE) for key in deleted]
    results = await client.incremental_alter_configs({resource: changes}, validate_only=options.dry_run)
    for error in results.values():
        if error is not None:
            raise error
    done = "Would complete" if options.dry_run else "Completed"
    of = f"config for {kind[:-1]} {name}." if name else f"default config for {kind} in the cluster."
    shown = {key: _without_secret(key, value) for key, value in added.items()}
    row = ConfigChange(kind, name, shown, tuple(deleted), options.dry_run)
    output.row(row, f"{done} updating {of}")


def _without_secret(key: str, value: str) -> str:
    (shown,) = without_secrets((f"{key}={value}",))
    return shown.partition("=")[2]


async def _exists(client: AdminClient, kind: str, name: str) -> bool:
    if kind == "topics":
        _check_topic_name(name)
        return any(topic.name == name for topic in await client.list_topics())
    if kind in ("brokers", "broker-loggers"):
        return name == DEFAULT or name in [str(node.id) for node in (await client.describe_cluster()).nodes]
    return name in await _all_names(client, kind)


async def _all_names(client: AdminClient, kind: str) -> list[str]:
    if kind == "topics":
        return map_order((topic.name for topic in await client.list_topics()), string_hash)
    if kind in ("brokers", "broker-loggers"):
        return [*(str(node.id) for node in (await client.describe_cluster()).nodes), DEFAULT]
    configured = {resource.name for resource in await client.list_config_resources([_RESOURCES[kind][0]])}
    if kind == "groups":
        configured |= {group.group_id for group in await client.list_groups()}
    return map_order(sorted(configured), string_hash)


async def _settings(
    client: AdminClient, kind: str, names: Sequence[str], *, synonyms: bool
) -> dict[str, Settings]:
    """Returns the settings of each entity, or its error."""
    if kind == "topics":
        for name in names:
            _check_topic_name(name)
    resources = [ConfigResource(_RESOURCES[kind][0], name) for name in names]
    configs = await client.describe_configs(resources, synonyms=synonyms)
    return {resource.name: configs[resource] for resource in resources}


def _entries(kind: str, name: str, settings: Settings, *, every: bool) -> list[ConfigEntry]:
    """Returns the settings of an entity, sorted by name: all settings, or only settings that were set for the entity.

    Raises the error of an entity that could not be described.
    """
    if isinstance(settings, KafkaError):
        raise settings
    source = _RESOURCES[kind][1]
    if kind == "brokers" and name == DEFAULT:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return sorted(
        (entry for entry in settings if every or source is None or entry.source is source),
        key=lambda entry: entry.name,
    )


def _check_topic_name(name: str) -> None:
    if not name:
        raise ValueError("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise ValueError(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > TOPIC_NAME_MAX:
        raise ValueError(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_NAME_MAX}"
        )
    if not _TOPIC_NAME.fullmatch(name):
        raise ValueError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def _row(kind: str, name: str, entry: ConfigEntry) -> ConfigRow:
    return ConfigRow(
        entity_type=kind,
        entity_name=name,
        name=entry.name,
        value=entry.value,
        source=entry.source.name,
        sensitive=entry.is_sensitive,
        read_only=entry.is_read_only,
        synonyms=tuple(
            SynonymRow(synonym.source.name, synonym.name, synonym.value) for synonym in entry.synonyms
        ),
    )


def _line(row: ConfigRow) -> str:
    synonyms = ", ".join(
        f"{synonym.source}:{synonym.name}={_shown(synonym.value)}" for synonym in row.synonyms
    )
    sensitive = "true" if row.sensitive else "false"
    return f"  {row.name}={_shown(row.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _shown(value: str | None) -> str:
    return "null" if value is None else value
