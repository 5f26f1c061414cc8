"""Constants for request fields: acks, isolation levels, special timestamps of ListOffsets, upgrade types."""

from __future__ import annotations

from enum import IntEnum

ACKS_ALL = -1
"""The value of `acks` in a Produce request that is answered when all in-sync replicas have the records."""

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
"""The isolation levels of Fetch and ListOffsets (KIP-98)."""

VERSION_MAX = 2**15 - 1
"""The largest possible version of an API, which is an int16 on the wire."""

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of the groups of consumers, in JoinGroup and in the lists of groups."""

NO_SESSION = 0
"""The session id of a fetch without a session (KIP-227)."""
INITIAL_SESSION_EPOCH = 0
"""The session epoch of a full fetch, which may begin a session."""
FINAL_SESSION_EPOCH = -1
"""The session epoch of a full fetch that closes the session or needs no session."""
SESSION_EPOCH_MAX = 2**31 - 1
"""The last session epoch. Epoch 1 follows it."""

LATEST = -1
EARLIEST = -2
"""The timestamps with which ListOffsets requests the end (LATEST) and the start (EARLIEST) of a log."""


class OffsetSpec(IntEnum):
    """The special timestamps of ListOffsets. A value of 0 or more is a timestamp in milliseconds."""

    LATEST = LATEST
    EARLIEST = EARLIEST
    MAX_TIMESTAMP = -3  # KIP-734
    EARLIEST_LOCAL = -4  # KIP-405
    LATEST_TIERED = -5  # KIP-1005
    EARLIEST_PENDING_UPLOAD = -6  # KIP-1023


class CoordinatorType(IntEnum):
    """The types of coordinators, with their numbers in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2  # KIP-932


class UpgradeType(IntEnum):
    """The changes of a feature's level that the caller of UpdateFeatures permits (KIP-584)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
