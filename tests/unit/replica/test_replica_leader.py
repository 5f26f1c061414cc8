"""High watermark, in-sync replicas and the answer to a produce that waited, as values.

tests/scenario/replica_*.txt tell the same rules as stories; here are the edges.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.model.ids import BrokerId
from kcli.model.request_values import ACKS_ALL
from kcli.replica.isr import Isr, effective_min_isr
from kcli.replica.leader import FollowerState, LeaderState, begin_term


def leader(replicas: tuple[int, ...] = (1,), isr: tuple[int, ...] = (1,), min_isr: int = 1) -> LeaderState:
    return begin_term(
        node_id=1,
        replicas=replicas,
        isr=isr,
        leader_epoch=5,
        partition_epoch=7,
        start_offset=0,
        min_insync_replicas=min_isr,
    )


def with_isr(state: LeaderState, *isr: int) -> LeaderState:
    return state.with_partition(replicas=state.replicas, isr=isr, partition_epoch=state.partition_epoch + 1)


def high_watermark(state: LeaderState, current: int, log_end_offset: int, **ends: Any) -> int:
    followers = state.new_followers(0)
    followers |= {BrokerId(int(name[1:])): FollowerState(0, end_offset) for name, end_offset in ends.items()}
    return state.high_watermark(current, log_end_offset, followers)


def test_alone_every_append_is_committed() -> None:
    assert high_watermark(leader(), 0, 10) == 10


def test_the_high_watermark_never_goes_back() -> None:
    assert high_watermark(leader(), 10, 7) == 10


def test_it_follows_the_slowest_in_sync_replica() -> None:
    state = leader(replicas=(1, 2, 3), isr=(1, 2))
    assert high_watermark(state, 0, 10, n2=6, n3=2) == 6
    assert high_watermark(state, 8, 10, n2=6, n3=2) == 8


def test_an_in_sync_replica_that_has_not_fetched_yet_holds_it_back() -> None:
    assert high_watermark(leader(replicas=(1, 2, 3), isr=(1, 2, 3)), 3, 10, n2=10) == 3


def test_it_stands_still_below_min_insync_replicas() -> None:
    state = leader(replicas=(1, 2), isr=(1,), min_isr=2)
    assert not state.isr.is_sufficient
    assert high_watermark(state, 3, 10) == 3


@pytest.mark.parametrize(("replicas", "required"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_min_insync_replicas_is_capped_by_the_replica_count(replicas: int, required: int) -> None:
    assert effective_min_isr(3, replicas=replicas) == required


def test_a_follower_ahead_of_the_leader_does_not_count_beyond_its_end() -> None:
    assert high_watermark(leader(replicas=(1, 2), isr=(1, 2)), 0, 10, n2=99) == 10


def test_only_a_replica_can_lead() -> None:
    with pytest.raises(AssertionError, match="cannot lead"):
        begin_term(
            node_id=4,
            replicas=(1,),
            isr=(1,),
            leader_epoch=0,
            partition_epoch=0,
            start_offset=0,
            min_insync_replicas=1,
        )


def test_a_change_makes_a_new_value_and_keeps_the_rest() -> None:
    state = leader(replicas=(1, 2, 3), isr=(1, 2), min_isr=2)
    assert with_isr(state, 1).isr == Isr((1,), required=2)
    assert state.with_min_insync_replicas(9).isr == Isr((1, 2), required=3)
    assert state.isr == Isr((1, 2), required=2)
    assert with_isr(state, 1).leader_epoch == 5


def test_only_acks_all_asks_for_enough_replicas() -> None:
    state = leader(replicas=(1, 2), isr=(1,), min_isr=2)
    assert [state.accepts(acks) for acks in (ACKS_ALL, 0, 1)] == [False, True, True]
    assert with_isr(state, 1, 2).accepts(ACKS_ALL)


def test_a_produce_that_waited_is_answered_by_what_became_of_it() -> None:
    state = leader(replicas=(1, 2), isr=(1, 2), min_isr=2)
    assert state.produce_outcome(10, 9) is ErrorCode.REQUEST_TIMED_OUT
    assert state.produce_outcome(10, 10) is ErrorCode.NONE
    assert with_isr(state, 1).produce_outcome(10, 10) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
