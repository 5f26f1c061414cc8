"""The broker settings that the group coordinator uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

MAX_INT32 = 2**31 - 1


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: whether a group may change its protocol while it has members."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTimes:
    """The times of a consumer group. A group can have its own values (`configs --entity-type groups`)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000


TimesOf = Callable[[str], ConsumerTimes]
"""A function that takes a group id, and returns the session timeout and heartbeat interval of this group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The values of Kafka's keys `group.*`, `offset.*` and `offsets.*`, with Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = MAX_INT32
    offset_metadata_max_length: int = 4_096
    """`offset.metadata.max.bytes`, which Kafka counts in UTF-16 code units despite its name."""
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000

    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`. The first assignor is used for groups whose members do not request an assignor."""
    consumer_max_size: int = MAX_INT32
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
