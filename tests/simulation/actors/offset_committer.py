"""A client that commits offsets for a group without members, and checks that changes of the coordinator lose no
commit."""

from __future__ import annotations

from typing import Any

from kcli.errors import ErrorCode
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, MOVING, TROUBLE, Client, Moved, World


class OffsetCommitter:
    """Commits 1, 2, 3 … for one partition. A fetched offset is never lower than the last answered commit, and never
    higher than the last sent commit."""

    def __init__(self, world: World, group: str, partition: TopicPartition) -> None:
        self.client = Client(world, f"committer of {group}")
        self.world = world
        self.group = group
        self.partition = partition
        self.acknowledged = 0
        self._sent = 0
        self._losses = 0
        self._coordinator = -1
        self._has_read_last = False

    @property
    def is_done(self) -> bool:
        return self.world.ending and self._has_read_last

    async def run(self) -> None:
        while not self.is_done:
            try:
                if self._coordinator < 0:
                    self._coordinator = await self.client.coordinator(self.group, CoordinatorType.GROUP)
                ending = self.world.ending
                if not ending:
                    await self._commit()
                if ending or self.client.rng.random() < 0.3:
                    await self._fetch()
                    self._has_read_last = ending
                await self.client.pause(0.0, 0.5)
            except (Moved, *TROUBLE) as error:
                self.client.note(repr(error))
                self._coordinator = -1
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        self.client.close()

    async def _commit(self) -> None:
        # A commit without an answer may still arrive later, so each value is sent once.
        self._sent += 1
        offset = self._sent
        part = oc.OffsetCommitRequestPartition(
            partition_index=self.partition.partition, committed_offset=offset
        )
        request = oc.OffsetCommitRequest(
            group_id=self.group,
            topics=(oc.OffsetCommitRequestTopic(name=self.partition.topic, partitions=(part,)),),
        )
        response = await self._ask(request, ApiKey.OFFSET_COMMIT)
        self._check(response.topics[0].partitions[0].error_code)
        self.acknowledged = offset

    async def _fetch(self) -> None:
        topic = of.OffsetFetchRequestTopics(
            name=self.partition.topic, partition_indexes=(self.partition.partition,)
        )
        asked = of.OffsetFetchRequestGroup(group_id=self.group, topics=(topic,))
        request = of.OffsetFetchRequest(groups=(asked,), require_stable=True)
        response = await self._ask(request, ApiKey.OFFSET_FETCH)
        (group,) = response.groups
        self._check(group.error_code)
        part = group.topics[0].partitions[0]
        self._check(part.error_code)
        found = max(part.committed_offset, 0)
        assert found <= self._sent, f"{self.group}: {found} was never sent, {self._sent} was the last"
        assert found >= self.acknowledged, (
            f"{self.group}: {self.acknowledged} was committed, {found} is found"
        )

    async def _ask(self, request: object, key: ApiKey) -> Any:
        """Asks the coordinator. An answer from before a loss of records does not count, and acknowledged commits may
        be lost."""
        self._notice_losses()
        response = await self.client.ask(self._coordinator, request, key, at_most=9)
        if self._losses != self.world.watch.losses:
            raise Moved
        return response

    def _notice_losses(self) -> None:
        if self._losses != self.world.watch.losses:
            self._losses = self.world.watch.losses
            self.acknowledged = 0

    def _check(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            assert code in MOVING, f"{self.group}: {code!r}"
            raise Moved
