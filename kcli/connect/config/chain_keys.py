"""The configuration keys of the transformations and predicates that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Width,
    invalid_value,
)
from kcli.config.validation import embedded
from kcli.connect.config.connector_keys import PREDICATES, TRANSFORMS
from kcli.connect.config.key_checks import NAMES_MAX, SIMPLE_NAMES, Choices, ClassOf, VersionSpec
from kcli.connect.config.plugin import Plugin, Plugins, PluginType, VersionNotFound
from kcli.connect.config.versions import InvalidVersion
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import split_list, trim

PREDICATE = "predicate"
NEGATE = "negate"
_OF_ALL_TRANSFORMATIONS = (
    ConfigKey(
        PREDICATE,
        ConfigType.STRING,
        None,
        documentation="Name of the predicate that a record must match. Without it, the transformation is applied to "
        "every record.",
    ),
    ConfigKey(
        NEGATE,
        ConfigType.BOOLEAN,
        "false",
        documentation="Apply the transformation to the records that do not match the predicate.",
    ),
)


@dataclass(frozen=True, slots=True)
class Chain:
    """The plugins of one kind that a configuration names in the list `key`, with keys such as `transforms.x.type`."""

    key: str
    kind: PluginType
    group: str
    own_keys: tuple[ConfigKey, ...] = ()

    def names(self, texts: Mapping[str, str | None]) -> list[str]:
        """The names in the list, each of them once, up to NAMES_MAX. The validator of the list refuses more names."""
        names = split_list(trim(texts.get(self.key) or ""))
        return list(dict.fromkeys(names[:NAMES_MAX]))

    def prefix(self, name: str) -> str:
        return f"{self.key}.{name}."

    def keys(self, texts: Mapping[str, str | None], plugins: Plugins) -> Iterator[ConfigKey]:
        """The keys of every plugin that `texts` name."""
        for name in self.names(texts):
            yield from self._keys_of(name, texts, plugins)

    def _keys_of(self, name: str, texts: Mapping[str, str | None], plugins: Plugins) -> Iterator[ConfigKey]:
        prefix, group, base = self.prefix(name), f"{self.group}: {name}", SIMPLE_NAMES[self.kind]
        plugin, error = _find(
            plugins, self.kind, texts.get(f"{prefix}type"), texts.get(f"{prefix}plugin.version")
        )
        version = plugin.version if plugin else None
        yield ConfigKey(
            f"{prefix}type",
            ConfigType.CLASS,
            None,
            _TypeCheck(ClassOf(plugins, self.kind), lambda: _check_use(prefix, texts), error, base),
            Importance.HIGH,
            f"Class of the {base.lower()} '{name}'.",
            required=True,
            group=group,
            order=0,
            width=Width.LONG,
            display_name=f"{base} type for {name}",
            recommender=Choices([plugin.class_name for plugin in plugins.all(self.kind)]),
            find_class=plugins.class_named,
        )
        yield ConfigKey(
            f"{prefix}plugin.version",
            ConfigType.STRING,
            version,
            VersionSpec(),
            Importance.HIGH,
            f"Version of the {base.lower()} '{name}', or a range of versions.",
            group=group,
            order=1,
            width=Width.LONG,
            display_name=f"{base} version for {name}",
            recommender=Choices([version] if version else []),
        )
        if plugin is not None and error is None:
            # The keys of all transformations mask keys of this one that have the same name.
            keys = ConfigDef((*definition_of(plugin).values(), *self.own_keys))
            yield from embedded(prefix, group, 2, keys)


TRANSFORM_CHAIN = Chain(TRANSFORMS, PluginType.TRANSFORMATION, "Transforms", _OF_ALL_TRANSFORMATIONS)
PREDICATE_CHAIN = Chain(PREDICATES, PluginType.PREDICATE, "Predicates")


def definition_of(plugin: Plugin) -> ConfigDef:
    """The keys that the class of a plugin declares. Raises ConnectException if they are no ConfigDef."""
    definition = getattr(plugin.load(), "config_def", None)
    if not isinstance(definition, ConfigDef):
        raise ConnectException(f"{plugin.class_name}.config() must return a ConfigDef that is not null.")
    return definition


def _find(
    plugins: Plugins, kind: PluginType, name: str | None, version: str | None
) -> tuple[Plugin | None, str | None]:
    """The plugin of a name, and the error of its version. An unknown name is no error here, because the validator
    reports it."""
    try:
        plugin = plugins.find(trim(name or ""), kind)
    except ConnectException:
        return None, None
    try:
        return plugins.find(plugin.class_name, kind, version=version), None
    except (VersionNotFound, InvalidVersion) as error:
        return plugin, str(error)


def _check_use(prefix: str, texts: Mapping[str, str | None]) -> None:
    negate, predicate = f"{prefix}{NEGATE}", f"{prefix}{PREDICATE}"
    if prefix.startswith(f"{TRANSFORMS}.") and negate in texts and predicate not in texts:
        raise ConfigError(
            f"Config '{negate}' was provided but there is no config '{predicate}' defining a predicate to be negated."
        )


@dataclass(frozen=True, slots=True)
class _TypeCheck:
    """Checks the class of a transformation or a predicate. `error` is that of its version."""

    class_check: ClassOf
    use_check: Callable[[], None]
    error: str | None
    base: str

    def check(self, key: str, value: ConfigValue) -> None:
        self.use_check()
        self.class_check.check(key, value)
        if self.error is not None:
            raise invalid_value(key, value, f"Error getting config definition from {self.base}: {self.error}")

    def __str__(self) -> str:
        return f"a class of a {self.base.lower()}"
