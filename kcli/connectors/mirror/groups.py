"""The groups of a checkpoint task: which checkpoints are new, and which offsets the target gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kcli.client.admin.groups import CommittedOffset
from kcli.connectors.mirror.filters import NameFilter
from kcli.connectors.mirror.offset_syncs import OffsetSyncStore
from kcli.connectors.mirror.policy import ReplicationPolicy
from kcli.connectors.mirror.records import Checkpoint
from kcli.errors import KafkaError
from kcli.model.topic_partition import TopicPartition

Committed = Mapping[TopicPartition, CommittedOffset | KafkaError | None]
"""The committed offsets of a group."""


@dataclass(slots=True)
class Translator:
    """Translates the committed offsets of groups. Keeps the last checkpoint of each group and partition."""

    policy: ReplicationPolicy
    source: str
    target: str
    topics: NameFilter
    syncs: OffsetSyncStore
    last: dict[str, dict[TopicPartition, Checkpoint]] = field(default_factory=dict)

    def remember(self, checkpoint: Checkpoint) -> None:
        """A checkpoint that was written before."""
        self.last.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint

    def new_checkpoints(self, group: str, committed: Committed) -> list[Checkpoint]:
        """The checkpoints of a group that are more recent than the last ones, which they replace.

        An offset without a translation has no checkpoint.
        """
        checkpoints = [
            checkpoint
            for partition, offset in committed.items()
            if isinstance(offset, CommittedOffset) and self.topics.accepts(partition.topic)
            if (checkpoint := self._checkpoint(group, partition, offset)) is not None
        ]
        for checkpoint in checkpoints:
            self.remember(checkpoint)
        return checkpoints

    def offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """The offsets of a group in the target, from its last checkpoints."""
        return {
            partition: CommittedOffset(offset=checkpoint.downstream_offset, metadata=checkpoint.metadata)
            for partition, checkpoint in self.last.get(group, {}).items()
        }

    def _checkpoint(
        self, group: str, partition: TopicPartition, offset: CommittedOffset
    ) -> Checkpoint | None:
        downstream = self.syncs.translate(partition, offset.offset)
        if downstream is None or downstream < 0:
            return None
        checkpoint = Checkpoint(group, self._remote(partition), offset.offset, downstream, offset.metadata)
        last = self.last.get(group, {}).get(checkpoint.partition)
        is_new = (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset  # the group has gone back in the source
            or checkpoint.downstream_offset > last.downstream_offset
        )
        return checkpoint if is_new else None

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        """The partition in the target. A topic that came from the target has its original name there."""
        topic = partition.topic
        if self.policy.topic_source(topic) == self.target:
            return TopicPartition(self.policy.original_topic(topic), partition.partition)
        return TopicPartition(self.policy.remote_topic(self.source, topic), partition.partition)


def offsets_to_commit(
    translated: Mapping[TopicPartition, CommittedOffset], committed: Committed
) -> dict[TopicPartition, CommittedOffset]:
    """The translated offsets that an idle group of the target gets. Its offsets never go back."""
    return {
        partition: offset
        for partition, offset in translated.items()
        if not isinstance(current := committed.get(partition), CommittedOffset)
        or current.offset < offset.offset
    }


def has_topic(committed: Committed, topics: NameFilter) -> bool:
    """Whether a group has an offset in a topic that is copied."""
    return any(
        isinstance(offset, CommittedOffset) and topics.accepts(partition.topic)
        for partition, offset in committed.items()
    )


def task_groups(text: str) -> Iterable[str]:
    return tuple(filter(None, text.split(",")))
