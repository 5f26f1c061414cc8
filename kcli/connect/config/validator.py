"""The validation of connector configurations, and the answers about plugins.

The steps are those of Kafka. First, variables are resolved, and the class of the connector is found. Then the keys are
checked: those that every connector has, those of transformations and predicates, and those of the connector itself.
The overrides of client keys and the keys of converters come last. Every error of every key is in one answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey
from kcli.config.validation import KeyResult, groups, validate
from kcli.connect.config import kind_checks
from kcli.connect.config.chain_keys import PREDICATE_CHAIN, TRANSFORM_CHAIN, definition_of
from kcli.connect.config.checks import CheckReport, CheckRequest, RunCheck, needs_check
from kcli.connect.config.connector_keys import (
    CONNECTOR_CLASS,
    CONNECTOR_VERSION,
    OWN_KEYS,
    ConverterDefault,
    connector_keys,
)
from kcli.connect.config.infos import (
    ConfigInfo,
    ConfigInfos,
    KeyInfo,
    infos_of,
    key_info,
    value_info,
    with_variables,
)
from kcli.connect.config.part_checks import converter_rows, override_rows
from kcli.connect.config.plugin import CONNECTORS, Plugin, Plugins, PluginType, VersionNotFound
from kcli.connect.config.versions import InvalidVersion
from kcli.connect.config.worker import CONVERTERS, WorkerConfig
from kcli.connect.errors import BadRequest, InvalidVariable, NotFound
from kcli.connect.model import Config
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_order import hash_order
from kcli.model.java_text import trim

Resolve = Callable[[Config], Config]
"""Replaces the variables of a configuration, such as `${file:/path:key}`. Raises ConfigError."""

# Plugins of Kafka that a worker has too, but that have no keys to ask for.
_OTHER_PLUGINS = tuple(
    f"org.apache.kafka.{name}"
    for name in (
        "common.config.provider.DirectoryConfigProvider",
        "common.config.provider.EnvVarConfigProvider",
        "common.config.provider.FileConfigProvider",
        "connect.connector.policy.AllConnectorClientConfigOverridePolicy",
        "connect.connector.policy.NoneConnectorClientConfigOverridePolicy",
        "connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy",
        "connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
    )
)


class ConfigValidator:
    """Validates the configurations of one worker. `run_check` runs a connector's own code in a process."""

    def __init__(
        self, plugins: Plugins, worker: WorkerConfig, run_check: RunCheck, resolve: Resolve = dict
    ) -> None:
        self._plugins = plugins
        self._worker = worker
        self._run_check = run_check
        self._resolve = resolve

    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]:
        return self._plugins.all(*(CONNECTORS if connectors_only else ()))

    async def plugin_config(self, name: str, version: str | None) -> Sequence[KeyInfo]:
        """The keys of a plugin. Raises NotFound and BadRequest with Java's messages."""
        try:
            plugin = self._plugins.find(name, version=version)
        except (VersionNotFound, InvalidVersion) as error:
            raise BadRequest(str(error)) from None
        except ConnectException:
            if any(name in (other, other.rpartition(".")[2]) for other in _OTHER_PLUGINS):
                kinds = "sink, source, converter, header_converter, transformation, predicate"
                raise BadRequest(f"Invalid plugin class {name}. Valid types are {kinds}.") from None
            raise NotFound(f"Unknown plugin {name}.") from None
        # A class may make its keys at their first use, and import much for it.
        return await asyncio.to_thread(self._keys_of, plugin)

    def _keys_of(self, plugin: Plugin) -> Sequence[KeyInfo]:
        keys = dict(definition_of(plugin))
        if plugin.kind in CONNECTORS:
            common = connector_keys(plugin.kind, self._plugins, connector_version=plugin.version)
            keys |= {key: common[key] for key in common if key not in keys}
        return [key_info(key) for key in keys.values()]

    async def validate(self, config: Config) -> ConfigInfos:
        """Raises BadRequest if the class of the connector is missing or unknown, and InvalidVariable.

        The answer and the errors have the variables of the configuration, and not their values, which may be secrets.
        """
        try:
            resolved = await asyncio.to_thread(self._resolve, config)
        except ConfigError as error:
            raise InvalidVariable(error.message) from error
        if resolved.get(CONNECTOR_CLASS) is None:
            raise BadRequest(f"Connector config {_java_map(config)} contains no connector type")
        infos = await self._validated(resolved)
        variables = {key: text for key, text in config.items() if text is not None and resolved[key] != text}
        return with_variables(infos, variables, resolved) if variables else infos

    async def _validated(self, config: Config) -> ConfigInfos:
        name = config[CONNECTOR_CLASS]
        assert name is not None, "`validate` has checked it"
        try:
            plugin = self._plugins.find(name, *CONNECTORS, version=config.get(CONNECTOR_VERSION))
        except VersionNotFound as error:
            return self._version_error(name, config, error)
        except (ConnectException, InvalidVersion) as error:
            raise BadRequest(str(error)) from error
        # A client chooses the size of a configuration, so a thread does the long parts.
        definition, results = await asyncio.to_thread(self._common, plugin, config)
        report = await self._report(plugin, config, results)
        return await asyncio.to_thread(self._infos, name, plugin, config, definition, results, report)

    def _common(self, plugin: Plugin, config: Config) -> tuple[ConfigDef, dict[str, KeyResult]]:
        """The keys that every connector has, and those of transformations and predicates."""
        definition = self._definition(plugin, config)
        return definition, validate(definition, config)

    def _infos(
        self,
        name: str,
        plugin: Plugin,
        config: Config,
        definition: ConfigDef,
        results: dict[str, KeyResult],
        report: CheckReport,
    ) -> ConfigInfos:
        """The answer, with the keys of the connector itself and of the parts of its configuration."""
        self._check_kind(plugin.kind, config, results, report)
        _add_null_errors(config, results)
        own = definition_of(plugin)
        results |= validate(own, config)
        for key, errors in report.errors.items():
            results.setdefault(key, KeyResult(key, config.get(key))).errors.extend(errors)
        parts = [
            *override_rows(config, plugin.kind, self._worker),
            *converter_rows(config, results, self._plugins),
        ]
        return infos_of(
            name,
            [*_rows({**definition, **own}, results), *(info for _, info in parts)],
            [*groups(definition), *groups(own), *(key.group for key, _ in parts if key and key.group)],
        )

    def _definition(self, plugin: Plugin, config: Config) -> ConfigDef:
        common = connector_keys(
            plugin.kind,
            self._plugins,
            connector_version=plugin.version,
            converters={key: self._converter_default(key, config) for key in CONVERTERS},
        )
        return ConfigDef(
            (
                *common.values(),
                *TRANSFORM_CHAIN.keys(config, self._plugins),
                *PREDICATE_CHAIN.keys(config, self._plugins),
                *(key for name, key in OWN_KEYS.items() if name in config),
            )
        )

    def _converter_default(self, key: str, config: Config) -> ConverterDefault:
        default = self._worker.converter_class(key)
        kind = PluginType.HEADER_CONVERTER if key == "header.converter" else PluginType.CONVERTER
        try:
            plugin = self._plugins.find(trim(config.get(key) or default), kind)
        except ConnectException:
            plugin = None
        return ConverterDefault(self._plugins.class_named(default) or default, plugin)

    async def _report(self, plugin: Plugin, config: Config, results: kind_checks.Results) -> CheckReport:
        """Asks the connector's own code, if there is something to ask."""
        is_source_of_group = plugin.kind is PluginType.SOURCE and self._worker.group is not None
        request = CheckRequest(
            plugin.python_name,
            plugin.path,
            {key: text for key, text in config.items() if text is not None},
            asks_exactly_once=is_source_of_group and kind_checks.requires_exactly_once(results),
            asks_boundaries=is_source_of_group and kind_checks.has_own_boundaries(results),
        )
        return await self._run_check(request) if needs_check(request) else CheckReport()

    def _check_kind(
        self, kind: PluginType, config: Config, results: dict[str, KeyResult], report: CheckReport
    ) -> None:
        group = self._worker.group
        if kind is PluginType.SINK:
            kind_checks.check_sink(config, results)
            if group is not None:
                kind_checks.check_sink_group(config, results, group.group_id)
        elif group is not None:
            kind_checks.check_exactly_once(
                results, report, worker_is_exactly_once=self._worker.is_exactly_once
            )

    def _version_error(self, name: str, config: Config, error: VersionNotFound) -> ConfigInfos:
        """The result for a connector that is not there in the version that the configuration asks for."""
        definition = connector_keys(None, self._plugins, connector_version=error.available[-1])
        results = validate(definition, config)
        for key in (CONNECTOR_CLASS, CONNECTOR_VERSION):
            results[key].errors.append(str(error))
        results[CONNECTOR_VERSION].recommended = tuple(error.available)
        _add_null_errors(config, results)
        return infos_of(name, list(_rows(definition, results)), groups(definition))


def _rows(keys: ConfigDef | dict[str, ConfigKey], results: kind_checks.Results) -> Iterable[ConfigInfo]:
    """The rows of an answer: first the keys that have an error but no definition, and then the others."""
    for result in results.values():
        if result.name not in keys:
            yield ConfigInfo(None, value_info(result, None))
    for key in keys.values():
        yield ConfigInfo(key_info(key), value_info(results[key.name], key.type))


def _add_null_errors(config: Config, results: dict[str, KeyResult]) -> None:
    for key, text in config.items():
        if text is None:
            result = results.setdefault(key, KeyResult(key))
            result.errors.append("Null value can not be supplied as the configuration value.")


def _java_map(config: Config) -> str:
    """Formats a configuration as Java formats a HashMap."""
    entries = ", ".join(
        f"{key}={'null' if config[key] is None else config[key]}" for key in hash_order(config)
    )
    return f"{{{entries}}}"
