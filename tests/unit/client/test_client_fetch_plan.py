"""The Fetch requests of a fetcher, and its session with the leader (KIP-227)."""

from __future__ import annotations

import uuid
from typing import Any

from kcli.client.records.fetch_plan import FetchPlan, FetchPosition, PlannedFetch
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition

TOPIC = uuid.UUID(int=500)
LATER_TOPIC = uuid.UUID(int=501)


def key(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


def wanted(offset: Any, topic_id: uuid.UUID = TOPIC) -> FetchPosition:
    return FetchPosition(topic_id, offset, 1, 1, 0)


def plan_of(*partitions: int) -> FetchPlan:
    plan = FetchPlan()
    for partition in partitions:
        plan.want(key(partition), wanted(0))
    return plan


def listed(planned: PlannedFetch) -> list[tuple[int, int]]:
    return [(each.partition, wanted.fetch_offset) for each, wanted in planned.partitions]


def test_the_first_request_lists_all_and_asks_for_a_session() -> None:
    planned = plan_of(0, 1).next()
    assert (planned.session_id, planned.session_epoch, planned.is_full) == (0, 0, True)
    assert listed(planned) == [(0, 0), (1, 0)]


def test_later_requests_list_only_changes() -> None:
    plan = plan_of(0, 1, 2)
    plan.next()
    plan.answered(9)
    assert plan.next() == PlannedFetch(9, 1, ())
    plan.answered(9)
    plan.want(key(1), wanted(5))
    plan.want(key(2), wanted(0))
    plan.forget(key(0))
    plan.want(key(3), wanted(7))
    planned = plan.next()
    assert (planned.session_id, planned.session_epoch) == (9, 2)
    assert listed(planned) == [(1, 5), (3, 7)]
    assert planned.forgotten == ((key(0), TOPIC),)


def test_a_partition_that_leaves_and_returns_between_two_requests_is_only_listed() -> None:
    plan = plan_of(0)
    plan.next()
    plan.answered(9)
    plan.forget(key(0))
    plan.want(key(0), wanted(3))
    plan.want(key(1), wanted(3))
    plan.forget(key(1))
    planned = plan.next()
    assert (listed(planned), planned.forgotten) == ([(0, 3)], ())


def test_a_later_topic_of_the_same_name_takes_the_place_of_the_first() -> None:
    plan = plan_of(0)
    plan.next()
    plan.answered(9)
    plan.want(key(0), wanted(0, LATER_TOPIC))
    planned = plan.next()
    assert (listed(planned), planned.forgotten) == ([(0, 0)], ((key(0), TOPIC),))


def test_without_a_session_every_request_is_full() -> None:
    plan = plan_of(0, 1)
    for _ in range(3):
        assert listed(plan.next()) == [(0, 0), (1, 0)]
        plan.answered(0)


def test_without_a_session_a_partition_with_records_moves_to_the_end() -> None:
    plan = plan_of(0, 1, 2)
    plan.had_records([key(0), key(9)])
    assert [partition for partition, _ in listed(plan.next())] == [1, 2, 0]


def test_an_unknown_session_is_replaced_and_another_error_closes_it() -> None:
    for code, session_id in (
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),
    ):
        plan = plan_of(0)
        plan.next()
        plan.answered(9)
        plan.next()
        plan.refused(code)
        planned = plan.next()
        assert (planned.session_id, planned.session_epoch, listed(planned)) == (session_id, 0, [(0, 0)])


def test_a_lost_answer_and_a_new_leader_begin_another_session() -> None:
    plan = plan_of(0)
    plan.next()
    plan.answered(9)
    plan.lost()
    assert (plan.next().session_id, plan.next().session_epoch) == (9, 0)
    plan.begin()
    assert (plan.next().session_id, plan.next().session_epoch) == (0, 0)


def test_the_epoch_of_a_session_wraps_to_one() -> None:
    plan = plan_of(0)
    plan.next()
    plan.answered(9)
    plan._session_epoch = 2**31 - 1
    plan.next()
    plan.answered(9)
    assert plan.next().session_epoch == 1


def test_a_forgotten_partition_is_not_planned() -> None:
    plan = plan_of(0, 1)
    plan.forget(key(0))
    plan.forget(key(5))
    assert (len(plan), key(0) in plan, key(1) in plan) == (1, False, True)
    assert listed(plan.next()) == [(1, 0)]
