"""The link of a group member to a simulated cluster.

The link sends group requests to the coordinator, which it finds with FindCoordinator, and Fetch requests to the leaders
of partitions. The members themselves are those of a single broker (`Member` and `ConsumerMember`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import iter_batches
from kcli.protocol.messages import consumer_group_describe as cd
from kcli.protocol.messages import describe_groups as dg
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.clients import Fetched, Link, fetch_request, partitions_of
from simulation.actors.cluster_clients import MOVING, TROUBLE, ClusterClient, ClusterWorld, Moved
from simulation.actors.groups import REBALANCE_TIMEOUT_MS, NoCoordinator
from simulation.checks.group_watch import GroupWatch

ANSWER_TIMEOUT_S = 5.0
"""The longest wait for an answer. It is shorter than a session, so that one lost answer does not end a membership."""
JOIN_TIMEOUT_S = REBALANCE_TIMEOUT_MS / 1000 + 5.0
# Errors with which a broker says that it does not coordinate the group, or not yet.
NOT_SERVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


@dataclass(slots=True)
class MemberWorld(ClusterWorld):
    """The state that all members of one group share."""

    ledger: GroupWatch = field(kw_only=True)

    @property
    def coordinator_life(self) -> int:
        return self.ledger.coordinator_life

    @property
    def coordinator_began_s(self) -> float:
        return self.ledger.coordinator_began_s

    async def open_link(self, name: str) -> Link:
        return CoordinatorLink(self, name)


class CoordinatorLink:
    """Finds the coordinator, and reports the member's commits to the `GroupWatch`."""

    losses = 0

    def __init__(self, world: MemberWorld, name: str) -> None:
        self._client = ClusterClient(world, name)
        self._world = world
        self._ledger = world.ledger
        self._coordinator = -1
        self.is_current = False

    def close(self) -> None:
        self._client.close()

    # Group requests.

    async def ask(self, message: object, key: ApiKey, *, at_most: int = 99) -> Any:
        """Sends a request to the coordinator. Raises NoCoordinator if it gets no answer of a coordinator."""
        if isinstance(message, fc.FindCoordinatorRequest):
            return await self._find(message)
        if self._coordinator < 0:
            await self._find(
                fc.FindCoordinatorRequest(key=self._ledger.group, coordinator_keys=(self._ledger.group,))
            )
        self.is_current = self._ledger.is_served_by(self._coordinator)
        if isinstance(message, oc.OffsetCommitRequest):
            self._ledger.commit_sent(_commits(message))
        timeout_s = JOIN_TIMEOUT_S if key is ApiKey.JOIN_GROUP else ANSWER_TIMEOUT_S
        response = await self._try(self._coordinator, message, key, at_most, timeout_s)
        if isinstance(message, oc.OffsetCommitRequest):
            self._ledger.commit_answered(_commits(message))
        if isinstance(response, of.OffsetFetchResponse):
            self._take_offsets(response)
        code = _code_of(response)
        if code in NOT_SERVED:
            # A coordinator that loses its partition during a write answers NOT_COORDINATOR too.
            self._give_up(f"{key.name}: {code.name}", may_be_done=code is ErrorCode.NOT_COORDINATOR)
        return response

    async def _find(self, request: fc.FindCoordinatorRequest) -> fc.FindCoordinatorResponse:
        self._coordinator = -1
        broker = self._client.any_broker()
        response: fc.FindCoordinatorResponse = await self._try(
            broker, request, ApiKey.FIND_COORDINATOR, 99, ANSWER_TIMEOUT_S
        )
        (found,) = response.coordinators
        if found.error_code is not ErrorCode.NONE:
            assert found.error_code in MOVING, f"FindCoordinator: {found}"
            self._give_up(f"FindCoordinator: {found.error_code.name}")
        self._coordinator = found.node_id
        return response

    async def _try(self, broker: int, message: object, key: ApiKey, at_most: int, timeout_s: float) -> Any:
        try:
            return await self._client.ask(broker, message, key, at_most=at_most, timeout_s=timeout_s)
        except TROUBLE as error:
            self._give_up(
                f"{key.name} to {broker}: {error!r}",
                may_be_done=not isinstance(error, ConnectionRefusedError),
            )

    def _give_up(self, why: str, *, may_be_done: bool = False) -> None:
        self._coordinator = -1
        self._client.note(why)
        raise NoCoordinator(why, may_be_done=may_be_done)

    def _take_offsets(self, response: of.OffsetFetchResponse) -> None:
        for group in response.groups:
            for topic in group.topics:
                for part in topic.partitions:
                    if ErrorCode.NONE is group.error_code is part.error_code:
                        partition = TopicPartition(topic.name, part.partition_index)
                        self._ledger.offset_fetched(partition, part.committed_offset)

    # Records.

    async def fetch(self, positions: dict[TopicPartition, int]) -> list[Fetched]:
        """Reads from the leaders. Leaves partitions out whose leaders do not answer."""
        found = []
        for partition, position in positions.items():
            try:
                found += await self._fetch(partition, position)
            except (Moved, *TROUBLE) as error:
                self._client.note(f"fetch of {partition}: {error!r}")
                self._client.forget_leader(partition)
        return found

    async def _fetch(self, partition: TopicPartition, position: int) -> list[Fetched]:
        leader = await self._client.leader(partition)
        request = fetch_request(
            {partition: position},
            self._world.topic_ids,
            max_bytes=self._client.rng.choice((1, 5_000, 1_000_000)),
        )
        response: f.FetchResponse = await self._client.ask(
            leader, request, ApiKey.FETCH, timeout_s=ANSWER_TIMEOUT_S
        )
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in MOVING, f"{self._client.name}: fetch: {response.error_code!r}"
            raise Moved
        found = partitions_of(response, self._world.topic_ids)
        for _, data in found:
            # A former leader may lack records that the member has read from the present leader.
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                end = self._world.watch.partitions[partition].end
                assert end >= position, f"{self._client.name}: {partition}: {position} is out of range"
                raise Moved
            if data.error_code is not ErrorCode.NONE:
                assert data.error_code in MOVING, f"{self._client.name}: {partition}: {data.error_code!r}"
                raise Moved
            for _, header in iter_batches(data.records or b""):
                self._world.watch.read(partition, header)
        return found


def _commits(message: oc.OffsetCommitRequest) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic.name, part.partition_index), part.committed_offset)
        for topic in message.topics
        for part in topic.partitions
    ]


def _code_of(response: Any) -> ErrorCode:
    """The error code of a response. An OffsetCommit response repeats the error of the group for each partition."""
    match response:
        case oc.OffsetCommitResponse():
            codes = [part.error_code for topic in response.topics for part in topic.partitions]
        case of.OffsetFetchResponse() | dg.DescribeGroupsResponse() | cd.ConsumerGroupDescribeResponse():
            codes = [group.error_code for group in response.groups]
        case _:
            codes = [response.error_code]
    return codes[0] if codes else ErrorCode.NONE
