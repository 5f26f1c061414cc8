"""The result of ListOffsets for one partition."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """The offset, the timestamp in ms and the leader epoch that ListOffsets returns for a partition.

    All three are -1 if the partition has no record that was asked for. The timestamp or leader epoch is -1 if it is
    unknown.
    """

    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH
