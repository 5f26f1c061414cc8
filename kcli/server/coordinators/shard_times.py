"""The times of a coordinator's work, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.observations import Observations


@dataclass(frozen=True, slots=True)
class ShardTimes:
    """Milliseconds of all shards of a coordinator: of loads, of calls to a shard, from the append of a batch to its
    commit, and of appends."""

    load_ms: Observations = field(default_factory=Observations)
    processing_ms: Observations = field(default_factory=Observations)
    purgatory_ms: Observations = field(default_factory=Observations)
    flush_ms: Observations = field(default_factory=Observations)
