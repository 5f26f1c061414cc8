"""Runs the recorded command-line stories with our nodes and our tools, and reports the steps whose output differs.

The README files beside the recordings describe them. A story is a series of steps on a new node, or on a new cluster of
three nodes. The exit code, stdout and the message lines of stderr are compared.

To print each step that differs, run: PYTHONPATH=tests python -m rigs.replay [STORY[/STEP] ...]
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcli.local_cluster.ports import free_ports
from kcli.testing.broker_process import BrokerProcess
from rigs.archives import unpack
from rigs.replay.comparison import Compared, Result, compare
from rigs.replay.programs import import_tools
from rigs.replay.stage import LOGS, Stage

__all__ = ["CLI", "CLI_2", "Compared", "Result", "compare", "replay", "stories"]

_SHARED = Path(__file__).resolve().parents[3] / ".." / "shared"
CLI = _SHARED / "golden" / "cli"
"""The recordings on one node."""
CLI_2 = _SHARED / "golden2" / "cli"
"""The recordings of security, and of clusters of three nodes."""

# The configuration of the recordings, in addition to that of BrokerProcess.
_COMMON = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "65536",
}
# The same for a node of a cluster.
_CLUSTER = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "auto.leader.rebalance.enable": "false",
}
# The timeouts of the quorum for each node, by which node 1 becomes the active controller, else node 2, else node 3.
_QUORUM_TIMEOUTS = {1: ("500", "2000"), 2: ("2500", "2000"), 3: ("5000", "5000")}


AUDIT_LOGGER = "kafka.authorizer.logger"


def stories(cli: Path = CLI) -> dict[str, dict[str, Any]]:
    """The stories of a directory by name, each with its requirements and its `steps`."""
    with open(cli / "stories.jsonl", encoding="utf-8") as lines:
        found = {story["story"]: story | {"steps": []} for story in map(json.loads, lines)}
    with open(cli / "transcripts.jsonl", encoding="utf-8") as lines:
        for step in map(json.loads, lines):
            found[step["story"]]["steps"].append(step)
    return found


def replay(story: dict[str, Any], directory: Path) -> Iterator[Compared]:
    """Runs a story in an empty directory, step by step. Skips the steps of tools that kcli does not have."""
    directory.mkdir(parents=True, exist_ok=True)
    nodes = _nodes(story, directory)
    stage = Stage(nodes, directory)
    for node in nodes.values():
        node.overrides = {key: stage.filled(value) for key, value in node.overrides.items()}
    for name, place in story.get("copy", {}).items():
        unpack(CLI_2.parent / f"{name}.tar.gz", Path(stage.filled(place)).parent)
    import_tools()
    with contextlib.ExitStack() as stack:
        stack.callback(stage.end)
        if story["broker"]:
            stage.format({node_id: _format_arguments(story, node_id) for node_id in nodes})
            stage.start(story.get("start_nodes", nodes))
        if AUDIT_LOGGER in story.get("server_note", ""):
            stage.set_log_level(AUDIT_LOGGER, "DEBUG")
        for step in story["steps"]:
            came = stage.act(step)
            if came is not None:
                yield compare(step, came)


def _nodes(story: dict[str, Any], directory: Path) -> dict[int, BrokerProcess]:
    if "cluster" not in story:
        logs = {**os.environ, "LOG_DIR": str(directory / LOGS)} if story.get("area") == "security" else None
        return {1: BrokerProcess(directory, _COMMON | story["broker_config"], environment=logs)}
    nodes = {number: BrokerProcess(directory / f"node{number}") for number in range(1, story["cluster"] + 1)}
    # The tools list nodes in the order of their ports. So the ports rise with the ids, as in the recordings.
    ports = iter(sorted(free_ports(2 * len(nodes))))
    for node in nodes.values():
        node.port, node.controller_port = next(ports), next(ports)
    servers = ",".join(f"127.0.0.1:{node.controller_port}" for node in nodes.values())
    for number, node in nodes.items():
        election_ms, fetch_ms = _QUORUM_TIMEOUTS[number]
        overrides: dict[str, str | None] = {
            "node.id": str(number),
            "controller.quorum.bootstrap.servers": servers,
            "controller.quorum.election.timeout.ms": election_ms,
            "controller.quorum.fetch.timeout.ms": fetch_ms,
            **_COMMON,
            **_CLUSTER,
            **story["broker_config"],
            **story.get("node_config", {}).get(str(number), {}),
        }
        node.overrides = {key: value for key, value in overrides.items() if value is not None}
    return nodes


def _format_arguments(story: dict[str, Any], node_id: int) -> list[str]:
    if "cluster" not in story:
        return ["--standalone", *story["format_args"]]
    arguments: list[str] = story.get("node_format_args", {}).get(str(node_id), story.get("format_args", []))
    return arguments
