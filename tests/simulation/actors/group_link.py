"""The link of a group member to the cluster.

The link sends group requests to the coordinator, which it finds with FindCoordinator, and Fetch requests to the leaders
of partitions. After a loss of records, a link is of no use any more: its coordinator knows nothing of what it answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import iter_batches
from kcli.protocol.messages import consumer_group_describe as cd
from kcli.protocol.messages import describe_groups as dg
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import (
    EARLIEST,
    LATEST,
    MOVING,
    RETAINED,
    TROUBLE,
    Client,
    Fetched,
    Moved,
    World,
    fetch_request,
    partitions_of,
)
from simulation.checks.group_watch import GroupWatch

REBALANCE_TIMEOUT_MS = 8_000
"""The time for which a join waits for the other members."""

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


class NoCoordinator(Exception):
    """Raised if the request got no answer of a coordinator. A member keeps its partitions, and finds the coordinator
    with the next request. `may_be_done` tells whether a coordinator may have carried out the request. `response` is the
    answer of a broker that is no coordinator, if there is one."""

    def __init__(self, why: str, *, may_be_done: bool, response: Any) -> None:
        super().__init__(why)
        self.may_be_done = may_be_done
        self.response = response


@dataclass(slots=True)
class MemberWorld(World):
    """The state that all members of one group share."""

    group_watch: GroupWatch = field(kw_only=True)


class GroupLink:
    """Finds the coordinator, and reports the member's commits to the `GroupWatch`."""

    def __init__(self, world: MemberWorld, name: str) -> None:
        self._client = Client(world, name)
        self._world = world
        self._watch = world.group_watch
        self._losses = world.watch.losses
        self._coordinator = -1
        self.is_current = False
        """Whether the last request went to the broker that was the coordinator at that time."""

    def close(self) -> None:
        self._client.close()

    # Group requests.

    async def ask(self, message: object, key: ApiKey, *, at_most: int = 99) -> Any:
        """Sends a request to the coordinator. Raises NoCoordinator if it gets no answer of a coordinator."""
        if self._coordinator < 0:
            await self.find()
        self.is_current = self._watch.is_served_by(self._coordinator)
        if isinstance(message, oc.OffsetCommitRequest):
            self._watch.commit_sent(_commits(message))
        timeout_s = JOIN_TIMEOUT_S if key is ApiKey.JOIN_GROUP else ANSWER_TIMEOUT_S
        response = await self._try(self._coordinator, message, key, at_most, timeout_s)
        if isinstance(message, oc.OffsetCommitRequest):
            self._watch.commit_answered(_commits(message))
        if isinstance(response, of.OffsetFetchResponse):
            self._take_offsets(response)
        code = _code_of(response)
        if code in NOT_SERVED:
            # A coordinator that loses its partition during a write answers NOT_COORDINATOR too.
            self._give_up(
                f"{key.name}: {code.name}",
                may_be_done=code is ErrorCode.NOT_COORDINATOR,
                response=response,
            )
        return response

    async def find(self) -> None:
        """Looks up the coordinator. Raises NoCoordinator if no broker knows it at the moment."""
        self._check_losses()
        self._coordinator = -1
        try:
            self._coordinator = await self._client.coordinator(self._watch.group, CoordinatorType.GROUP)
        except (Moved, *TROUBLE) as error:
            self._give_up(f"FindCoordinator: {error!r}")
        self._check_losses()

    async def _try(self, broker: int, message: object, key: ApiKey, at_most: int, timeout_s: float) -> Any:
        self._check_losses()
        try:
            response = await self._client.ask(broker, message, key, at_most=at_most, timeout_s=timeout_s)
        except TROUBLE as error:
            self._give_up(
                f"{key.name} to {broker}: {error!r}",
                may_be_done=not isinstance(error, ConnectionRefusedError),
            )
        self._check_losses()
        return response

    def _check_losses(self) -> None:
        """Raises an error of the connection if records were lost since the link was opened."""
        if self._losses != self._world.watch.losses:
            raise ConnectionResetError("records were lost")

    def _give_up(self, why: str, *, may_be_done: bool = False, response: Any = None) -> None:
        self._coordinator = -1
        self._client.note(why)
        raise NoCoordinator(why, may_be_done=may_be_done, response=response)

    def _take_offsets(self, response: of.OffsetFetchResponse) -> None:
        for group in response.groups:
            for topic in group.topics:
                for part in topic.partitions:
                    if ErrorCode.NONE is group.error_code is part.error_code:
                        partition = TopicPartition(topic.name, part.partition_index)
                        self._watch.offset_fetched(partition, part.committed_offset)

    # Records.

    async def fetch(self, positions: dict[TopicPartition, int]) -> list[Fetched]:
        """Reads from the leaders. Leaves partitions out whose leaders do not answer."""
        found = []
        for partition, position in positions.items():
            try:
                found += await self._fetch(partition, position)
            except (Moved, *TROUBLE) as error:
                self._check_losses()
                self._client.note(f"fetch of {partition}: {error!r}")
                self._client.forget_leader(partition)
        return found

    async def reset(self, partition: TopicPartition, position: int) -> int:
        """Returns the new position after OFFSET_OUT_OF_RANGE: the log start offset, or the end if records were lost."""
        try:
            earliest = await self._client.listed_offset(partition, EARLIEST)
            if position < earliest or not self._losses:
                return max(position, earliest)
            return await self._client.listed_offset(partition, LATEST)
        except (Moved, *TROUBLE) as error:
            self._client.note(f"offsets of {partition}: {error!r}")
            return position

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
        self._check_losses()
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in MOVING, f"{self._client.name}: fetch: {response.error_code!r}"
            raise Moved
        found = partitions_of(response, self._world.topic_ids)
        for _, data in found:
            # A former leader may lack records that the member has read from the present leader.
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                end = self._world.watch.partitions[partition].end
                assert end >= position or self._losses, (
                    f"{self._client.name}: {partition}: {position} is out of range"
                )
                if partition.topic == RETAINED or self._losses:
                    continue  # the member asks for another position
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
