"""The beans of replication, of the controllers and of the quorum: events of a simulated cluster move them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_records as dr
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from kcli.server.quorum.broker_lifecycle import BrokerState
from rigs import kafka_beans
from rigs.cluster_client import ClusterClient
from rigs.data_path import batch
from rigs.kafka_beans import Beans, beans_of
from simulation.actors.client import eventually
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import SimCluster, SimNode

CONTROLLERS, BROKERS = (1, 2, 3), (4, 5, 6)
SEED = 1
LAG_S, SESSION_S, PATIENCE_S = 2.0, 3.0, 60.0
OVERRIDES = {
    "kcli.metrics.listener": ":9999",
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": "500",
    "metrics.sample.window.ms": "2000",
    "replica.fetch.max.bytes": "100",
    "replica.fetch.response.max.bytes": "100",
    "metadata.log.max.snapshot.interval.ms": "10000",
    "log.dirs": "/data/a,/data/b",
}
TOPIC, BROKER = 2, 4
"""The types of resources with configs."""


ACTIONS = (
    *("replicate", "park", "expire", "wait", "cut_follower", "cut_other", "mend", "assign"),
    *("reassign", "reassigned", "isolate_standby", "rejoin_standby", "kill_standby", "start_standby"),
    *("stop_other", "stop_leader", "kill_follower", "start_leader", "kill_leader", "kill_active"),
)
"""All actions, in their order."""


class Events:
    """The actions of the table, in their order. `nodes` has the nodes by the names that the table uses."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.client = ClusterClient(cluster, 3)
        self.nodes: dict[str, SimNode] = {}
        self.seen: dict[str, Beans] = {}
        """Beans of a node at a time within an action, which replace those at its end."""

    async def prepare(self) -> None:
        """Makes a topic with three replicas, the first of which leads, and one with a replica on the leader."""
        await self.create("r", BROKERS, min_insync_replicas="2")
        await self.create("m", BROKERS[:1])
        await eventually(lambda: self.image("r") and self.image("m"), PATIENCE_S, "the topics exist")
        assert await self.send("m") is ErrorCode.NONE
        await asyncio.sleep(LAG_S)
        nodes = self.cluster.nodes
        leader, follower, other = (nodes[each] for each in BROKERS)
        active = next(each for each in self.cluster.controllers if each.running.controller.is_active)
        standby, third = (each for each in self.cluster.controllers if each is not active)
        self.nodes = {
            "leader": leader,
            "assigner": leader,  # its beans at the end of an action that reads those of `leader` earlier
            "follower": follower,
            "other": other,
            "active": active,
            "standby": standby,
            "third": third,
        }

    async def create(self, name: str, replicas: tuple[int, ...], **configs: str) -> None:
        topic = ct.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(ct.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),),
            configs=tuple(
                ct.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
        )
        await self.client.ask(BROKERS[0], ApiKey.CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))

    def image(self, topic: str) -> Any:
        return self.cluster.nodes[BROKERS[0]].running.metadata.partition(topic, 0)

    def partition_of(self, node: str, topic: str = "r") -> Any:
        return self.nodes[node].running.metadata.partition(topic, 0)

    async def send(self, topic: str, acks: int = 1) -> ErrorCode:
        records = batch(b"a", b"b", b"c", timestamp_ms=self.cluster.node.clock.now_ms())
        data = p.PartitionProduceData(index=0, records=records)
        topics = (p.TopicProduceData(name=topic, partition_data=(data,)),)
        request = p.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)
        answer = await self.client.ask(BROKERS[0], ApiKey.PRODUCE, request, at_most=9)
        code: ErrorCode = answer.responses[0].partition_responses[0].error_code
        return code

    async def set_config(self, resource_type: int, name: str, **configs: str) -> None:
        rows = tuple(
            ic.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in configs.items()
        )
        resource = ic.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=rows)
        broker = self.client.any_broker
        request = ic.IncrementalAlterConfigsRequest(resources=(resource,))
        await self.client.ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, request)

    def watch(self, name: str, is_due: Callable[[Any], bool]) -> None:
        """Keeps the beans of a node from the first time at which `is_due` is true."""

        def look() -> None:
            node = self.nodes[name].alive
            if name not in self.seen and node is not None and is_due(node):
                self.seen[name] = beans_of(node)

        self.cluster.loop.on_turn.append(look)

    def cut(self, one: str, *others: str) -> None:
        network, name = self.cluster.network, self.nodes[one].name
        for other in others:
            network.cut_link(name, self.nodes[other].name)
            network.cut_link(self.nodes[other].name, name)

    async def park(self) -> None:
        """Sends requests that wait for a follower which cannot fetch."""
        self.cut("follower", "leader")
        part = dr.DeleteRecordsPartition(partition_index=0, offset=2)
        topics = (dr.DeleteRecordsTopic(name="r", partitions=(part,)),)
        deletion = dr.DeleteRecordsRequest(topics=topics, timeout_ms=1000)
        other = ClusterClient(self.cluster, 3)
        self.parked = asyncio.gather(
            self.send("r", acks=-1), other.ask(BROKERS[0], ApiKey.DELETE_RECORDS, deletion)
        )
        await asyncio.sleep(0.5)

    async def expire(self) -> None:
        await self.parked
        self.cluster.network.mend_links()
        await asyncio.sleep(LAG_S)

    async def replicate(self) -> None:
        await self.send("r")
        await asyncio.sleep(6)  # meters of rates need 5 s

    async def wait(self) -> None:
        await asyncio.sleep(10)

    async def cut_follower(self) -> None:
        self.cut("follower", "leader")
        await self.send("r")  # a follower at the end of the log does not lag
        await eventually(lambda: len(self.partition_of("active").isr) == 2, PATIENCE_S, "the ISR shrinks")
        for _ in range(3):
            await self.send("r")
        await asyncio.sleep(1)

    async def cut_other(self) -> None:
        self.cut("other", "leader")
        await self.send("r")  # a follower at the end of the log does not lag
        await eventually(lambda: len(self.partition_of("active").isr) == 1, PATIENCE_S, "the ISR shrinks")
        await asyncio.sleep(1)

    async def mend(self) -> None:
        def lags(node: Any) -> bool:
            return any(
                each.state.lag for fetcher in node.broker.fetchers for each in fetcher.followings.values()
            )

        self.watch("follower", lags)
        self.cluster.network.mend_links()
        await eventually(lambda: len(self.partition_of("active").isr) == 3, PATIENCE_S, "the ISR is whole")
        await asyncio.sleep(1)

    async def assign(self) -> None:
        """Makes a topic whose logs are in several directories."""
        self.watch("leader", lambda node: node.broker.assignments.waiting_count)
        await self.create("d", BROKERS)
        await asyncio.sleep(2)

    async def reassign(self) -> None:
        """Gives `m` another replica, which cannot reach its leader yet."""
        await self.set_config(TOPIC, "m", leader_replication_throttled_replicas="*")
        await self.set_config(TOPIC, "m", follower_replication_throttled_replicas="*")
        rates = {f"{role}.replication.throttled.rate": "1000000" for role in ("leader", "follower")}
        await self.set_config(BROKER, "", **rates)
        self.cut("follower", "leader")
        row = ar.ReassignablePartition(partition_index=0, replicas=BROKERS[:2])
        topics = (ar.ReassignableTopic(name="m", partitions=(row,)),)
        request = ar.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=9000)
        await self.client.ask(BROKERS[2], ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
        await asyncio.sleep(1)

    async def reassigned(self) -> None:
        self.cluster.network.mend_links()
        await eventually(lambda: not self.image("m").adding, PATIENCE_S, "the reassignment is complete")
        await asyncio.sleep(1)

    async def isolate_standby(self) -> None:
        self.cluster.isolate(self.nodes["standby"])
        await asyncio.sleep(5)

    async def rejoin_standby(self) -> None:
        self.cluster.network.mend_links()
        await asyncio.sleep(5)

    async def kill_standby(self) -> None:
        self.nodes["standby"].kill()

    async def start_standby(self) -> None:
        await self.nodes["standby"].start()
        await asyncio.sleep(2)

    async def stop_other(self) -> None:
        await self.nodes["other"].stop()
        await asyncio.sleep(1)

    async def stop_leader(self) -> None:
        leader = self.nodes["leader"]
        self.watch(
            "leader", lambda node: node.broker.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )

        def is_leaving(node: Any) -> bool:
            broker = node.metadata.brokers.get(leader.node_id)
            return broker is not None and not broker.active and not broker.fenced

        self.watch("active", is_leaving)
        await leader.stop()

    async def kill_follower(self) -> None:
        self.nodes["follower"].kill()
        await asyncio.sleep(2 * SESSION_S)

    async def start_leader(self) -> None:
        """The stopped leader is an eligible leader replica (KIP-966)."""
        await self.nodes["leader"].start()
        await eventually(lambda: self.partition_of("active").leader == BROKERS[0], PATIENCE_S, "it leads")

    async def kill_leader(self) -> None:
        """The other replica is in no ISR and no ELR, so only an unclean election makes it the leader."""
        await self.set_config(TOPIC, "r", unclean_leader_election_enable="true")
        self.nodes["leader"].kill()
        await asyncio.sleep(2 * SESSION_S)
        await self.nodes["other"].start()
        await eventually(lambda: self.partition_of("active").leader == BROKERS[2], PATIENCE_S, "it leads")

    async def kill_active(self) -> None:
        self.nodes["active"].kill()

        def leads() -> bool:
            return any(
                each.running is not None and each.running.controller.is_active
                for each in self.cluster.controllers
            )

        await eventually(leads, PATIENCE_S, "a controller becomes active")
        await asyncio.sleep(1)
        standby, third = self.nodes["standby"], self.nodes["third"]
        if standby.running.controller.is_active:
            self.nodes |= {"standby": third, "third": standby}


def test_events_of_a_cluster_move_its_beans() -> None:
    async def main(_loop: SimLoop) -> None:
        roles = dict.fromkeys(CONTROLLERS, "controller") | dict.fromkeys(BROKERS, "broker")
        async with SimCluster(SEED, overrides=OVERRIDES, roles=roles) as cluster:
            await cluster.start()
            events = Events(cluster)
            await events.prepare()
            wrong = [fault async for fault in _wrong(events)]
            assert not wrong, "\n".join(wrong)

    simulate(SEED, main)


async def _wrong(events: Events) -> AsyncIterator[str]:
    rows = kafka_beans.in_a_cluster()
    assert {row.action for row in rows} <= set(ACTIONS)
    for action in ACTIONS:
        before = {node: _beans(node) for node in events.nodes.values()}
        events.seen = {}
        events.cluster.loop.on_turn.clear()
        await getattr(events, action)()
        names = {row.node for row in rows if row.action == action}
        after = {name: events.seen.get(name) or _beans(events.nodes[name]) for name in names}
        for row in rows:
            if row.action == action:
                node = events.nodes[row.node]
                fault = row.of(node.node_id).fault(before[node], after[row.node])
                if fault:
                    yield f"{action} {row.node}: {fault}"


def _beans(node: SimNode) -> Beans:
    return {} if node.running is None else beans_of(node.running)
