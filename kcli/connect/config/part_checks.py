"""The checks of parts of a configuration with keys of their own: converters, and overrides of client keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from kcli.config.definition import ConfigError, ConfigKey
from kcli.config.validation import KeyResult, validate
from kcli.connect.config.chain_keys import definition_of
from kcli.connect.config.clients import ClientKind, with_prefix
from kcli.connect.config.connector_keys import DLQ_TOPIC, OFFSETS_TOPIC
from kcli.connect.config.infos import ConfigInfo, key_info, value_info
from kcli.connect.config.kind_checks import Results
from kcli.connect.config.override_policy import OverridePolicy
from kcli.connect.config.plugin import Plugins, PluginType, VersionNotFound
from kcli.connect.config.topic_creation import has_groups
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.model import Config
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_order import hash_order
from kcli.model.java_text import trim

_log = logging.getLogger(__name__)
CONVERTER_TYPE = "converter.type"
_CONVERTER_ORDER = ("header.converter", "key.converter", "value.converter")


def converter_rows(
    config: Config, results: Results, plugins: Plugins
) -> Iterator[tuple[ConfigKey, ConfigInfo]]:
    """The keys of the converters that the configuration sets itself: headers, keys, values.

    An error of a converter's class is added to `results`.
    """
    for key in _CONVERTER_ORDER:
        name = config.get(key)
        result, version = results[key], results[f"{key}.plugin.version"]
        if name is None or result.errors or version.errors:
            continue
        what = key.partition(".")[0]
        kind = PluginType.HEADER_CONVERTER if what == "header" else PluginType.CONVERTER
        try:
            definition = definition_of(
                plugins.find(trim(name), kind, version=config.get(f"{key}.plugin.version"))
            )
        except VersionNotFound as error:
            result.errors.append(str(error))
            version.errors.append(str(error))
            continue
        except ConnectException as error:
            _log.warning("%s", error)
            result.errors.append(f"Failed to load ConfigDef from {what} converter: {error}")
            continue
        prefix = f"{key}."
        values = validate(definition, {CONVERTER_TYPE: what, **with_prefix(config, prefix)})
        for own in hash_order(definition):
            info = ConfigInfo(
                key_info(definition[own], prefix), value_info(values[own], definition[own].type, prefix)
            )
            yield definition[own], info


def override_rows(
    config: Config, kind: PluginType, worker: WorkerConfig
) -> Iterator[tuple[ConfigKey | None, ConfigInfo]]:
    """The keys of clients that the configuration overrides, for the clients that such a connector uses."""
    for client in _clients(config, kind, worker):
        prefix = client.override_prefix
        for name, text in with_prefix(config, prefix).items():
            key = _documented(client, name)
            result = _override(name, text, key, worker.override_policy)
            definition = None if key is None else key_info(key, prefix)
            yield key, ConfigInfo(definition, value_info(result, key.type if key else None, prefix))


def _documented(client: ClientKind, name: str) -> ConfigKey | None:
    """A key of a client with a text about it. The tables of clients have no texts, because brokers do not show them."""
    key = client.keys.get(name)
    kind = "an" if client is ClientKind.ADMIN else "a"
    text = f"The setting {name} of {kind} {client} client, as in the documentation of Apache Kafka."
    return None if key is None else replace(key, documentation=text)


def _override(name: str, text: str, key: ConfigKey | None, policy: OverridePolicy) -> KeyResult:
    result = KeyResult(name, text)
    if key is not None:
        try:
            result.value = key.convert(text)
        except ConfigError as error:
            result.errors.append(error.message)
    refusal = policy.refusal(name)
    if refusal is not None:
        result.errors.append(refusal)
    return result


def _clients(config: Config, kind: PluginType, worker: WorkerConfig) -> Iterator[ClientKind]:
    if kind is PluginType.SOURCE:
        yield ClientKind.PRODUCER
        # In a group of workers, the offsets may be in a topic of another cluster.
        has_own_offsets = worker.group is not None and (
            worker.is_exactly_once or bool(trim(config.get(OFFSETS_TOPIC) or ""))
        )
        if has_own_offsets:
            yield ClientKind.CONSUMER
        if has_own_offsets or has_groups(config):
            yield ClientKind.ADMIN
        return
    has_dead_letters = bool(trim(config.get(DLQ_TOPIC) or ""))
    if has_dead_letters:
        yield ClientKind.PRODUCER
    yield ClientKind.CONSUMER
    if has_dead_letters:
        yield ClientKind.ADMIN
