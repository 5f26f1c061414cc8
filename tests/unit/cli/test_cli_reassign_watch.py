"""`kcli reassign-partitions --verify --watch`, against a scripted cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.messages import list_partition_reassignments as messages
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import Kcli, ScriptedCluster

MOVES = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}


@pytest.fixture
def moves(cluster: ScriptedCluster, tmp_path: Path) -> Path:
    """The file of a move that is done at the third look."""
    moving = messages.OngoingPartitionReassignment(partition_index=0, replicas=(1, 2), adding_replicas=(2,))
    answers = [
        messages.ListPartitionReassignmentsResponse(
            topics=(messages.OngoingTopicReassignment(name="t", partitions=(moving,)),)
        )
    ] * 2

    def running(request: Any, version: int) -> messages.ListPartitionReassignmentsResponse:
        return answers.pop() if answers else messages.ListPartitionReassignmentsResponse()

    cluster.server.script = {**cluster.server.script, ApiKey.LIST_PARTITION_REASSIGNMENTS: running}
    path = tmp_path / "moves.json"
    path.write_text(json.dumps(MOVES))
    return path


def test_watch_ends_when_all_moves_are_done(kcli: Kcli, cluster: ScriptedCluster, moves: Path) -> None:
    words = ("--verify", "--watch", "0.1", "--preserve-throttles", "--reassignment-json-file", str(moves))
    done = kcli("reassign-partitions", *words)
    shown = [line for line in done.out.splitlines() if line.startswith("Reassignment of")]
    assert done.code == 0
    assert shown == [
        "Reassignment of partition t-0 is still in progress.",
        "Reassignment of partition t-0 is still in progress.",
        "Reassignment of partition t-0 is completed.",
    ]
    assert len(cluster.server.sent(ApiKey.LIST_PARTITION_REASSIGNMENTS)) == 3


def test_watch_is_only_for_verify(kcli: Kcli) -> None:
    done = kcli("reassign-partitions", "--list", "--watch")
    assert done.code == 1
    assert 'Option "[watch]" can\'t be used with action "[list]"' in done.err
