"""The broker settings a group shard obeys."""

from __future__ import annotations

from dataclasses import dataclass

MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Field by field Kafka's `group.*`, `offset.*` and `offsets.*` keys, with their defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = MAX_INT32
    offset_metadata_max_length: int = 4_096
    """`offset.metadata.max.bytes`, which Kafka counts in UTF-16 code units despite its name."""
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
