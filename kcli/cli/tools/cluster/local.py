"""`kcli cluster up`, `down` and `status`: a cluster on one machine. Kafka's kafka-cluster.sh does not have these
sub-commands."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, CommonOptions, Exclusive, Kind, Subcommand, flag, option
from kcli.model.java_text import trim

if TYPE_CHECKING:
    from kcli.local_cluster.directory import ClusterNode, LocalCluster
    from kcli.local_cluster.layout import NodeLayout
    from kcli.local_cluster.status import NodeStatus
    from kcli.local_cluster.supervisor import ClusterEvent

DEFAULT_NODES = 3
POLL_S = 0.1
HEADER = (
    "NODE",
    "STATE",
    "PID",
    "ADDRESS",
    "CONTROLLER",
    "QUORUM",
    "BROKER",
    "RACK",
    "LEADS",
    "UNDER-REPLICATED",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalClusterOptions(CommonOptions):
    dir: str = option("The directory of the cluster.", metavar="directory", required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions(LocalClusterOptions):
    nodes: int | None = option(
        f"The number of nodes of a new cluster (default: {DEFAULT_NODES}). Each node is a broker. The first "
        "nodes are also voters of the metadata quorum. A cluster of 1 or 2 nodes has 1 voter, a cluster of 3 or 4 "
        "nodes has 3, and a larger cluster has 5.",
        Kind.INTEGER,
        metavar="number",
    )
    port: int | None = option(
        "The port of the first broker. The other brokers get the next ports. The controllers get the ports after the "
        "last broker. Without this option, free ports are chosen.",
        Kind.INTEGER,
        metavar="port",
    )
    rack: str | None = option(
        "The rack of all nodes (default: the name of this machine). All nodes have the same rack, because the nodes "
        "of one machine fail together.",
        metavar="name",
    )
    racks: str | None = option("The racks that are assigned to the nodes in turn, as a,b,c.", metavar="names")
    override: tuple[str, ...] = option(
        "A property, as key=value, for server.properties of all nodes.",
        metavar="key=value",
        repeatable=True,
    )
    daemon: bool = flag(
        "Return when the cluster is ready. The parent of the nodes runs in the background, and writes its events to "
        "cluster.log."
    )
    no_restart: bool = flag("Do not restart nodes that have died.")


@dataclass(frozen=True, slots=True)
class ClusterUp:
    """A cluster that is ready: its id, the addresses for clients, and the process id of the parent of its nodes."""

    cluster_id: str
    bootstrap: str
    pid: int


@dataclass(frozen=True, slots=True)
class ClusterDown:
    """A cluster after `down`: the processes to which a stop signal was sent."""

    directory: str
    stopped: tuple[int, ...]


def up(options: UpOptions, output: Output) -> int:
    """Runs `up`: creates the cluster if the directory is empty, starts its nodes, and restarts nodes that die."""
    from kcli.local_cluster.directory import load_cluster
    from kcli.local_cluster.supervisor import start_in_background, supervise

    directory = Path(options.dir).absolute()
    _prepare(directory, options, output)
    if options.daemon:
        pid = start_in_background(directory, restarts=not options.no_restart)
        _show_ready(load_cluster(directory), pid, output)
        return 0

    def report(event: ClusterEvent) -> None:
        output.row(event, lambda event: event.line())
        sys.stdout.flush()

    def ready(cluster: LocalCluster) -> None:
        if output.is_text:  # the other formats have the event with the addresses
            _show_ready(cluster, os.getpid(), output)
            sys.stdout.flush()

    return supervise(directory, report, restarts=not options.no_restart, when_ready=ready)


def down(options: LocalClusterOptions, output: Output) -> None:
    """Runs `down`: stops the parent, which stops its nodes. Then stops nodes that run without a parent."""
    cluster = _cluster(options)
    stopped = []
    parent = cluster.parent_pid
    if parent is not None:
        _signal(parent)
        stopped.append(parent)
        while cluster.parent_pid == parent:
            time.sleep(POLL_S)
    stopped += _stop_nodes(cluster)
    text = f"The cluster in {cluster.directory} has stopped."
    if not stopped:
        text = f"The cluster in {cluster.directory} was not running."
    output.row(ClusterDown(str(cluster.directory), tuple(stopped)), text)


async def status(options: LocalClusterOptions, output: Output) -> int:
    """Runs `status`. Returns 1 if a node does not serve clients."""
    from kcli.local_cluster.status import RUNNING, cluster_status

    logging.getLogger("kcli.client").setLevel(logging.ERROR)  # the table tells which nodes do not answer
    cluster = _cluster(options)
    rows = await cluster_status(cluster)
    table = [HEADER, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    output.say(lines[0])
    for row, line in zip(rows, lines[1:], strict=True):
        output.row(row, line)
    for line in _summary(cluster, rows):
        output.say(line)
    return 0 if all(row.state == RUNNING for row in rows) else 1


def _cluster(options: LocalClusterOptions) -> LocalCluster:
    from kcli.local_cluster.directory import load_cluster

    return load_cluster(Path(options.dir).absolute())


def _prepare(directory: Path, options: UpOptions, output: Output) -> None:
    """Creates a cluster in an empty directory. Checks that the options agree with an existing cluster."""
    from kcli.local_cluster.directory import (
        check_agreement,
        create_cluster,
        exists,
        held_by_this_process,
        load_cluster,
    )
    from kcli.local_cluster.layout import voters_of
    from kcli.local_cluster.supervisor import system_machine

    overrides = _overrides(options.override)
    machine = system_machine()
    with held_by_this_process(directory, machine):
        if exists(directory):
            cluster = load_cluster(directory)
            check_agreement(cluster, options.nodes, _wanted(options, len(cluster.nodes), overrides))
            return
        nodes = _new_nodes(options)
        cluster = create_cluster(directory, nodes, overrides, machine)
    output.say(
        f"Created a cluster of {len(nodes)} nodes in {directory}, {voters_of(len(nodes))} of them voters."
    )


def _new_nodes(options: UpOptions) -> Sequence[NodeLayout]:
    from kcli.local_cluster.layout import (
        ClusterError,
        check_nodes,
        consecutive_ports,
        plan_nodes,
        ports_needed,
    )
    from kcli.local_cluster.ports import free_ports, is_free

    count = options.nodes if options.nodes is not None else DEFAULT_NODES
    check_nodes(count)
    if options.port is None:
        return plan_nodes(count, free_ports(ports_needed(count)), _racks(options))
    ports = consecutive_ports(options.port, count)
    taken = [str(port) for port in ports if not is_free(port)]
    if taken:
        raise ClusterError(
            f"--port {options.port}: the ports {ports[0]} to {ports[-1]} are needed, and other programs listen on "
            f"{', '.join(taken)}"
        )
    return plan_nodes(count, ports, _racks(options))


def _wanted(options: UpOptions, count: int, overrides: Mapping[str, str]) -> Mapping[int, Mapping[str, str]]:
    """Returns the properties that the options set, for each node. The caller compares them with an existing cluster."""
    from kcli.local_cluster.layout import consecutive_ports, node_properties, plan_nodes, ports_needed

    ports = (
        consecutive_ports(options.port, count)
        if options.port is not None
        else range(1, ports_needed(count) + 1)
    )
    nodes = plan_nodes(count, ports, _racks(options))
    keys = ["listeners"] if options.port is not None else []
    if options.rack is not None or options.racks is not None:
        keys.append("broker.rack")
    return {
        node.node_id: {key: node_properties(node, nodes, "")[key] for key in keys} | dict(overrides)
        for node in nodes
    }


def _racks(options: UpOptions) -> Sequence[str]:
    if options.racks is not None:
        return [trim(name) for name in options.racks.split(",")]
    return [options.rack if options.rack is not None else socket.gethostname()]


def _overrides(texts: Sequence[str]) -> dict[str, str]:
    overrides = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not trim(name):
            raise CommandError(f"--override {text}: expected key=value")
        overrides[trim(name)] = trim(value)
    return overrides


def _show_ready(cluster: LocalCluster, pid: int, output: Output) -> None:
    text = (
        f"The cluster is ready. Its parent is process {pid}. Clients connect with:\n"
        f"  --bootstrap-server {cluster.bootstrap}"
    )
    output.row(ClusterUp(cluster.cluster_id, cluster.bootstrap, pid), text)


def _stop_nodes(cluster: LocalCluster) -> list[int]:
    """Stops nodes that run without a parent. Returns their processes."""
    from kcli.local_cluster.stopping import RollingStop, StoppableNode

    def stoppable(node: ClusterNode, pid: int) -> StoppableNode:
        return StoppableNode(
            node.node_id,
            node.config.is_controller,
            is_alive=lambda: node.pid == pid,
            send=lambda number: _signal(pid, number),
        )

    running = [(node, pid) for node in cluster.nodes if (pid := node.pid) is not None]
    voters = sum(node.config.is_controller for node in cluster.nodes)
    RollingStop(voters, lambda _node_id, _event: None).stop([stoppable(node, pid) for node, pid in running])
    return [pid for _, pid in running]


def _signal(pid: int, number: signal.Signals = signal.SIGTERM) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has already ended
    except PermissionError:
        raise CommandError(f"not permitted to stop process {pid}: it belongs to another user") from None


def _cells(row: NodeStatus) -> tuple[str, ...]:
    values = (
        row.node, row.state, row.pid, row.address, row.controller_port, row.quorum, row.broker, row.rack, row.leads,
        row.under_replicated,
    )  # fmt: skip
    return tuple("-" if value is None else str(value) for value in values)


def _summary(cluster: LocalCluster, rows: Sequence[NodeStatus]) -> list[str]:
    from kcli.local_cluster.status import ACTIVE, FENCED, LEADER, RUNNING

    leader = next((f"node {row.node}" for row in rows if row.quorum == LEADER), "unknown")
    brokers = [row.broker for row in rows]
    counts = [row.under_replicated for row in rows if row.under_replicated is not None]
    parent = cluster.parent_pid
    return [
        "",
        f"Cluster:    {cluster.cluster_id}, {sum(row.state == RUNNING for row in rows)} of {len(rows)} nodes running",
        f"Parent:     {'none' if parent is None else f'process {parent}'}",
        f"Quorum:     leader {leader}",
        f"Brokers:    {brokers.count(ACTIVE)} active, {brokers.count(FENCED)} fenced",
        f"Partitions: {sum(counts) if counts else 'unknown'} under-replicated",
        f"Clients:    --bootstrap-server {cluster.bootstrap}",
    ]


LOCAL_SUBCOMMANDS = (
    Subcommand(
        name="up",
        help="Start a cluster on this machine. A new cluster is created if the directory is empty.",
        options=UpOptions,
        run=up,
        exclusive=(Exclusive(names=("rack", "racks")),),
        is_kafkas=False,
    ),
    Subcommand(
        name="down",
        help="Stop the cluster of a directory, one node after another. The data stays on disk.",
        options=LocalClusterOptions,
        run=down,
        is_kafkas=False,
    ),
    Subcommand(
        name="status",
        help="Show the nodes of the cluster of a directory. The exit code is 1 if a node does not serve clients.",
        options=LocalClusterOptions,
        run=status,
        is_kafkas=False,
    ),
)
