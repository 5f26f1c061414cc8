"""The result of ListOffsets for one partition."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """The first record at or after a point in time: its offset, timestamp in ms and leader epoch.

    All three are -1 if the partition has no such record. The timestamp or leader epoch is -1 if it is unknown.
    """

    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH
