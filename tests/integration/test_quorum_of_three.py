"""Three controllers on real sockets: elections, fail-over, nodes that were away, and changes of the voters."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any, Self

import pytest

from kcli.client.connection import Connection
from kcli.config.start_up import node_config
from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.errors import ErrorCode, KafkaError, NotControllerException
from kcli.model.addresses import Address
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.protocol.messages import add_raft_voter as ar
from kcli.protocol.messages import describe_quorum as dq
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.protocol.messages import remove_raft_voter as rr
from kcli.protocol.messages import update_features as uf
from kcli.protocol.wire.api import ApiKey
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from kcli.server.node import Node
from kcli.testing.broker_process import free_port
from rigs.loops import PATIENCE_S, on_a_loop, until

CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"
CONFIG = "message.max.bytes"
# Short, so that an election takes less than a second, and long enough for a machine that does other things too.
TIMES_MS = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
}


class Controllers:
    """The quorum of the controllers `ids`. `dynamic`: kraft.version 1, else static voters. `overrides` are properties
    of all of them."""

    def __init__(
        self, directory: Path, ids: tuple[int, ...] = (1, 2, 3), *, dynamic: bool = True, **overrides: str
    ) -> None:
        self.directory = directory
        self.ids = ids
        self.dynamic = dynamic
        self.nodes: dict[int, Node] = {}
        self.ports = {node_id: free_port() for node_id in ids}
        self.directory_ids = {
            node_id: uuid.UUID(int=0x4000_0000_0000_8000_0000_0000_0000 + node_id) for node_id in ids
        }
        self.overrides = {key.replace("_", "."): text for key, text in overrides.items()}

    async def __aenter__(self) -> Self:
        for node_id in self.ids:
            self.format(node_id)
        await asyncio.gather(*(self.start(node_id) for node_id in self.ids))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for node_id in list(self.nodes):
            await self.kill(node_id)

    def address(self, node_id: int) -> Address:
        return Address("127.0.0.1", self.ports[node_id])

    def properties(self, node_id: int) -> dict[str, str]:
        servers = [self.address(each) for each in self.ids]
        voters = ",".join(f"{each}@{self.address(each)}" for each in self.ids)
        quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(map(str, servers))}
            if self.dynamic
            else {"controller.quorum.voters": voters}
        )
        return {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{self.address(node_id)}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / str(node_id)),
            "log.index.size.max.bytes": "65536",
            **quorum,
            **TIMES_MS,
            **self.overrides,
        }

    def voter(self, node_id: int) -> Voter:
        key = ReplicaKey(node_id, self.directory_ids[node_id])
        return Voter(key, {"CONTROLLER": self.address(node_id)})

    def format(self, node_id: int, *, initial: bool = True) -> None:
        """Formats the directory of a node. If not `initial`, the node is not one of the first voters."""
        (self.directory / str(node_id)).mkdir()
        machine = Machine(SystemDisk(), SystemClock(), SystemRng())
        first = VoterSet(tuple(self.voter(each) for each in self.ids)) if self.dynamic and initial else None
        request = FormatRequest(cluster_id=CLUSTER, voters=first, dynamic_quorum=self.dynamic)
        format_directories(node_config(self.properties(node_id)), request, machine, lambda _line: None)

    async def start(self, node_id: int) -> Node:
        node = Node(
            node_config(self.properties(node_id)),
            clock=SystemClock(),
            disk=SystemDisk(),
            network=SystemNetwork(),
            rng=SystemRng(),
        )
        await node.start()
        self.nodes[node_id] = node
        return node

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    async def kill(self, node_id: int) -> None:
        """Ends a node without a word to the others."""
        await self.nodes.pop(node_id).stop(clean=False)

    # The state of the quorum.

    @property
    def active_ids(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.controller.is_active]

    async def leader(self) -> int:
        """Waits for the active controller, and returns its id."""
        await until(lambda: self.active_ids)
        (leader,) = self.active_ids
        return leader

    async def follower(self) -> int:
        leader = await self.leader()
        return next(node_id for node_id in self.nodes if node_id != leader)

    async def write(self, value: str) -> None:
        """Commits a change of the metadata. Tries again while the controllers change."""
        resource = ia.AlterConfigsResource(
            resource_type=int(CLUSTER_DEFAULT.type),
            resource_name="",
            configs=(ia.AlterableConfig(name=CONFIG, value=value),),
        )
        request = ia.IncrementalAlterConfigsRequest(resources=(resource,))
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    node = self.nodes[await self.leader()]
                    await node.controller.send(INCREMENTAL_ALTER_CONFIGS, request)
                    return
                except KafkaError:
                    await asyncio.sleep(0.01)

    def written(self, node_id: int) -> str | None:
        """The newest change that a node has read."""
        return self.nodes[node_id].metadata.config(CLUSTER_DEFAULT).get(CONFIG)

    async def has_read(self, node_id: int, value: str) -> None:
        await until(lambda: self.written(node_id) == value)

    # Requests over the network.

    async def ask(self, node_id: int, key: ApiKey, request: object, version: int | None = None) -> Any:
        connection = await Connection.open(SystemNetwork(), self.address(node_id), "test", PATIENCE_S)
        try:
            chosen = connection.version_for(key) if version is None else version
            return await connection.request(request, key, version=chosen, timeout=PATIENCE_S)
        finally:
            connection.close()

    async def describe(self, node_id: int) -> dq.ResponsePartitionData:
        partition = dq.RequestPartitionData(partition_index=0)
        topic = dq.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        response = await self.ask(node_id, ApiKey.DESCRIBE_QUORUM, dq.DescribeQuorumRequest(topics=(topic,)))
        (row,) = response.topics[0].partitions
        assert isinstance(row, dq.ResponsePartitionData)
        return row


CHANGE = ia.IncrementalAlterConfigsRequest()


@pytest.mark.parametrize("dynamic", [True, False])
def test_three_controllers_elect_one_and_share_its_metadata(tmp_path: Path, dynamic: bool) -> None:
    async def story() -> None:
        async with Controllers(tmp_path, dynamic=dynamic) as quorum:
            leader = await quorum.leader()
            await quorum.write("1000")
            await asyncio.gather(*(quorum.has_read(node_id, "1000") for node_id in quorum.ids))
            assert {node.quorum.view.leader_id for node in quorum.nodes.values()} == {leader}

    asyncio.run(story())


@on_a_loop
async def test_another_controller_leads_when_the_leader_is_killed(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.write("1000")
        first = await quorum.leader()
        epoch = quorum.nodes[first].quorum.view.epoch
        await quorum.kill(first)
        await quorum.write("2000")
        second = await quorum.leader()
        assert second != first
        third = next(node_id for node_id in quorum.nodes if node_id != second)
        with pytest.raises(NotControllerException, match=f"appears to be node {second}"):
            await quorum.nodes[third].controller.send(INCREMENTAL_ALTER_CONFIGS, CHANGE)
        assert quorum.nodes[second].quorum.view.epoch > epoch
        await quorum.start(first)
        await quorum.has_read(first, "2000")


@on_a_loop
async def test_a_leader_that_stops_hands_over_without_an_election_timeout(tmp_path: Path) -> None:
    # With this election timeout, only a voter that hears of the stop can be elected before the test gives up.
    slow = {"controller_quorum_fetch_timeout_ms": "3600000", "controller_quorum_election_timeout_ms": "1000"}
    async with Controllers(tmp_path, **slow) as quorum:
        await quorum.write("1000")
        first = await quorum.leader()
        await quorum.stop(first)
        await quorum.write("2000")
        assert await quorum.leader() != first


@on_a_loop
async def test_a_node_that_was_away_catches_up_from_the_log(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.write("1000")
        away = await quorum.follower()
        await quorum.kill(away)
        for value in ("2000", "3000", "4000"):
            await quorum.write(value)
        await quorum.start(away)
        await quorum.has_read(away, "4000")


@on_a_loop
async def test_a_node_that_was_away_for_long_catches_up_from_a_snapshot(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.write("1000")
        away = await quorum.follower()
        await quorum.kill(away)
        await quorum.write("2000")
        leader = quorum.nodes[await quorum.leader()].quorum
        await leader.snapshotting.write_snapshot()
        leader.log.log.roll()
        leader.log.clean(retention_bytes=0, retention_ms=-1)
        leader.snapshotting.report()
        await quorum.write("3000")
        heard = []
        node = await quorum.start(away)
        node.loader.subscribe(lambda delta, _image: heard.extend(delta.configs_changed))
        await quorum.has_read(away, "3000")
        assert node.quorum.log.log.log_start_offset == leader.log.log.log_start_offset > 0
        assert heard, "listeners get the changes of the snapshot"


@on_a_loop
async def test_describe_quorum_shows_how_far_each_voter_is(tmp_path: Path) -> None:
    async with Controllers(tmp_path, metadata_max_idle_interval_ms="0") as quorum:
        await quorum.write("1000")
        leader, follower = await quorum.leader(), await quorum.follower()
        node = quorum.nodes[leader]
        await until(
            lambda: len(node.metadata.controllers) == 3
        )  # the last records that an idle quorum writes

        async def all_there() -> bool:
            row = await quorum.describe(leader)
            return {voter.log_end_offset for voter in row.current_voters} == {row.high_watermark}

        await until(all_there)
        row = await quorum.describe(leader)
        assert (row.leader_id, row.high_watermark) == (leader, node.quorum.view.log_end_offset)
        assert {
            voter.replica_id: voter.replica_directory_id for voter in row.current_voters
        } == quorum.directory_ids
        now_ms = node.clock.now_ms()
        for voter in row.current_voters:
            assert now_ms - 60_000 < voter.last_caught_up_timestamp <= voter.last_fetch_timestamp <= now_ms
        assert (await quorum.describe(follower)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_a_loop
async def test_a_voter_is_removed_and_added_again(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        await quorum.write("1000")
        leader, changed = await quorum.leader(), await quorum.follower()
        key = quorum.directory_ids[changed]
        removal = rr.RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=changed, voter_directory_id=key)
        response = await quorum.ask(leader, ApiKey.REMOVE_RAFT_VOTER, removal)
        assert response.error_code is ErrorCode.NONE, response
        described = await quorum.describe(leader)
        assert [each.replica_id for each in described.current_voters] == [
            node_id for node_id in quorum.ids if node_id != changed
        ]
        await quorum.write("2000")
        await quorum.has_read(changed, "2000")
        assert [each.replica_id for each in (await quorum.describe(leader)).observers] == [changed]
        address = quorum.address(changed)
        addition = ar.AddRaftVoterRequest(
            cluster_id=CLUSTER,
            timeout_ms=10_000,
            voter_id=changed,
            voter_directory_id=key,
            listeners=(ar.Listener(name="CONTROLLER", host=address.host, port=address.port),),
        )
        response = await quorum.ask(leader, ApiKey.ADD_RAFT_VOTER, addition)
        assert response.error_code is ErrorCode.NONE, response
        assert len((await quorum.describe(leader)).current_voters) == 3
        await until(lambda: len(quorum.nodes[changed].quorum.view.voters.ids) == 3)


@on_a_loop
async def test_requests_of_another_cluster_are_refused(tmp_path: Path) -> None:
    async with Controllers(tmp_path) as quorum:
        leader = await quorum.leader()
        removal = rr.RemoveRaftVoterRequest(cluster_id="another", voter_id=1)
        response = await quorum.ask(leader, ApiKey.REMOVE_RAFT_VOTER, removal)
        assert response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID


@on_a_loop
async def test_static_voters_move_into_the_log_when_kraft_version_rises(tmp_path: Path) -> None:
    async with Controllers(tmp_path, dynamic=False) as quorum:
        await quorum.write("1000")
        leader = await quorum.leader()
        update = uf.FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        request = uf.UpdateFeaturesRequest(feature_updates=(update,))

        async def raised() -> bool:
            response = await quorum.ask(leader, ApiKey.UPDATE_FEATURES, request)
            if response.error_code is ErrorCode.INVALID_UPDATE_VERSION:
                waits = ("has not registered", "have reported its directory id")
                assert any(reason in response.error_message for reason in waits)
            return response.error_code is ErrorCode.NONE

        # Each voter registers, and reports its directory to the leader within a fetch timeout.
        await until(raised)
        await quorum.write("2000")
        for node_id in quorum.ids:
            await quorum.has_read(node_id, "2000")
            view = quorum.nodes[node_id].quorum.view
            assert view.kraft_version == 1
            assert {voter.key.directory_id for voter in view.voters.voters} == {
                node.quorum.log.directory_id for node in quorum.nodes.values()
            }
        await quorum.kill(leader)
        await quorum.write("3000")
        state = tmp_path / str(await quorum.leader()) / "__cluster_metadata-0" / "quorum-state"
        assert json.loads(state.read_text())["data_version"] == 1
