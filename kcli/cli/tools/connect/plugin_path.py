"""connect-plugin-path: lists the plugins in the directories of plugin.path (KIP-898)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.output import Output
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    Family,
    ParseError,
    Subcommand,
    flag,
    option,
)
from kcli.command.examples import SUCCESS, Example
from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.connect.config.plugin import UNDEFINED_VERSION, Plugin
from kcli.connect.config.plugin_scan import NotLoaded, locations, scan_location
from kcli.connect.config.plugin_table import own_names
from kcli.model.java_text import split_list

NONE = "N/A"
BAD_CONFIG, BAD_PATH = 2, 3
COLUMNS = (
    "pluginName",
    "firstAlias",
    "secondAlias",
    "pluginVersion",
    "pluginType",
    "isLoadable",
    "hasManifest",
    "pluginLocation",
)
NO_MANIFESTS = "There are no manifests to write, because a worker finds Python plugins without them."


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationOptions(CommonOptions):
    plugin_location: tuple[str, ...] = option(
        "A single location of plugins: a directory, a .py file, a wheel or a zip archive.", repeatable=True
    )
    plugin_path: tuple[str, ...] = option("Directories with locations, separated by commas.", repeatable=True)
    worker_config: tuple[str, ...] = option(
        "The properties of a worker, for its plugin.path.", repeatable=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions(LocationOptions):
    dry_run: bool = flag("Write nothing. There is nothing to write here anyway.")
    keep_not_found: bool = flag("Keep the manifests of missing plugins. Python plugins have no manifests.")


@dataclass(frozen=True, slots=True)
class PluginRow:
    """A plugin. `has_manifest` is True if a worker finds it by an entry point."""

    plugin_name: str
    first_alias: str
    second_alias: str
    plugin_version: str
    plugin_type: str
    is_loadable: bool
    has_manifest: bool
    plugin_location: str

    @property
    def text(self) -> str:
        return "\t".join(
            (
                self.plugin_name,
                self.first_alias,
                self.second_alias,
                self.plugin_version,
                self.plugin_type,
                str(self.is_loadable).lower(),
                str(self.has_manifest).lower(),
                self.plugin_location,
            )
        )


def list_plugins(options: LocationOptions, output: Output) -> None:
    """Runs `list`."""
    rows = [row for location in _locations(options) for row in _rows(location)]
    output.say("\t".join(COLUMNS))
    output.rows(rows, lambda row: row.text)
    loadable = [row for row in rows if row.is_loadable]
    output.say("")
    output.say(f"Total plugins:      \t{len(rows)}")
    output.say(f"Loadable plugins:   \t{len(loadable)}")
    output.say(f"Compatible plugins: \t{sum(row.has_manifest for row in loadable)}")


def sync_manifests(options: SyncOptions, output: Output) -> None:
    """Runs `sync-manifests`, which finds nothing to write."""
    found = _locations(options)
    if options.dry_run:
        output.say("Dry run started: No changes will be committed.")
    output.say("Scanning for plugins...")
    if any(_rows(location) for location in found):
        output.warn(NO_MANIFESTS)
    output.say("No changes required.")


def _locations(options: LocationOptions) -> Sequence[Path]:
    """The locations of all options, each of them once. Raises CommandError and ParseError."""
    if not (options.plugin_location or options.plugin_path or options.worker_config):
        raise ParseError("Must specify at least one --plugin-location, --plugin-path, or --worker-config")
    paths = [path for text in options.plugin_path for path in split_list(text)]
    for file in options.worker_config:
        try:
            paths += split_list(load(file).get("plugin.path", ""))
        except (OSError, ConfigError):
            raise CommandError(f"Unable to read worker config at {file}", exit_code=BAD_CONFIG) from None
    found = [Path(location).absolute() for location in options.plugin_location]
    try:
        for location in found:
            location.stat()
        found += [location for path in paths if path for location in locations(Path(path).absolute())]
    except OSError as error:
        raise CommandError(f"{error.filename or error} does not exist", exit_code=BAD_PATH) from None
    return list(dict.fromkeys(found))


def _rows(location: Path) -> Sequence[PluginRow]:
    scan = scan_location(location)
    return [*map(_loaded, scan.plugins), *_not_loaded(scan.not_loaded)]


def _loaded(plugin: Plugin) -> PluginRow:
    first, *more = own_names(plugin)
    return PluginRow(
        plugin.class_name,
        first,
        more[0] if more else NONE,
        plugin.version,
        plugin.kind.value,
        is_loadable=True,
        has_manifest=plugin.has_entry_point,
        plugin_location=plugin.location,
    )


def _not_loaded(items: Iterable[NotLoaded]) -> Iterable[PluginRow]:
    for item in items:
        yield PluginRow(
            item.name,
            NONE,
            NONE,
            UNDEFINED_VERSION,
            item.kind.value if item.kind else NONE,
            is_loadable=False,
            has_manifest=item.kind is not None,
            plugin_location=item.location,
        )


command = Command(
    name="connect-plugin-path",
    description="Manage plugins on the Connect plugin.path",
    family=Family.ARGPARSE4J,
    prog="connect-plugin-path",
    subcommands=(
        Subcommand(
            name="list",
            help="List the plugins of directories, and whether a worker can load them.",
            options=LocationOptions,
            run=list_plugins,
        ),
        Subcommand(
            name="sync-manifests",
            help="Check the manifests of plugins. Java plugins need them, but Python plugins do not.",
            options=SyncOptions,
            run=sync_manifests,
        ),
    ),
    examples=(
        Example(
            "List the plugins that a worker would find:",
            "kcli connect-plugin-path list \\\n  --worker-config config/connect-distributed.properties",
        ),
    ),
    exit_status=(
        SUCCESS,
        (1, "An argument is invalid."),
        (2, "The properties of the worker cannot be read."),
        (3, "A directory or location does not exist."),
    ),
)
