"""How much a micro-batch takes: in offsets, in bytes, and not too early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.model.topic_partition import TopicPartition
from kcli.spark.options import source_options
from kcli.spark.source.admission import Admission

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def admitting(density: dict[TopicPartition, float] | None = None, **options: str) -> Admission:
    source = source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a", **options}, streaming=True)
    return Admission(source, lambda offset_range: (density or {})[offset_range.part])


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    limit=st.integers(1, 2000),
)
def test_a_limit_is_kept_and_never_wasted(sizes: list[int], limit: int) -> None:
    start = {TopicPartition("a", nth): 10 for nth in range(len(sizes))}
    end = {part: 10 + size for part, size in zip(start, sizes, strict=True)}
    reached = admitting(maxOffsetsPerTrigger=str(limit)).end(start, end, may_wait=True)
    assert reached is not None
    assert all(start[part] <= reached[part] <= end[part] for part in start)
    assert sum(reached[part] - start[part] for part in start) == min(limit, sum(sizes))


def test_bytes_are_limited_by_how_densely_each_partition_is_filled() -> None:
    start, end = {A0: 0, A1: 0}, {A0: 1000, A1: 1000}
    limits = admitting({A0: 100.0, A1: 300.0}, maxBytesPerTrigger="40000")
    assert limits.end(start, end, may_wait=True) == {A0: 100, A1: 100}
    everything = admitting({A0: 100.0, A1: 300.0}, maxBytesPerTrigger="400000")
    assert everything.end(start, end, may_wait=True) == end
    huge = admitting({A0: 1e9, A1: 1e9}, maxBytesPerTrigger="1")
    assert huge.end(start, end, may_wait=True) == {A0: 1, A1: 0}  # continues all the same
    both = admitting({A0: 100.0, A1: 300.0}, maxBytesPerTrigger="40000", maxOffsetsPerTrigger="50")
    assert both.end(start, end, may_wait=True) == {A0: 25, A1: 25}
    assert limits.end(end, end, may_wait=True) == end


def test_few_offsets_wait_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("kcli.spark.source.admission.time.monotonic", lambda: now[0])
    limits = admitting(minOffsetsPerTrigger="10", maxTriggerDelay="1m", maxOffsetsPerTrigger="20")
    assert limits.end({A0: 0}, {A0: 3}, may_wait=True) == {A0: 3}  # the first batch goes at once
    now[0] += 59
    assert limits.end({A0: 3}, {A0: 12}, may_wait=True) is None
    assert limits.end({A0: 3}, {A0: 12}, may_wait=False) == {A0: 12}
    assert limits.end({A0: 3}, {A0: 13}, may_wait=True) == {A0: 13}
    now[0] += 60
    assert limits.end({A0: 13}, {A0: 14}, may_wait=True) == {A0: 14}
    assert limits.end({A0: 14}, {A0: 99}, may_wait=True) == {A0: 34}


def test_a_log_that_was_cut_is_not_passed_over() -> None:
    assert admitting(maxOffsetsPerTrigger="5").end({A0: 9}, {A0: 4}, may_wait=True) == {A0: 4}
