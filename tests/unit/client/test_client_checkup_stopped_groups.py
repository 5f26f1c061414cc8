"""Groups without members are stopped if unread records are old, and not if they are being consumed or are young."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.diagnosis.checkup.stopped_groups import stopped_groups
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

NOW_MS = 1_800_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Log:
    """An admin client to partitions whose records have these ages in seconds, the oldest first."""

    def __init__(self, ages: Mapping[TopicPartition, list[int]], start: int = 0) -> None:
        self.ages = ages
        self.start = start

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, wait_for_leaders: bool
    ) -> dict[TopicPartition, OffsetAt | KafkaError]:
        assert not wait_for_leaders
        return {each: self.offset(each, at) for each, at in wanted.items()}

    def offset(self, partition: TopicPartition, at: int) -> OffsetAt | KafkaError:
        ages = self.ages.get(partition)
        if ages is None:
            return error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        if at in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            found = self.start if at == OffsetSpec.EARLIEST else len(ages)
        else:
            times = [NOW_MS - each * 1000 for each in ages]
            found = next((each for each, time in enumerate(times) if time >= at and each >= self.start), -1)
        return OffsetAt(offset=found, timestamp=-1, leader_epoch=0)


def found(
    log: Log, commits: dict[str, dict[TopicPartition, int]], **before: dict[TopicPartition, int]
) -> Any:
    stopped = asyncio.run(stopped_groups(cast(AdminClient, log), before or commits, commits, NOW_MS))
    return [(each.group_id, dict(each.unread), each.older_than_s) for each in stopped]


@pytest.mark.parametrize(
    ("ages", "older_than_s"),
    [([61], 60), ([700, 5], 600), ([4000], 3600), ([90_000], 86_400), ([700_000] * 3, 604_800)],
)
def test_the_age_of_the_oldest_unread_record_is_known_without_reading_it(
    ages: list[int], older_than_s: int
) -> None:
    assert found(Log({P0: ages}), {"g": {P0: 0}}) == [("g", {P0: len(ages)}, older_than_s)]


def test_young_records_and_records_that_were_read_are_no_reason() -> None:
    assert found(Log({P0: [30, 20, 10]}), {"restarts": {P0: 0}}) == []
    assert found(Log({P0: [9000, 8000, 10]}), {"has read the old ones": {P0: 2}, "at the end": {P0: 3}}) == []


def test_records_that_retention_deleted_are_not_unread() -> None:
    log = Log({P0: [90_000, 90_000, 700]}, start=2)
    assert found(log, {"g": {P0: 0}}) == [("g", {P0: 1}, 600)]
    assert found(Log({P0: [90_000]}, start=1), {"g": {P0: 0}}) == []


def test_a_consumer_that_is_not_a_member_still_commits() -> None:
    log = Log({P0: [9000] * 10})
    assert found(log, {"g": {P0: 5}}, g={P0: 4}) == []
    assert found(log, {"g": {P0: 5}}, g={P0: 5}) == [("g", {P0: 5}, 3600)]


def test_a_partition_without_a_leader_is_left_out() -> None:
    assert found(Log({P0: [9000]}), {"g": {P0: 0, P1: 0}, "h": {P1: 0}}) == [("g", {P0: 1}, 3600)]
