"""Sends changes of ISRs to the controller (AlterPartition, KIP-497). The leaders on this broker propose these changes.

At most one request is in flight. The next request contains all changes that were proposed meanwhile. If a request
fails, it is sent again until a controller answers, because a leader must know whether its change is committed.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence

from kcli.controller.api import ALTER_PARTITION
from kcli.errors import KafkaError
from kcli.metadata.image import LeaderRecoveryState
from kcli.model.ids import NO_BROKER_EPOCH, BrokerId
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kcli.replica.isr import IsrChange
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.quorum.channel import ControllerChannel

_log = logging.getLogger("kcli.server.AlterPartitionManager")

RETRY_PAUSE_S = 0.05
"""The pause before a change is sent again, as in Kafka after a request that failed as a whole."""
MAX_CHANGES_PER_REQUEST = 250
"""The largest number of changes in one request. The broker and the controller each handle a request without a pause,
and this number of changes takes a few milliseconds. Kafka has no limit."""

NAMED_MAX = 20
"""The most partitions that a line about changed ISRs names, so that the line stays below about 1,000 characters."""

Place = tuple[uuid.UUID | None, int]
"""A topic id and the number of a partition."""


class IsrUpdates:
    """The proposed changes that wait for an answer of the controller. Requests over `channel` have no time limit."""

    def __init__(
        self, node_id: BrokerId, channel: ControllerChannel, broker_epoch: Callable[[], int]
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._waiting: dict[Place, LeaderPartition] = {}
        self._sender: asyncio.Task[None] | None = None
        self._is_stopped = False

    def submit(self, leader: LeaderPartition) -> None:
        """Sends the proposed change of a leader, together with other changes that are proposed at the same time. The
        leader gets the answer by `change_answered`.
        """
        if self._is_stopped:
            return
        self._waiting[leader.log.topic_id, leader.partition] = leader
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send_all(), name="alter-partition")

    async def stop(self) -> None:
        """Stops sending. Later changes are not sent, because the broker gives up all leaderships."""
        self._is_stopped = True
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def _send_all(self) -> None:
        while sent := self._take():
            try:
                response = await self._channel.send(ALTER_PARTITION, self._request(sent))
            except KafkaError as error:
                _log.warning("%d changes of ISRs could not be sent: %s", len(sent), error.message)
                self._put_back({place: leader for place, (leader, _) in sent.items()})
                await asyncio.sleep(RETRY_PAUSE_S)
            except Exception:  # an error of this process, which must not end all later changes
                _log.exception("%d changes of ISRs could not be sent", len(sent))
                self._put_back({place: leader for place, (leader, _) in sent.items()})
                await asyncio.sleep(RETRY_PAUSE_S)
            else:
                if self._answered(sent, response):
                    await asyncio.sleep(RETRY_PAUSE_S)

    def _take(self) -> dict[Place, tuple[LeaderPartition, IsrChange]]:
        """Takes changes for a request from the queue. Drops a change if the metadata has a newer state of its
        partition, or if this broker no longer leads the partition.
        """
        taken: dict[Place, tuple[LeaderPartition, IsrChange]] = {}
        while self._waiting and len(taken) < MAX_CHANGES_PER_REQUEST:
            place = next(iter(self._waiting))
            leader = self._waiting.pop(place)
            if leader.is_leader and leader.state.change is not None:
                taken[place] = leader, leader.state.change
        return taken

    def _put_back(self, unanswered: dict[Place, LeaderPartition]) -> None:
        """Adds changes to the queue again, unless the partition has a newer entry."""
        self._waiting = unanswered | self._waiting

    def _answered(
        self, sent: dict[Place, tuple[LeaderPartition, IsrChange]], response: AlterPartitionResponse
    ) -> bool:
        """Gives the answers to the leaders. Returns whether changes must be sent again."""
        again: dict[Place, LeaderPartition] = {}
        answers = {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for place, (leader, change) in sent.items():
            answer = answers.get(place)
            try:
                if answer is None or leader.change_answered(change, answer):
                    again[place] = leader
            except Exception:  # an error in the waiting requests of one partition must not stop the others
                _log.exception("The answer to the change of the ISR of %s failed", leader)
        _log_changes(
            [leader for leader, change in sent.values() if leader.state.isr.members == change.members]
        )
        self._put_back(again)
        return bool(again)

    def _request(self, sent: dict[Place, tuple[LeaderPartition, IsrChange]]) -> AlterPartitionRequest:
        topics: dict[uuid.UUID | None, list[RequestPartitionData]] = {}
        for (topic_id, _), (leader, change) in sent.items():
            topics.setdefault(topic_id, []).append(self._row(leader, change))
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=tuple(
                RequestTopicData(topic_id=topic_id, partitions=tuple(rows))
                for topic_id, rows in topics.items()
            ),
        )

    def _row(self, leader: LeaderPartition, change: IsrChange) -> RequestPartitionData:
        # A leader has nothing to recover after an unclean election, so the recovery state is always RECOVERED
        # (KIP-704).
        return RequestPartitionData(
            partition_index=leader.partition,
            leader_epoch=leader.leader_epoch,
            partition_epoch=leader.state.partition_epoch,
            new_isr_with_epochs=tuple(
                BrokerState(broker_id=member, broker_epoch=self._epoch_of(leader, member))
                for member in change.members
            ),
            leader_recovery_state=LeaderRecoveryState.RECOVERED,
        )

    def _epoch_of(self, leader: LeaderPartition, member: BrokerId) -> int:
        """Returns the broker epoch of a member of the ISR. If the member has restarted, its registration has another
        epoch, so the controller refuses the change (KIP-903)."""
        if member == self._node_id:
            return self._broker_epoch()
        follower = leader.followers.get(member)
        return NO_BROKER_EPOCH if follower is None else follower.broker_epoch


def _log_changes(leaders: Sequence[LeaderPartition]) -> None:
    """Writes one line for all ISRs that the controller has changed in one request."""
    if leaders:
        named = ", ".join(f"{leader} to {list(leader.state.isr.members)}" for leader in leaders[:NAMED_MAX])
        more = f" and {len(leaders) - NAMED_MAX} more" if len(leaders) > NAMED_MAX else ""
        _log.info("%d ISR(s) updated: %s%s", len(leaders), named, more)
