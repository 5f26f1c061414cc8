"""kafka-storage: formats log directories, and shows their state and the features of releases."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from kcli.cli.output import Output
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    Exclusive,
    Family,
    Subcommand,
    flag,
    option,
)
from kcli.cli.tools.storage.features import (
    FeatureDependenciesOptions,
    VersionMappingOptions,
    feature_dependencies,
    version_mapping,
)
from kcli.command.examples import INTERRUPTED, SUCCESS, Example

if TYPE_CHECKING:
    from kcli.config.broker import BrokerConfig
    from kcli.raft.voters import VoterSet
    from kcli.server.formatting.format import FormatRequest, Machine
    from kcli.storage.meta_properties import MetaProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoOptions(CommonOptions):
    config: str = option("The configuration file of the node.", short="c", required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions(CommonOptions):
    cluster_id: str = option("The id of the cluster. random-uuid prints a new id.", short="t", required=True)
    config: str = option("The configuration file of the node.", short="c", required=True)
    add_scram: tuple[str, ...] = option(
        "A SCRAM credential to store in the new cluster, such as "
        "'SCRAM-SHA-256=[name=alice,password=alice-secret]'.",
        short="S",
        repeatable=True,
    )
    ignore_formatted: bool = flag(
        "Skip directories that are already formatted, and format the others.", short="g"
    )
    release_version: str | None = option(
        "The release that sets the feature levels of the new cluster.", short="r"
    )
    feature: tuple[str, ...] = option(
        "The level of a feature in the new cluster, as name=level.", short="f", repeatable=True
    )
    standalone: bool = flag("This controller is the only voter of a new quorum.", short="s")
    no_initial_controllers: bool = flag(
        "This controller joins a quorum that other controllers form.", short="N"
    )
    initial_controllers: str | None = option(
        "The first controllers of the quorum, as id@host:port:directory-id, separated by commas. Use the "
        "same value on each of these controllers.",
        short="I",
    )


@dataclass(frozen=True, slots=True)
class Uuid:
    uuid: str


@dataclass(frozen=True, slots=True)
class StorageInfo:
    """The result of `info`: existing directories, the identity in the first formatted directory, and problems."""

    directories: tuple[str, ...]
    metadata: dict[str, str]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FormattedDirectory:
    """A directory after `format`: its identity, and whether the directory was formatted now or earlier."""

    directory: str
    formatted_now: bool
    metadata: dict[str, str]


def random_uuid(options: CommonOptions, output: Output) -> int:
    from kcli.model.uuids import uuid_to_text
    from kcli.runtime.rng import SystemRng

    output.row(Uuid(uuid_to_text(SystemRng().uuid())), lambda row: row.uuid)
    return 0


def info(options: InfoOptions, output: Output) -> int:
    config = _config(options.config)
    details = storage_info(config)
    if output.is_text:
        sys.stdout.write(_info_text(details))
    else:
        output.row(details, "")
    return 1 if details.problems else 0


def format_(options: FormatOptions, output: Output) -> int:
    from kcli.config.features import FeatureError, UnknownLevelError
    from kcli.errors import StorageError
    from kcli.server.formatting.format import FormatError, Machine, format_directories, survey_directories

    config = _config(options.config)
    machine = _machine(Machine)
    before = survey_directories(config.all_dirs, machine.disk).formatted
    try:
        request = _request(options, config, machine)
        format_directories(config, request, machine, output.say)
    except UnknownLevelError as error:
        _uncaught("java.lang.IllegalArgumentException", error)
    except (FormatError, FeatureError) as error:
        raise CommandError(str(error)) from None
    except StorageError as error:
        _uncaught("java.lang.RuntimeException", error)
    except OSError as error:
        where = error.filename or f"in {', '.join(config.all_dirs)}"
        raise CommandError(f"Error while writing meta.properties file {where}: {error.strerror}") from None
    if not output.is_text:
        for path, properties in survey_directories(config.all_dirs, machine.disk).formatted.items():
            output.row(FormattedDirectory(path, path not in before, _fields(properties)), "")
    return 0


def storage_info(config: BrokerConfig) -> StorageInfo:
    """Reads the state of every log directory of a node, in the order of their names."""
    from kcli.errors import StorageError
    from kcli.runtime.disk import SystemDisk
    from kcli.storage.meta_properties import META_PROPERTIES_FILE, read_meta_properties

    disk, directories, problems = SystemDisk(), [], []
    first: MetaProperties | None = None
    for directory in sorted(config.all_dirs):
        if not os.path.isdir(directory):
            problems.append(
                f"{directory} {'is not a directory' if os.path.exists(directory) else 'does not exist'}"
            )
            continue
        directories.append(directory)
        try:
            properties = read_meta_properties(disk, directory)
        except (OSError, StorageError) as error:
            path = f"{directory}/{META_PROPERTIES_FILE}"
            problems.append(f"Error loading {path}: {str(error).removeprefix(f'{path}: ')}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = properties
        elif first.cluster_id != properties.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != properties.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    if first is not None and first.version == 0:
        problems.append(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are "
            "formatted for legacy mode."
        )
    return StorageInfo(tuple(directories), {} if first is None else _fields(first), tuple(problems))


def _fields(properties: MetaProperties) -> dict[str, str]:
    from kcli.model.uuids import uuid_to_text

    node_id = "node.id" if properties.version else "broker.id"
    directory_id = None if properties.directory_id is None else uuid_to_text(properties.directory_id)
    fields = {
        "cluster.id": properties.cluster_id,
        "directory.id": directory_id,
        node_id: None if properties.node_id is None else str(properties.node_id),
        "version": str(properties.version),
    }
    return {name: fields[name] or "" for name in sorted(fields) if fields[name] is not None}


def _info_text(details: StorageInfo) -> str:
    text = ""
    if details.directories:
        text += _listed("Found log directory:", "Found log directories:", details.directories)
    if details.metadata:
        fields = ", ".join(f"{name}={value}" for name, value in details.metadata.items())
        text += f"Found metadata: {{{fields}}}\n\n"
    if details.problems:
        text += _listed("Found problem:", "Found problems:", details.problems)
    return text


def _listed(one: str, several: str, lines: Sequence[str]) -> str:
    return "\n".join([one if len(lines) == 1 else several, *(f"  {line}" for line in lines), "", ""])


def _config(path: str) -> BrokerConfig:
    from kcli.config.definition import ConfigError
    from kcli.config.properties import load
    from kcli.config.start_up import node_config

    try:
        return node_config(load(path))
    except FileNotFoundError:
        _uncaught("java.nio.file.NoSuchFileException", path)
    except OSError as error:
        raise CommandError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except ConfigError as error:
        # Kafka's error about a missing key names no file. An error about a line has its number in both forms.
        is_shown = ":" in error.where or not is_kafkas_script() if error.where else False
        at = f" ({error.where})" if is_shown else ""
        _uncaught("org.apache.kafka.common.config.ConfigException", f"{error.message}{at}")


def _uncaught(java_class: str, message: object) -> NoReturn:
    """Raises an error with the text that the JVM prints for an uncaught exception. Scripts search for this text."""
    raise CommandError(f'Exception in thread "main" {java_class}: {message}') from None


def _machine(kind: type[Machine]) -> Machine:
    from kcli.runtime.clock import SystemClock
    from kcli.runtime.disk import SystemDisk
    from kcli.runtime.rng import SystemRng

    return kind(SystemDisk(), SystemClock(), SystemRng())


def _request(options: FormatOptions, config: BrokerConfig, machine: Machine) -> FormatRequest:
    from kcli.cli.tools.storage.features import parse_levels
    from kcli.config.features import metadata_version_of_release
    from kcli.server.formatting.format import FormatRequest
    from kcli.server.formatting.scram import parse_scram_argument

    release = options.release_version and metadata_version_of_release(options.release_version)
    voters = _voters(options, config, machine)
    return FormatRequest(
        cluster_id=options.cluster_id,
        release=release or None,
        features=parse_levels(options.feature),
        scram=tuple(parse_scram_argument(argument) for argument in options.add_scram),
        voters=voters,
        dynamic_quorum=voters is not None or options.no_initial_controllers,
        ignore_formatted=options.ignore_formatted,
    )


def _voters(options: FormatOptions, config: BrokerConfig, machine: Machine) -> VoterSet | None:
    from kcli.cli.tools.storage.voters import parse_voters
    from kcli.server.formatting.format import standalone_voters

    if options.initial_controllers is not None:
        return parse_voters(options.initial_controllers, config.controller_listener_names[0])
    if options.standalone:
        if not config.is_controller:
            raise CommandError("You can only use --standalone on a controller.")
        return standalone_voters(config, machine.rng)
    if config.is_controller and not config.quorum_voters and not options.no_initial_controllers:
        raise CommandError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


command = Command(
    name="storage",
    description="The Kafka storage tool.",
    family=Family.ARGPARSE4J,
    prog="kafka-storage",
    help_exit=0,
    file_arguments=True,
    subcommands=(
        Subcommand(
            name="info", help="Show the state of this node's log directories.", options=InfoOptions, run=info
        ),
        Subcommand(
            name="format",
            help="Format this node's log directories.",
            options=FormatOptions,
            run=format_,
            exclusive=(Exclusive(names=("standalone", "no-initial-controllers", "initial-controllers")),),
        ),
        Subcommand(
            name="version-mapping",
            help="Show the feature levels of a release.",
            options=VersionMappingOptions,
            run=version_mapping,
        ),
        Subcommand(
            name="feature-dependencies",
            help="Show which features a feature level needs.",
            options=FeatureDependenciesOptions,
            run=feature_dependencies,
        ),
        Subcommand(name="random-uuid", help="Print a random id.", options=CommonOptions, run=random_uuid),
    ),
    examples=(
        Example(
            "Print a random id for a new cluster:",
            "kcli storage random-uuid",
        ),
        Example(
            "Format the log directories of a node that is the only node of its cluster:",
            'kcli storage format --standalone -t "$(kcli storage random-uuid)" \\\n  -c server.properties',
        ),
    ),
    exit_status=(
        SUCCESS,
        (1, "The command failed, info found a problem, or the options are wrong."),
        INTERRUPTED,
    ),
)
