"""The times of a coordinator's work, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.observations import Observations


@dataclass(frozen=True, slots=True)
class ShardTimes:
    """Times in milliseconds of all shards of a coordinator. They are the times of loads, of calls to a shard, of
    appends, and from the append of a batch to its commit.
    """

    load_ms: Observations = field(default_factory=Observations)
    processing_ms: Observations = field(default_factory=Observations)
    purgatory_ms: Observations = field(default_factory=Observations)
    flush_ms: Observations = field(default_factory=Observations)
