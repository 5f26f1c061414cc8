"""The metadata directories of three Kafka 4.1 nodes become a quorum here: same voters, same metadata, next epoch."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kcli.config.start_up import node_config
from kcli.metadata.image import MetadataImage
from kcli.metadata.snapshot_file import decode_snapshot, snapshot_id_of
from kcli.model.addresses import Address
from kcli.raft.voters import VoterSet, voter_set
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from rigs.kafka_directories import IDS, OtherPorts, unpacked
from rigs.loops import until

KAFKAS_EPOCH = 7


def metadata_dir(directory: Path, node_id: int) -> Path:
    return directory / f"node{node_id}" / "__cluster_metadata-0"


@pytest.fixture
def directory(golden: Path, tmp_path: Path) -> Path:
    return unpacked(golden, tmp_path)


def recorded_voters(directory: Path) -> VoterSet:
    newest = max(
        metadata_dir(directory, 2).glob("*.checkpoint"), key=lambda path: snapshot_id_of(path.name) or ()
    )
    record = decode_snapshot(newest.read_bytes(), newest.name).voters
    assert record is not None
    return voter_set(record)


async def live(directory: Path, voters: VoterSet) -> dict[int, MetadataImage]:
    """Runs the three controllers until all have the metadata of a new leader. Returns their images."""
    network, nodes = OtherPorts(), {}
    addresses: dict[int, Address] = {voter.key.id: voter.endpoints["CONTROLLER"] for voter in voters.voters}
    for node_id, address in addresses.items():
        config = node_config(
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "listeners": f"CONTROLLER://{address}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": ",".join(map(str, addresses.values())),
                "log.dirs": str(directory / f"node{node_id}"),
                "metadata.max.idle.interval.ms": "0",
            }
        )
        nodes[node_id] = Node(
            config, clock=SystemClock(), disk=SystemDisk(), network=network, rng=SystemRng()
        )
    try:
        for node in nodes.values():
            await node.start()

        def registered() -> bool:
            """Each controller has registered its new life, and every node has read it."""
            wanted = {
                node_id: node.controller.registration for node_id, node in nodes.items() if node.controller
            }
            return all(node.metadata.controllers == wanted for node in nodes.values())

        await until(registered)
        return {node_id: node.metadata for node_id, node in nodes.items()}
    finally:
        for node in nodes.values():
            await node.stop()


def test_three_directories_of_kafka_elect_a_controller_and_agree(directory: Path) -> None:
    voters = recorded_voters(directory)
    assert voters.ids == IDS
    images = asyncio.run(live(directory, voters))
    assert images[1] == images[2] == images[3]
    assert images[1].epoch > KAFKAS_EPOCH
    assert set(images[1].topics.names) >= {
        "single",
        "tx",
        "uncl",
        "__consumer_offsets",
        "__transaction_state",
    }
    assert sorted(images[1].brokers) == list(IDS)
    for node_id in IDS:
        state = json.loads((metadata_dir(directory, node_id) / "quorum-state").read_text())
        assert state["data_version"] == 1 and state["leaderEpoch"] > KAFKAS_EPOCH
