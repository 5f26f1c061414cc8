"""Finds plugins: built-in ones, those of installed packages, and those in the directories of plugin.path.

A directory of `plugin.path` has one *location* for each plugin package: a directory, a `.py` file, or a wheel or zip
archive. A directory that `pip install --target` has filled is a location itself. In a location, entry points name the
plugins. In a location without entry points, the classes in its modules are plugins, so that one file is enough.
All plugins share one Python process, so two locations cannot have different versions of one module.
"""

from __future__ import annotations

import inspect
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path

from kcli import KAFKA_VERSION, VERSION
from kcli.connect.config.plugin import CLASSPATH, UNDEFINED_VERSION, Plugin, PluginType, load_class
from kcli.connectors import builtin
from kcli.connectors.interface import SinkConnector, SourceConnector
from kcli.connectors.transformation import Predicate, Transformation
from kcli.formats.connect.converter import Converter, HeaderConverter

GROUPS = {
    builtin.SINK: PluginType.SINK,
    builtin.SOURCE: PluginType.SOURCE,
    builtin.TRANSFORM: PluginType.TRANSFORMATION,
    builtin.PREDICATE: PluginType.PREDICATE,
    builtin.CONVERTER: PluginType.CONVERTER,
    builtin.HEADER_CONVERTER: PluginType.HEADER_CONVERTER,
}
"""The groups of entry points."""

BASES: dict[PluginType, type] = {
    PluginType.SINK: SinkConnector,
    PluginType.SOURCE: SourceConnector,
    PluginType.TRANSFORMATION: Transformation,
    PluginType.PREDICATE: Predicate,
    PluginType.CONVERTER: Converter,
    PluginType.HEADER_CONVERTER: HeaderConverter,
}
"""The class that each kind of plugin extends."""

_ARCHIVES = (".whl", ".zip")
_KAFKA = "org.apache.kafka."


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """A plugin or a location that cannot be used, with the reason."""

    name: str
    kind: PluginType | None
    location: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    plugins: Sequence[Plugin]
    not_loaded: Sequence[NotLoaded]


def scan_installed() -> Scan:
    """The built-in plugins, and the plugins of the packages that are installed beside kcli."""
    entries = [
        _Entry(GROUPS[group], name, None, None, CLASSPATH)
        for group, names in builtin.BUILT_IN.items()
        for name in names
    ]
    entries += _entry_points(metadata.distributions(), None, CLASSPATH)
    return _loaded(entries)


def scan_location(location: Path) -> Scan:
    """The plugins of one location."""
    path = str(location.parent if _is_module(location) else location)
    entries = list(_entry_points(metadata.distributions(path=[path]), path, str(location)))
    return _loaded(entries) if entries else _scan_modules(location, path)


def locations(directory: Path) -> list[Path]:
    """The locations of one item of plugin.path. Raises FileNotFoundError."""
    if not directory.exists():
        raise FileNotFoundError(str(directory))
    if not directory.is_dir() or any(directory.glob("*.dist-info")):
        return [directory] if _is_location(directory) else []
    return sorted(child for child in directory.iterdir() if _is_location(child))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A plugin that is declared or seen, before it is imported."""

    kind: PluginType
    python_name: str
    version: str | None
    path: str | None
    location: str
    has_entry_point: bool = True


def _is_location(path: Path) -> bool:
    if path.name.startswith((".", "__")):
        return False
    return path.is_dir() or path.suffix in (*_ARCHIVES, ".py")


def _is_module(location: Path) -> bool:
    """Whether the location is a module or a package itself, so that its parent is the entry of sys.path."""
    return location.suffix == ".py" or (location / "__init__.py").is_file()


def _entry_points(
    distributions: Iterable[metadata.Distribution],
    path: str | None,
    location: str,
) -> Iterator[_Entry]:
    for distribution in distributions:
        for point in distribution.entry_points:
            if point.group in GROUPS:
                yield _Entry(GROUPS[point.group], point.value, distribution.version, path, location)


def _scan_modules(location: Path, path: str) -> Scan:
    entries: list[_Entry] = []
    not_loaded: list[NotLoaded] = []
    for module in _modules(location):
        try:
            entries += _classes_of(module, path, str(location))
        except (Exception, SystemExit) as error:
            not_loaded.append(NotLoaded(module, None, str(location), _reason(error)))
    loaded = _loaded(entries)
    return replace(loaded, not_loaded=[*loaded.not_loaded, *not_loaded])


def _modules(location: Path) -> list[str]:
    """The names of the modules and packages at the top of a location."""
    if _is_module(location):
        return [location.stem]
    if location.suffix in _ARCHIVES:
        with zipfile.ZipFile(location) as archive:
            files = [Path(name) for name in archive.namelist()]
    else:
        files = [
            file.relative_to(location) for file in (*location.glob("*.py"), *location.glob("*/__init__.py"))
        ]
    modules = {file.stem for file in files if len(file.parts) == 1 and file.suffix == ".py"}
    packages = {file.parts[0] for file in files if len(file.parts) == 2 and file.name == "__init__.py"}
    return sorted(modules | packages)


def _classes_of(name: str, path: str, location: str) -> Iterator[_Entry]:
    """The plugins that a module defines itself. An imported class is a plugin of another module."""
    if path not in sys.path:
        sys.path.append(path)
    module = import_module(name)
    file = getattr(module, "__file__", None) or ""
    if not file.startswith(path):
        raise ImportError(f"the module {name} is already loaded from {file or 'the Python library'}")
    for attribute, value in vars(module).items():
        if (
            not inspect.isclass(value)
            or value.__module__.partition(".")[0] != name
            or attribute.startswith("_")
        ):
            continue
        for kind, base in BASES.items():
            if issubclass(value, base) and hasattr(value, "config_def"):
                yield _Entry(kind, f"{name}:{attribute}", None, path, location, has_entry_point=False)


def _loaded(entries: Sequence[_Entry]) -> Scan:
    plugins: list[Plugin] = []
    not_loaded: list[NotLoaded] = []
    for entry in entries:
        try:
            plugins += _plugins_of(entry)
        except (Exception, SystemExit) as error:
            not_loaded.append(NotLoaded(entry.python_name, entry.kind, entry.location, _reason(error)))
    return Scan(plugins, not_loaded)


def _plugins_of(entry: _Entry) -> list[Plugin]:
    """One plugin for each name of the class. `aliases` are set later, because they depend on all plugins."""
    loaded = load_class(entry.python_name, entry.path)
    base = BASES[entry.kind]
    if not (inspect.isclass(loaded) and issubclass(loaded, base)):
        raise TypeError(f"{entry.python_name} is no subclass of {base.__name__}")
    dotted = entry.python_name.replace(":", ".")
    java_classes = getattr(loaded, "java_classes", ()) or (getattr(loaded, "java_class", None) or dotted,)
    return [
        Plugin(
            class_name=name,
            python_name=entry.python_name,
            kind=entry.kind,
            version=getattr(loaded, "version", None) or entry.version or _own_version(entry, name),
            aliases=(),
            path=entry.path,
            location=entry.location,
            has_entry_point=entry.has_entry_point,
        )
        for name in java_classes
    ]


def _own_version(entry: _Entry, class_name: str) -> str:
    """The version of a plugin of kcli. A class that replaces one of Kafka has the version of Kafka."""
    if entry.python_name.partition(".")[0] != "kcli":
        return UNDEFINED_VERSION
    return KAFKA_VERSION if class_name.startswith(_KAFKA) else VERSION


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
