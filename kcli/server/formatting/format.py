"""Formats log directories (KIP-631, KIP-853): gives each directory its ids, and writes the first metadata of a new
cluster.

Every directory gets `meta.properties` and `bootstrap.checkpoint`. If the voters are dynamic, the metadata directory
also gets the snapshot 0-0 with the first voters. This module serves `kcli storage format` and the first `kcli
server-start` of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.config.broker import BrokerConfig
from kcli.config.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SCRAM_SUPPORTED_FROM,
    MetadataVersion,
    effective_levels,
    metadata_version,
)
from kcli.controller.bootstrap import (
    BOOTSTRAP_FILE,
    bootstrap_records,
    encode_bootstrap,
    encode_voters_snapshot,
)
from kcli.errors import StorageError
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.addresses import Address
from kcli.model.ids import FIRST_LEADER_EPOCH, FIRST_OFFSET
from kcli.model.java_order import copied_hash_order, hash_order
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.uuids import uuid_to_text
from kcli.protocol.records.metadata import UserScramCredentialRecord
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk, make_durable_dir, replace_file
from kcli.runtime.rng import Rng
from kcli.storage.meta_properties import (
    META_PROPERTIES_FILE,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)

FIRST_SNAPSHOT = SnapshotId(FIRST_OFFSET, FIRST_LEADER_EPOCH)


class FormatError(Exception):
    """Raised if formatting is refused. `str()` returns the error text of Kafka's tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    """The arguments of `format`.

    `voters` are the first controllers of a dynamic quorum. If this node is a voter, the node's entry has the id of the
    node's directory. `dynamic_quorum` is True for a dynamic quorum, even if the voters are not known yet
    (`--no-initial-controllers`).
    """

    cluster_id: str
    release: MetadataVersion | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    scram: Sequence[UserScramCredentialRecord] = ()
    voters: VoterSet | None = None
    dynamic_quorum: bool = False
    ignore_formatted: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """The clock, disk and random numbers that formatting uses."""

    disk: Disk
    clock: Clock
    rng: Rng


def format_directories(
    config: BrokerConfig, request: FormatRequest, machine: Machine, say: Callable[[str], None]
) -> None:
    """Formats the directories that are not formatted yet. `say` is called with each line that Kafka's tool prints.

    Raises FormatError or FeatureError if the request is refused. Raises StorageError if a directory belongs to another
    cluster or node, and OSError if a directory cannot be written.
    """
    levels = effective_levels(
        request.features,
        request.release,
        dynamic_quorum=request.dynamic_quorum,
        unstable=config.boolean("unstable.feature.versions.enable"),
    )
    version = metadata_version(levels[METADATA_VERSION])
    if request.scram and version < SCRAM_SUPPORTED_FROM:
        raise FormatError(f"SCRAM is only supported in metadata.version {SCRAM_SUPPORTED_FROM} or later.")
    survey = survey_directories(config.all_dirs, machine.disk)
    survey.check_identity(cluster_id=request.cluster_id, node_id=config.node_id)
    _check_formatted(survey, request)
    for path in sorted(survey.unreadable):
        say(f"I/O error trying to read log directory {path}. Ignoring...")
    if not survey.empty:
        if not survey.formatted:
            raise FormatError("No available log directories to format.")
        say("All of the log directories are already formatted.")
        return
    for path in hash_order(survey.empty):
        say(f"Formatting {_kind(path, config, request)} {path} with {METADATA_VERSION} {version}.")
        _format_directory(path, config, request, machine, levels)


def standalone_voters(config: BrokerConfig, rng: Rng) -> VoterSet:
    """This node as the only voter, with a new directory id."""
    listener = config.controller_listeners[0]
    advertised = next(
        (item for item in config.all_advertised_listeners if item.name == listener.name), listener
    )
    endpoint = {listener.name: Address(advertised.host or "localhost", advertised.port)}
    return VoterSet((Voter(ReplicaKey(config.node_id, rng.uuid()), endpoint),))


def ensure_formatted(config: BrokerConfig, machine: Machine, say: Callable[[str], None]) -> str:
    """Returns the cluster id of this node's directories. If all directories are new and empty, formats them first.

    Formats only if this node is the only node of a new cluster. (A node that joins a cluster needs the id of the
    cluster.) Raises StorageError if the directories have different ids, or if an administrator must format them. If
    only some directories are empty, it also raises StorageError, because an empty directory may be the mount point of a
    missing disk.
    """
    survey = survey_directories(config.all_dirs, machine.disk)
    if survey.formatted:
        survey.check_identity(cluster_id=None, node_id=config.node_id)
        for path in survey.empty:
            raise StorageError(
                f"No `meta.properties` found in {path} (have you run `kcli storage format --ignore-formatted` to "
                "format the directory?)"
            )
        return survey.cluster_id or ""
    if (failed := survey.unreadable.get(config.metadata_log_dir)) is not None:
        raise StorageError(
            f"Encountered I/O error in metadata log directory {config.metadata_log_dir}. Cannot continue. "
            f"{config.metadata_log_dir} cannot be read: {failed}"
        )
    if (reason := _why_not_new(config, survey, machine.disk)) is not None:
        raise StorageError(
            f"No readable meta.properties files found. {reason}: format the directories with `kcli storage format`"
        )
    cluster_id = uuid_to_text(machine.rng.uuid())
    dynamic = not config.quorum_voters
    voters = standalone_voters(config, machine.rng) if dynamic else None
    request = FormatRequest(cluster_id=cluster_id, voters=voters, dynamic_quorum=dynamic)
    say(f"The log directories are empty: formatting them for a new cluster {cluster_id}.")
    format_directories(config, request, machine, say)
    return cluster_id


def check_new_directories(config: BrokerConfig, disk: Disk) -> None:
    """Raises StorageError if a node has several directories and none is formatted.

    A node process formats only a single new directory. One of several empty directories may be the mount point of a
    missing disk, or may be unreadable only for other users.
    """
    survey = survey_directories(config.all_dirs, disk)
    if len(config.all_dirs) > 1 and not survey.formatted and not survey.unreadable:
        raise StorageError(
            f"No readable meta.properties files found. {', '.join(config.all_dirs)} are not formatted: format the "
            "directories with `kcli storage format`"
        )


def _why_not_new(config: BrokerConfig, survey: DirectorySurvey, disk: Disk) -> str | None:
    """The reason why an administrator must format the directories. None if this node can format its new directory."""
    for path in sorted(survey.unreadable):
        return f"{path} cannot be read: {survey.unreadable[path]}"
    for path in survey.empty:
        if _holds_something(path, disk):
            return f"{path} is not empty"
    alone = config.is_broker and config.is_controller and set(config.quorum_voters) <= {config.node_id}
    return None if alone else f"{config.all_dirs[0]} is empty, and this node is not alone in its cluster"


@dataclass(frozen=True, slots=True)
class DirectorySurvey:
    """The log directories by their state. `formatted` has the ids of each formatted directory. `unreadable` has the
    error of each directory that cannot be read.
    """

    formatted: Mapping[str, MetaProperties]
    empty: Sequence[str]
    unreadable: Mapping[str, Exception]

    @property
    def cluster_id(self) -> str | None:
        return next(
            (properties.cluster_id for properties in self.formatted.values() if properties.cluster_id), None
        )

    def check_identity(self, *, cluster_id: str | None, node_id: int) -> None:
        """Raises StorageError if a directory belongs to another cluster or node, or has the id of another directory."""
        expected = cluster_id
        seen: dict[object, str] = {}
        for path in sorted(self.formatted):
            properties, file = self.formatted[path], f"{path}/{META_PROPERTIES_FILE}"
            if expected is None:
                expected = properties.cluster_id
            elif properties.cluster_id is not None and properties.cluster_id != expected:
                raise StorageError(
                    f"Invalid cluster.id in: {file}. Expected {expected}, but read {properties.cluster_id}"
                )
            if properties.node_id is not None and properties.node_id != node_id:
                raise StorageError(
                    f"Stored node id {properties.node_id} doesn't match previous node id {node_id} in {file}. "
                    "If you moved your data, make sure your configured node id matches. If you intend to create "
                    "a new node, you should remove all data in your data directories."
                )
            if properties.directory_id is not None and seen.setdefault(properties.directory_id, path) != path:
                raise StorageError(
                    f"Duplicate directory ID {uuid_to_text(properties.directory_id)} found. "
                    f"It was the ID of {seen[properties.directory_id]}, but also of {path}"
                )


def survey_directories(paths: Sequence[str], disk: Disk) -> DirectorySurvey:
    formatted: dict[str, MetaProperties] = {}
    empty: list[str] = []
    unreadable: dict[str, Exception] = {}
    for path in sorted(paths):
        try:
            properties = read_meta_properties(disk, path)
        except (OSError, StorageError) as error:
            unreadable[path] = error
            continue
        if properties is None:
            empty.append(path)
        else:
            formatted[path] = properties
    return DirectorySurvey(formatted, empty, unreadable)


def _check_formatted(survey: DirectorySurvey, request: FormatRequest) -> None:
    if survey.formatted and not request.ignore_formatted:
        first = copied_hash_order(survey.formatted)[0]
        raise FormatError(
            f"Log directory {first} is already formatted. "
            "Use --ignore-formatted to ignore this directory and format the others."
        )


def _kind(path: str, config: BrokerConfig, request: FormatRequest) -> str:
    if path != config.metadata_log_dir:
        return "data directory"
    if request.voters is None:
        return "metadata directory"
    if config.node_id in request.voters.ids:
        return "dynamic metadata voter directory"
    return "dynamic metadata directory"


def _format_directory(
    path: str, config: BrokerConfig, request: FormatRequest, machine: Machine, levels: Mapping[str, int]
) -> None:
    """Formats one directory. meta.properties is written last, because a directory without it is formatted again at the
    next start."""
    disk, now_ms = machine.disk, machine.clock.now_ms()
    make_durable_dir(disk, path)
    records = bootstrap_records(levels, request.scram)
    replace_file(disk, f"{path}/{BOOTSTRAP_FILE}", encode_bootstrap(records, now_ms))
    directory_id = machine.rng.uuid()
    if path == config.metadata_log_dir and request.voters is not None:
        metadata_dir = f"{path}/{CLUSTER_METADATA_TOPIC}-0"
        disk.make_dir(metadata_dir)
        snapshot = encode_voters_snapshot(request.voters.record(), levels[KRAFT_VERSION], now_ms)
        replace_file(disk, f"{metadata_dir}/{FIRST_SNAPSHOT.file_name}", snapshot)
        own = next((voter for voter in request.voters.voters if voter.key.id == config.node_id), None)
        directory_id = own.key.directory_id if own is not None else directory_id
    properties = MetaProperties(request.cluster_id, config.node_id, directory_id)
    write_meta_properties(disk, path, properties, now_ms)


def _holds_something(path: str, disk: Disk) -> bool:
    try:
        return any(entry.name != "lost+found" for entry in disk.list_dir(path))
    except FileNotFoundError:
        return False
