"""The connectors of MirrorMaker in real workers between two brokers."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rigs.golden3 import recording, steps
from rigs.mirror_replay import Replay, differences

CONFIG = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:{APORT}
B.bootstrap.servers = 127.0.0.1:{BPORT}
A.consumer.isolation.level = read_committed
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
B.offset.flush.interval.ms = 500
A->B.enabled = true
B->A.emit.heartbeats.enabled = false
"""


def records(*values: str) -> list[dict[str, Any]]:
    return [
        {"key": f"k{value}", "value": value, "timestamp": 1_760_000_000_000 + nth, "headers": [["h", value]]}
        for nth, value in enumerate(values)
    ]


def produce(values: list[str], partition: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "action": "produce", "cluster": "A", "topic": "t", "partition": partition,
        "records": records(*values), **more,
    }  # fmt: skip


def wait(what: str, topic: str, **more: Any) -> dict[str, Any]:
    return {"action": "wait", "what": what, "cluster": "B", "topic": topic, "reached": True, **more}


def test_topics_and_groups_are_copied(tmp_path: Path) -> None:
    """Records with their keys, headers and timestamps, no aborted ones, new partitions, and the offsets of a group."""
    with ExitStack() as stack:
        world = Replay(folders(tmp_path), {}, stack)
        before = [
            {"action": "create", "cluster": "A", "topic": "t", "partitions": 2, "configs": {"retention.ms": "-1"}},
            produce(["a", "b"], codec="lz4"),
            produce(["lost"], txn="x", end="abort"),
            produce(["c"], txn="y", end="commit"),
            produce(["other"], partition=1),
            {"action": "commit", "cluster": "A", "group": "g", "offsets": [["t", 0, 5, "m"], ["t", 1, 0, ""]]},
        ]  # fmt: skip
        for step in before:
            world.run(step)
        world.run({"action": "mm2", "do": "start", "config": CONFIG})
        world.run(wait("records", "A.t", count=4))
        for step in ({"action": "grow", "cluster": "A", "topic": "t", "partitions": 3}, produce(["new"], 2)):
            world.run(step)
        world.run(wait("records", "A.t", count=5))
        parts = world.records("B", "A.t")
        assert [[record["value"] for record in part["records"]] for part in parts] == [
            ["a", "b", "c"],
            ["other"],
            ["new"],
        ]
        source = [record for part in world.records("A", "t") for record in part["records"]]
        for copy, original in zip(
            [record for part in parts for record in part["records"]], source, strict=True
        ):
            assert {**copy, "offset": 0} == {**original, "offset": 0}
        # Offset 5 is the end of the source, after an aborted record and two markers.
        world.run(wait("checkpoint", "A.checkpoints.internal", group="g", tp="A.t-0", upstream=5))
        world.run(wait("group", "", group="g", tp="A.t-0", offset=3))
        topic = world.run({"action": "observe", "cluster": "B", "what": ["topics"]})["topics"]["A.t"]
        assert (topic["partitions"], topic["configs"]) == (3, {"retention.ms": "-1"})


SCENARIOS = (
    "one-way", "committed-only", "both-ways", "identity", "separator", "filters", "syncs-on-target", "restart", "acls",
)  # fmt: skip
"""The others need command-line tools or the driver."""


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_recorded_scenario(name: str, tmp_path: Path) -> None:
    scenarios = recording("mirror/scenarios.jsonl").read_text(encoding="utf-8").splitlines()
    scenario = next(entry for entry in map(json.loads, scenarios) if entry["name"] == name)
    lines: list[str] = []
    with ExitStack() as stack:
        world = Replay(folders(tmp_path), scenario.get("broker_config") or {}, stack)
        for step in steps(recording("mirror/mirror.jsonl")):
            if step["id"].startswith(f"{name}/"):
                outcome = world.run(step)
                if step["action"] == "observe":
                    for kind, actual in outcome.items():
                        lines += differences(f"{step['id']}/{kind}", actual, recorded(step, kind, actual))
    assert not lines


def recorded(step: dict[str, Any], kind: str, actual: dict[str, Any]) -> Any:
    expected = step["outcome"][kind]
    return {topic: expected[topic] for topic in actual} if kind == "last" else expected


def folders(path: Path) -> Path:
    for name in ("A", "B"):
        (path / name).mkdir()
    return path
