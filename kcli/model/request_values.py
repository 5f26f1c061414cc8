"""Named values of request fields: acknowledgements, isolation levels, points in time of ListOffsets."""

from __future__ import annotations

from enum import IntEnum

ACKS_ALL = -1
"""Produce: answer when all in-sync replicas have the records."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
"""Isolation levels of Fetch and ListOffsets (KIP-98)."""

LATEST = -1
EARLIEST = -2
"""Timestamps of ListOffsets that mean the two ends of a log."""


class OffsetSpec(IntEnum):
    """The named points in time of ListOffsets; any value >= 0 is a timestamp in milliseconds."""

    LATEST = LATEST
    EARLIEST = EARLIEST
    MAX_TIMESTAMP = -3  # KIP-734
    EARLIEST_LOCAL = -4  # KIP-405
    LATEST_TIERED = -5  # KIP-1005
    EARLIEST_PENDING_UPLOAD = -6  # KIP-1023


class CoordinatorType(IntEnum):
    """The types of coordinators, numbered as in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2  # KIP-932
