"""Planning: tasks from ranges, limits of micro-batches, and what counts as data loss."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.model.topic_partition import TopicPartition
from kcli.spark.options import SourceOptions, source_options
from kcli.spark.source.offsets import (
    DataLossError,
    OffsetRange,
    from_json,
    split,
    stream_ranges,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def options(**more: str) -> SourceOptions:
    return source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "a", **more}, streaming=True)


def test_one_task_per_partition_with_records() -> None:
    ranges = [OffsetRange(A0, 5, 9), OffsetRange(A1, 3, 3)]
    assert split(ranges, options()) == [OffsetRange(A0, 5, 9)]


def test_min_partitions_shares_by_size() -> None:
    tasks = split([OffsetRange(A0, 0, 900), OffsetRange(A1, 0, 100)], options(minPartitions="10"))
    assert [task.part for task in tasks].count(A0) == 9
    assert [task.part for task in tasks].count(A1) == 1


@given(
    sizes=st.lists(st.integers(0, 500), min_size=1, max_size=6),
    least=st.integers(1, 40),
    most=st.integers(1, 100),
)
def test_tasks_cover_every_offset_once(sizes: list[int], least: int, most: int) -> None:
    ranges = [OffsetRange(TopicPartition("a", nth), 7, 7 + size) for nth, size in enumerate(sizes)]
    tasks = split(ranges, options(minPartitions=str(least), maxRecordsPerPartition=str(most)))
    for whole in ranges:
        pieces = [task for task in tasks if task.part == whole.part]
        assert [offset for piece in pieces for offset in range(piece.start, piece.end)] == list(
            range(whole.start, whole.end)
        )
    assert all(0 < len(task) <= most for task in tasks)


def test_a_stream_reads_new_partitions_from_their_begin(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ranges = stream_ranges({A0: 5}, {A0: 9, A1: 4}, {A1: 0}, options())
    assert ranges == [OffsetRange(A0, 5, 9), OffsetRange(A1, 0, 4)]
    assert not caplog.text


@pytest.mark.parametrize(
    "start, end, earliest, message",
    [
        ({A0: 9}, {A0: 5}, {}, "the end of a-0 went back from 9 to 5"),
        ({A0: 1, B0: 1}, {A0: 1}, {}, "b-0 was read before and is gone"),
        ({}, {A1: 8}, {A1: 3}, "a-1 is new to this query, but begins at offset 3"),
    ],
)
def test_data_loss_fails_or_warns(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    earliest: dict[TopicPartition, int],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLossError, match=message):
        stream_ranges(start, end, earliest, options())
    with caplog.at_level(logging.WARNING):
        stream_ranges(start, end, earliest, options(failOnDataLoss="false"))
    assert message in caplog.text


def test_offsets_are_written_as_spark_writes_them() -> None:
    written = to_json({A1: 4, A0: 3, B0: 0})
    assert written == {"a": {"0": 3, "1": 4}, "b": {"0": 0}}
    assert from_json(written) == {A0: 3, A1: 4, B0: 0}
