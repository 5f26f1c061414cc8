"""The times of a coordinator's work, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.observations import Observations


@dataclass(frozen=True, slots=True)
class ShardTimes:
    """Times in milliseconds of all shards of a coordinator. `load_ms` has the times of loads, `processing_ms` of calls
    to a shard, and `flush_ms` of appends to the log. `purgatory_ms` has the times from the append of a batch to its
    commit.
    """

    load_ms: Observations = field(default_factory=Observations)
    processing_ms: Observations = field(default_factory=Observations)
    purgatory_ms: Observations = field(default_factory=Observations)
    flush_ms: Observations = field(default_factory=Observations)
