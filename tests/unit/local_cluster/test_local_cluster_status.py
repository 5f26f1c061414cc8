"""The status of nodes from their processes and from the answers of servers."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from pathlib import Path

import pytest

from kcli.client.admin.cluster import ClusterDescription
from kcli.client.admin.quorum import QuorumDescription, QuorumReplica
from kcli.client.admin.topics import PartitionDescription
from kcli.client.client import Node
from kcli.local_cluster.directory import LocalCluster, create_cluster
from kcli.local_cluster.layout import plan_nodes, ports_needed
from kcli.local_cluster.ports import free_ports
from kcli.local_cluster.status import Reported, cluster_status, node_status
from kcli.local_cluster.supervisor import system_machine


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    nodes = plan_nodes(4, free_ports(ports_needed(4)), ["a", "b"])
    return create_cluster(tmp_path, nodes, {}, system_machine())


def replica(node_id: int, directory_id: uuid.UUID | None = None) -> QuorumReplica:
    return QuorumReplica(
        id=node_id, directory_id=directory_id, log_end_offset=1, last_fetch_ms=1, last_caught_up_ms=1
    )


def partition(leader: int | None, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(
        partition=0, leader=leader, leader_epoch=0, replicas=replicas, isr=isr, elr=(), last_known_elr=()
    )


REPORTED = Reported(
    brokers=ClusterDescription(
        cluster_id="c",
        controller_id=1,
        nodes=(Node(1, "h", 1), Node(2, "h", 2), Node(3, "h", 3, is_fenced=True)),
    ),
    quorum=QuorumDescription(
        leader_id=2,
        leader_epoch=1,
        high_watermark=1,
        voters=(replica(1), replica(2), replica(3)),
        observers=(replica(4),),
        endpoints={},
    ),
    partitions=(
        partition(1, (1, 2, 3), (1, 2, 3)),
        partition(1, (3, 1), (1,)),
        partition(2, (2,), (2,)),
        partition(None, (3,), (3,)),
    ),
    answering=frozenset({1, 2}),
)


def test_each_node_has_its_place_in_quorum_brokers_and_partitions(cluster: LocalCluster) -> None:
    found = [node_status(node, 100 + node.node_id, REPORTED) for node in cluster.nodes]
    assert [each.state for each in found] == ["running", "running", "starting", "starting"]
    assert [each.quorum for each in found] == ["voter", "leader", "voter", "observer"]
    assert [each.broker for each in found] == ["active", "active", "fenced", "unregistered"]
    assert [each.leads for each in found] == [2, 1, 0, 0]
    assert [each.under_replicated for each in found] == [1, 0, 1, 0], (
        "one per partition, also without a leader"
    )
    assert [each.rack for each in found] == ["a", "b", "a", "b"]
    assert [each.controller_port is not None for each in found] == [True, True, True, False]


def test_values_that_no_server_reports_are_unknown(cluster: LocalCluster) -> None:
    found = node_status(cluster.nodes[0], 7, Reported())
    assert (found.state, found.pid) == ("starting", 7)
    assert (found.quorum, found.broker, found.leads, found.under_replicated) == (None, None, None, None)


def test_a_voter_is_a_node_with_the_directory_of_the_voter(cluster: LocalCluster) -> None:
    """A node whose disk was replaced is another replica than the voter with its id (KIP-853)."""
    ids = [node.directory_id for node in cluster.nodes]
    assert REPORTED.quorum is not None and None not in ids
    quorum = dataclasses.replace(
        REPORTED.quorum,
        voters=(replica(1, uuid.uuid4()), replica(2, ids[1]), replica(3, uuid.uuid4())),
        observers=(replica(3, ids[2]), replica(4, ids[3])),
    )
    reported = dataclasses.replace(REPORTED, quorum=quorum)
    found = [node_status(node, 7, reported).quorum for node in cluster.nodes]
    assert found == [None, "leader", "observer", "observer"]


@pytest.mark.parametrize("damage", ["missing", "invalid"])
def test_a_node_without_readable_meta_properties_has_no_place(cluster: LocalCluster, damage: str) -> None:
    node = cluster.nodes[0]
    file = node.directory / "data" / "meta.properties"
    assert REPORTED.quorum is not None
    quorum = dataclasses.replace(REPORTED.quorum, voters=(replica(1, node.directory_id), replica(2)))
    reported = dataclasses.replace(REPORTED, quorum=quorum)
    assert node_status(node, 7, reported).quorum == "voter"
    if damage == "missing":
        file.unlink()
    else:
        file.write_text("")
    assert node_status(node, 7, reported).quorum is None


START = "[…] INFO When the server has started, its log is only in node-1 (…)\n"
READY = "[…] INFO [KafkaRaftServer nodeId=1] Kafka Server started (…)\n"


@pytest.mark.parametrize(
    ("output", "state"),
    [
        (None, "starting"),
        (START, "starting"),
        (START + READY + START, "starting"),
        (START + READY, "no answer"),
        (START + START + READY + "Traceback\n", "no answer"),
    ],
)
def test_a_node_that_was_ready_and_does_not_answer_is_not_starting(
    cluster: LocalCluster, output: str | None, state: str
) -> None:
    node = cluster.nodes[2]
    if output is not None:
        node.output_file.write_text(output)
    assert node_status(node, 7, REPORTED).state == state
    assert node_status(node, 7, Reported()).state == state
    assert node_status(node, None, REPORTED).state == "down"
    answering = dataclasses.replace(REPORTED, answering=frozenset({3}))
    assert node_status(node, 7, answering).state == "running"


def test_a_cluster_without_processes_is_down(cluster: LocalCluster) -> None:
    found = asyncio.run(cluster_status(cluster))
    assert [(each.node, each.state, each.pid) for each in found] == [
        (number, "down", None) for number in (1, 2, 3, 4)
    ]
