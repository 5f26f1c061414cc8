"""kafka-metadata-quorum: shows the leader and the replicas of the metadata quorum, and adds and removes voters."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.client_properties import load_properties
from kcli.cli.connect import admin
from kcli.cli.java.uuid import java_uuid
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, Exclusive, Family, Kind, Subcommand, flag, option
from kcli.cli.tools.quorum_options import QuorumOptions
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.quorum import Endpoint, QuorumDescription, QuorumReplica
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError, KcliError
from kcli.model.ids import ZERO_ID
from kcli.model.java_text import trim
from kcli.model.uuids import uuid_to_text

if TYPE_CHECKING:
    from kcli.config.broker import BrokerConfig

LABEL_COLUMNS = 24
HEADER = (
    "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOptions(QuorumOptions):
    status: bool = flag("Show a summary of the quorum.")
    replication: bool = flag("Show the log end offset and the lag of each replica.")
    human_readable: bool = flag(
        "With --replication: show how many milliseconds ago a replica fetched and caught up."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddControllerOptions(QuorumOptions):
    dry_run: bool = flag("Print what the command would do, but change nothing.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveControllerOptions(QuorumOptions):
    controller_id: int = option("The id of the controller to remove.", Kind.INTEGER, short="i", required=True)
    controller_directory_id: str = option(
        "The directory id of the controller's metadata directory.", short="d", required=True
    )
    dry_run: bool = flag("Print what the command would do, but change nothing.")


@dataclass(frozen=True, slots=True)
class VoterRow:
    id: int
    directory_id: str | None
    endpoints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The summary of the quorum. A lag time of -1 means that the lag is unknown."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    high_watermark: int
    max_follower_lag: int
    max_follower_lag_time_ms: int
    current_voters: tuple[VoterRow, ...]
    current_observers: tuple[VoterRow, ...]


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """The progress of a replica. Times are milliseconds since the epoch, or None if unknown."""

    node_id: int
    directory_id: str
    log_end_offset: int
    lag: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None
    status: str


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """A controller that was added to the voters or removed from them."""

    controller: int
    directory_id: str
    action: str
    dry_run: bool


async def describe(options: DescribeOptions, output: Output) -> None:
    """Runs `describe`."""
    if options.status and options.replication:
        raise CommandError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if options.human_readable and not options.replication:
        raise CommandError("The option --human-readable is only supported along with --replication")
    if not (options.status or options.replication):
        raise CommandError("One of --status or --replication must be specified with describe sub-command")
    try:
        async with _admin(options) as client:
            quorum = await client.describe_quorum()
            cluster_id = (await client.describe_cluster()).cluster_id if options.status else ""
    except KafkaError as error:
        raise CommandError(java_text(error)) from error
    if options.status:
        output.row(_status(cluster_id, quorum), _status_text)
        return
    rows = _replicas(quorum)
    table = [HEADER, *(_cells(row, options.human_readable) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)) for line in table
    ]
    output.say(lines[0])
    for row, line in zip(rows, lines[1:], strict=True):
        output.row(row, line)


async def add_controller(options: AddControllerOptions, output: Output) -> None:
    """Runs `add-controller`: the node that --command-config configures becomes a voter."""
    if options.command_config is None:
        raise CommandError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    config = _controller_config(options.command_config)
    directory_id = _directory_id(config)
    endpoints = [
        Endpoint(listener.name, listener.host or "localhost", listener.port)
        for listener in config.advertised_controller_listeners
    ]
    shown = f"controller {config.node_id} with directory id {uuid_to_text(directory_id)}"
    row = ControllerChange(config.node_id, uuid_to_text(directory_id), "add", options.dry_run)
    if not options.dry_run:
        try:
            async with _admin(options) as client:
                await client.add_voter(config.node_id, directory_id, endpoints)
        except KafkaError as error:
            raise CommandError(java_text(error)) from error
    done = "DRY RUN of adding" if options.dry_run else "Added"
    output.row(row, f"{done} {shown} and endpoints: {', '.join(map(str, endpoints))}")


async def remove_controller(options: RemoveControllerOptions, output: Output) -> None:
    """Runs `remove-controller`: a voter leaves the quorum."""
    if options.controller_id < 0:
        raise CommandError(f"Invalid negative --controller-id: {options.controller_id}")
    directory_id = _parsed_id(options.controller_directory_id)
    if not options.dry_run:
        try:
            async with _admin(options) as client:
                await client.remove_voter(options.controller_id, directory_id)
        except KafkaError as error:
            raise CommandError(java_text(error)) from error
    done = "DRY RUN of removing " if options.dry_run else "Removed "
    row = ControllerChange(options.controller_id, uuid_to_text(directory_id), "remove", options.dry_run)
    # The line has two spaces, as in Kafka before 4.3.
    output.row(row, f"{done} KRaft controller {row.controller} with directory id {row.directory_id}")


def _admin(options: QuorumOptions) -> AdminClient:
    _refuse_missing(options.command_config)
    return admin(options, bootstrap_controller=options.bootstrap_controller)


def _refuse_missing(config_path: str | None) -> None:
    if config_path is not None and not os.path.exists(config_path):
        raise CommandError(f"Properties file {config_path} does not exists!")


def _status(cluster_id: str, quorum: QuorumDescription) -> StatusRow:
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    lag_ms = -1
    if slowest.id == leader.id:
        lag_ms = 0
    elif leader.last_caught_up_ms is not None and slowest.last_caught_up_ms is not None:
        lag_ms = leader.last_caught_up_ms - slowest.last_caught_up_ms
    return StatusRow(
        cluster_id,
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        leader.log_end_offset - slowest.log_end_offset,
        lag_ms,
        tuple(_node(quorum, voter) for voter in quorum.voters),
        tuple(_node(quorum, observer) for observer in quorum.observers),
    )


def _leader(quorum: QuorumDescription) -> QuorumReplica:
    for voter in quorum.voters:
        if voter.id == quorum.leader_id:
            return voter
    raise CommandError(f"The leader, node {quorum.leader_id}, is not among the voters: ask again later.")


def _node(quorum: QuorumDescription, replica: QuorumReplica) -> VoterRow:
    directory_id = replica.directory_id
    return VoterRow(
        replica.id,
        None if directory_id in (None, ZERO_ID) else uuid_to_text(directory_id or ZERO_ID),
        tuple(map(str, quorum.endpoints.get(replica.id, ()))),
    )


def _status_text(row: StatusRow) -> str:
    lines = (
        ("ClusterId:", row.cluster_id),
        ("LeaderId:", row.leader_id),
        ("LeaderEpoch:", row.leader_epoch),
        ("HighWatermark:", row.high_watermark),
        ("MaxFollowerLag:", row.max_follower_lag),
        ("MaxFollowerLagTimeMs:", row.max_follower_lag_time_ms),
        ("CurrentVoters:", f"[{', '.join(map(_node_text, row.current_voters))}]"),
        ("CurrentObservers:", f"[{', '.join(map(_node_text, row.current_observers))}]"),
    )
    return "\n".join(f"{label:<{LABEL_COLUMNS}}{value}" for label, value in lines)


def _node_text(row: VoterRow) -> str:
    shown: dict[str, object] = {"id": row.id}
    if row.directory_id is not None:
        shown["directoryId"] = row.directory_id
    if row.endpoints:
        shown["endpoints"] = row.endpoints
    return json.dumps(shown)


def _replicas(quorum: QuorumDescription) -> list[ReplicaRow]:
    leader = _leader(quorum)
    followers = [voter for voter in quorum.voters if voter.id != leader.id]
    ordered = [(leader, "Leader"), *((follower, "Follower") for follower in followers)]
    ordered += [(observer, "Observer") for observer in quorum.observers]
    return [
        ReplicaRow(
            replica.id,
            uuid_to_text(replica.directory_id or ZERO_ID),
            replica.log_end_offset,
            leader.log_end_offset - replica.log_end_offset,
            replica.last_fetch_ms,
            replica.last_caught_up_ms,
            status,
        )
        for replica, status in ordered
    ]


def _cells(row: ReplicaRow, human_readable: bool) -> tuple[str, ...]:
    now_ms = int(time.time() * 1000)

    def shown(moment_ms: int | None) -> str:
        if moment_ms is None:
            return "-1"
        return f"{now_ms - moment_ms} ms ago" if human_readable else str(moment_ms)

    return (
        str(row.node_id), row.directory_id, str(row.log_end_offset), str(row.lag), shown(row.last_fetch_timestamp),
        shown(row.last_caught_up_timestamp), row.status,
    )  # fmt: skip


def _parsed_id(text: str) -> uuid.UUID:
    try:
        return java_uuid(text)
    except ValueError as error:
        raise CommandError(f"Failed to parse --controller-directory-id: {error}") from None


def _controller_config(path: str) -> BrokerConfig:
    """Returns the configuration of the node to add. Raises CommandError if the node is not a controller."""
    from kcli.config.definition import ConfigError
    from kcli.config.start_up import node_config

    _refuse_missing(path)
    properties = load_properties(path)
    if "node.id" not in properties:
        raise CommandError(
            "node.id not found in configuration file. Is this a valid controller configuration file?"
        )
    if "controller" not in [trim(role) for role in properties.get("process.roles", "").split(",")]:
        raise CommandError(
            "process.roles did not contain 'controller' in configuration file. "
            "Is this a valid controller configuration file?"
        )
    try:
        return node_config(properties)
    except ConfigError as error:
        raise CommandError(str(error)) from error


def _directory_id(config: BrokerConfig) -> uuid.UUID:
    """Returns the id of a controller's metadata directory."""
    from kcli.runtime.disk import SystemDisk
    from kcli.storage.meta_properties import read_meta_properties

    directory = config.metadata_log_dir
    try:
        properties = read_meta_properties(SystemDisk(), directory)
    except (OSError, KcliError) as error:
        raise CommandError(f"Unable to read meta.properties from {directory}: {error}") from error
    if properties is None:
        raise CommandError(f"Unable to read meta.properties from {directory}")
    if properties.directory_id is None:
        raise CommandError(f"No directory id found in {directory}/meta.properties")
    return properties.directory_id


command = Command(
    name="metadata-quorum",
    description="This tool describes kraft metadata quorum status.",
    family=Family.ARGPARSE4J,
    prog="kafka-metadata-quorum",
    help_exit=0,
    options=QuorumOptions,
    exclusive=(Exclusive(names=("bootstrap-server", "bootstrap-controller"), required=True),),
    subcommands=(
        Subcommand(
            name="describe", help="Show the quorum or its replicas.", options=DescribeOptions, run=describe
        ),
        Subcommand(
            name="add-controller",
            help="Add a controller to the voters. Give the properties file of this controller in --command-config.",
            options=AddControllerOptions,
            run=add_controller,
        ),
        Subcommand(
            name="remove-controller",
            help="Remove a voter from the quorum.",
            options=RemoveControllerOptions,
            run=remove_controller,
        ),
    ),
    examples=(
        Example(
            "Show the leader and the voters of the metadata quorum:",
            "kcli metadata-quorum --bootstrap-server localhost:9092 describe --status",
        ),
        Example(
            "Show how far each controller and broker has read the metadata log:",
            "kcli metadata-quorum --bootstrap-server localhost:9092 describe \\\n"
            "  --replication --human-readable",
        ),
    ),
    exit_status=USUAL,
)
