"""The table of plugins: by class name, alias and version."""

from __future__ import annotations

import difflib
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kcli.connect.config.foreign import replacement
from kcli.connect.config.plugin import CONNECTORS, Plugin, PluginType, VersionNotFound
from kcli.connect.config.plugin_scan import NotLoaded, Scan, locations, scan_installed, scan_location
from kcli.connect.config.versions import required_range
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger(__name__)
_PRUNED = {
    PluginType.SINK: "Connector",
    PluginType.SOURCE: "Connector",
    PluginType.TRANSFORMATION: "Transformation",
    PluginType.PREDICATE: "Predicate",
    PluginType.CONVERTER: "Converter",
    PluginType.HEADER_CONVERTER: "HeaderConverter",
}
"""The end of a simple class name that an alias leaves out."""

_KINDS = list(PluginType)
NAME_MAX = 300
"""The characters of an unknown name that are compared with other names, because the comparison takes long."""
_NEAR = 0.75
"""The similarity of names from which a name is probably a mistyped one."""


class PluginTable:
    """All plugins of a worker."""

    def __init__(self, scans: Iterable[Scan]) -> None:
        scans = list(scans)
        self.not_loaded: Sequence[NotLoaded] = [item for scan in scans for item in scan.not_loaded]
        self._plugins = _with_aliases(_unique(plugin for scan in scans for plugin in scan.plugins))
        self._by_name: dict[str, list[Plugin]] = defaultdict(list)
        for plugin in self._plugins:
            for name in {plugin.class_name, plugin.python_name.replace(":", "."), *plugin.aliases}:
                self._by_name[name].append(plugin)

    def all(self, *kinds: PluginType) -> Sequence[Plugin]:
        """The plugins of these kinds, by kind and name. Without kinds: all plugins."""
        return [plugin for plugin in self._plugins if not kinds or plugin.kind in kinds]

    def find(self, name: str, *kinds: PluginType, version: str | None = None) -> Plugin:
        """The plugin of a class name or alias. Without kinds: of any kind.

        Raises ConnectException if the name is unknown, VersionNotFound, and InvalidVersion.
        """
        plugins = [plugin for plugin in self._by_name.get(name, ()) if not kinds or plugin.kind in kinds]
        if not plugins:
            raise ConnectException(self._unknown(name, kinds))
        plugin = plugins[0]
        versions = required_range(version)
        if versions is not None and not versions.contains(plugin.version):
            raise VersionNotFound(
                f"Plugin {plugin.class_name} not found that matches the version range {versions}, "
                f"available versions: [{plugin.version}]",
                [plugin.version],
            )
        return plugin

    def class_named(self, name: str) -> str | None:
        """The full name of a plugin's class, or of an abstract class such as `…Cast` of `…Cast$Key`. None if the name
        is unknown."""
        plugins = self._by_name.get(name)
        if plugins:
            return plugins[0].class_name
        return name if any(plugin.class_name.startswith(f"{name}$") for plugin in self._plugins) else None

    def _unknown(self, name: str, kinds: Sequence[PluginType]) -> str:
        """Java's text. Plugins with a similar name come first, because the list may be long."""
        advice = replacement(name)
        if advice is not None:
            return advice
        base = "Connector" if not kinds or set(kinds) <= set(CONNECTORS) else _PRUNED[kinds[0]]
        plugins = self.all(*kinds)
        simple = _simple(name[-NAME_MAX:]).lower()
        names = {alias.lower(): plugin for plugin in plugins for alias in own_names(plugin)}
        near = [names[alias] for alias in difflib.get_close_matches(simple, names, n=3, cutoff=_NEAR)]
        listed = ", ".join(map(str, dict.fromkeys([*near, *plugins])))
        what = "connectors" if base == "Connector" else "plugins"
        return (
            f"Failed to find any class that implements {base} and which name matches {name}, "
            f"available {what} are: {listed}"
        )


def load_plugins(plugin_path: Sequence[str]) -> PluginTable:
    """Finds all plugins. What cannot be used is logged, because other plugins still work."""
    scans = [scan_installed()]
    for directory in plugin_path:
        try:
            scans += [scan_location(location) for location in locations(Path(directory).absolute())]
        except OSError as error:
            _log.error("Could not get listing for plugin path: %s. Ignoring. %s", directory, error)
        if directory.endswith(".jar"):
            _log.warning("%s is a Java archive. Its plugins cannot run in this worker.", directory)
    table = PluginTable(scans)
    for item in table.not_loaded:
        _log.error("Failed to load the plugin %s in %s: %s", item.name, item.location, item.reason)
    return table


def _unique(plugins: Iterable[Plugin]) -> list[Plugin]:
    """The plugins by kind and name. If a name is there twice, the first one counts."""
    unique: dict[tuple[PluginType, str], Plugin] = {}
    for plugin in plugins:
        first = unique.setdefault((plugin.kind, plugin.class_name), plugin)
        if first.python_name != plugin.python_name:
            _log.warning(
                "%s in %s is ignored: %s has it too", plugin.class_name, plugin.location, first.location
            )
    return sorted(unique.values(), key=lambda plugin: (_KINDS.index(plugin.kind), plugin.class_name))


def _with_aliases(plugins: Sequence[Plugin]) -> list[Plugin]:
    """Adds the aliases. An alias that two classes share is dropped, as in Java."""
    classes: Mapping[str, set[str]] = defaultdict(set)
    for plugin in plugins:
        for alias in own_names(plugin):
            classes[alias].add(plugin.class_name)
    return [
        replace(plugin, aliases=tuple(alias for alias in own_names(plugin) if len(classes[alias]) == 1))
        for plugin in plugins
    ]


def own_names(plugin: Plugin) -> list[str]:
    """The simple name of the class, and this name without the name of its kind.

    Both are aliases, if no other class has them.
    """
    simple = _simple(plugin.class_name)
    end = simple.rfind(_PRUNED[plugin.kind])
    return list(dict.fromkeys([simple, simple[:end] if end > 0 else simple]))


def _simple(class_name: str) -> str:
    return class_name.rpartition(".")[2].rpartition("$")[2]
