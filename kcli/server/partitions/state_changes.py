"""Kafka's state-change.log: the partitions that this broker begins to lead, begins to follow, or loses.

Each change of the metadata gets a line with the number of partitions that this broker begins to lead, begins to follow,
or loses. Each partition of the change also gets a line. If the change has many partitions, the lines of the partitions
have the level DEBUG. At a higher level, a start with 10,000 partitions would write 10,000 lines.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.metadata.delta import PartitionDiff
from kcli.metadata.image import LeaderRecoveryState, PartitionImage
from kcli.model.ids import BrokerId
from kcli.model.uuids import uuid_to_text
from kcli.storage.log.log import PartitionLog

STATE_CHANGES = logging.getLogger("kcli.state.change.logger")
"""The logger of state changes. Clients see it under its name in Kafka, `state.change.logger`."""

LINES_MAX = 100
"""The most partitions of one change that get a line each at level INFO. A line takes about 20 µs."""


class StateChanges:
    """Writes the lines about the state changes of one broker."""

    def __init__(self, node_id: BrokerId) -> None:
        self._node_id = node_id
        self._level = logging.INFO

    def begin(self, changes: Sequence[PartitionDiff]) -> None:
        """Writes how many partitions a change affects, before the change is applied."""
        if not changes or not STATE_CHANGES.isEnabledFor(logging.INFO):
            return
        self._level = logging.INFO if len(changes) <= LINES_MAX else logging.DEBUG
        gone = leads = follows = unclean = 0
        for diff in changes:
            if diff.after is None or self._node_id not in diff.after.replicas:
                gone += 1
            elif not self._is_new_epoch(diff, diff.after):
                continue
            elif diff.after.leader == self._node_id:
                leads += 1
                unclean += diff.after.recovery_state is LeaderRecoveryState.RECOVERING
            else:
                follows += 1
        self._count(gone, "Stopping %d partition(s).")
        self._count(leads, "Transitioning %d partition(s) to local leaders.")
        self._count(unclean, "%d of these partition(s) get a leader in an unclean election.")
        self._count(follows, "Transitioning %d partition(s) to local followers.")

    def leads(self, diff: PartitionDiff, after: PartitionImage, log: PartitionLog) -> None:
        """Writes that this broker leads a partition in a new leader epoch."""
        if STATE_CHANGES.isEnabledFor(self._level):
            self._log(
                f"Leader {diff.topic}-{diff.partition} with topic id {uuid_to_text(diff.topic_id)} starts at leader "
                f"epoch {after.leader_epoch} from offset {log.log_end_offset} with partition epoch "
                f"{after.partition_epoch}, high watermark {log.high_watermark}, ISR {_listed(after.isr)}, adding "
                f"replicas {_listed(after.adding)} and removing replicas {_listed(after.removing)}. "
                f"{_previous(diff)}"
            )

    def follows(self, diff: PartitionDiff, after: PartitionImage, log: PartitionLog) -> None:
        """Writes that this broker follows a partition in a new leader epoch."""
        if STATE_CHANGES.isEnabledFor(self._level):
            self._log(
                f"Follower {diff.topic}-{diff.partition} starts at leader epoch {after.leader_epoch} from offset "
                f"{log.log_end_offset} with partition epoch {after.partition_epoch} and high watermark "
                f"{log.high_watermark}. Current leader is {after.leader}. {_previous(diff)}"
            )

    def offline(self, topic: str, partition: int) -> None:
        STATE_CHANGES.warning("[Broker id=%d] Partition %s-%d is offline", self._node_id, topic, partition)

    def _is_new_epoch(self, diff: PartitionDiff, after: PartitionImage) -> bool:
        return (
            diff.before is None
            or diff.before.leader_epoch != after.leader_epoch
            or self._node_id not in diff.before.replicas
        )

    def _count(self, count: int, text: str) -> None:
        if count:
            STATE_CHANGES.info(f"[Broker id=%d] {text}", self._node_id, count)

    def _log(self, text: str) -> None:
        STATE_CHANGES.log(self._level, "[Broker id=%d] %s", self._node_id, text)


def _previous(diff: PartitionDiff) -> str:
    before = diff.before
    leader, epoch = (None, -1) if before is None else (before.leader, before.leader_epoch)
    return f"Previous leader {leader} and previous leader epoch was {epoch}."


def _listed(brokers: Sequence[BrokerId]) -> str:
    return f"[{','.join(map(str, brokers))}]"
