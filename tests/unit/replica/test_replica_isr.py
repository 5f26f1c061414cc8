"""The ISR of a leader as values: who has caught up, who may join, who must leave, and answers of the controller."""

from __future__ import annotations

from functools import partial

import pytest

from kcli.errors import ErrorCode
from kcli.replica.isr import Isr, Reaction, expansion, reaction_to, reduction
from kcli.replica.leader import NEVER_MS, FollowerState, LeaderState, begin_term

LAG_MS = 30_000


def leader(isr: tuple[int, ...] = (1, 2), *, start: int = 0, min_isr: int = 1) -> LeaderState:
    return begin_term(
        node_id=1,
        replicas=(1, 2, 3),
        isr=isr,
        leader_epoch=4,
        partition_epoch=10,
        start_offset=start,
        min_insync_replicas=min_isr,
    )


def answer(value: bool, *_arguments: object) -> bool:
    return value


def fetch(state: FollowerState, end: int, leader_end: int, now_ms: int) -> FollowerState:
    return state.fetched(
        log_start_offset=0, log_end_offset=end, broker_epoch=7, leader_end_offset=leader_end, now_ms=now_ms
    )


@pytest.mark.parametrize(
    ("fetches", "caught_up_ms"),
    [
        ([(10, 10, 100)], 100),  # at the log end
        ([(5, 10, 100)], NEVER_MS),  # behind
        ([(5, 10, 100), (10, 20, 200)], 100),  # the log end of the fetch before
        ([(5, 10, 100), (9, 20, 200)], NEVER_MS),
        ([(10, 10, 100), (10, 20, 200)], 100),
        ([(10, 10, 100), (10, 20, 200), (15, 30, 300)], 100),  # 20 was the end at the fetch before
        ([(10, 10, 100), (10, 20, 200), (20, 30, 300), (30, 40, 400)], 300),
        ([(10, 10, 100), (0, 10, 200)], 100),  # a follower that truncates keeps the time
        ([(12, 10, 100)], 100),
    ],
)
def test_a_follower_had_caught_up_at_this_fetch_or_at_the_one_before(
    fetches: list[tuple[int, int, int]], caught_up_ms: int
) -> None:
    state = FollowerState()
    for end, leader_end, now_ms in fetches:
        state = fetch(state, end, leader_end, now_ms)
    assert state.caught_up_ms == caught_up_ms


@pytest.mark.parametrize(
    ("end", "caught_up_ms", "now_ms", "caught_up"),
    [
        (10, NEVER_MS, 0, True),
        (9, 0, LAG_MS, True),
        (9, 0, LAG_MS + 1, False),
        (9, NEVER_MS, 0, False),
        (10, 0, 10 * LAG_MS, True),  # an idle leader: the follower has everything
    ],
)
def test_a_follower_has_caught_up_within_the_lag_time(
    end: int, caught_up_ms: int, now_ms: int, caught_up: bool
) -> None:
    follower = FollowerState(log_end_offset=end, caught_up_ms=caught_up_ms)
    assert follower.has_caught_up(10, now_ms, LAG_MS) is caught_up


def test_members_of_the_isr_get_the_whole_lag_time_in_a_new_term() -> None:
    followers = leader().new_followers(500)
    assert followers == {2: FollowerState(caught_up_ms=500), 3: FollowerState(caught_up_ms=NEVER_MS)}
    assert leader().laggards(followers, 10, 500 + LAG_MS, LAG_MS) == ()
    assert leader().laggards(followers, 10, 501 + LAG_MS, LAG_MS) == (2,)


def test_the_next_term_of_the_same_leader_keeps_the_log_ends() -> None:
    before = fetch(FollowerState(), 5, 10, 100)
    inside = before.in_next_term(in_isr=True, leader_end_offset=12, now_ms=900)
    outside = before.in_next_term(in_isr=False, leader_end_offset=12, now_ms=900)
    assert (inside.log_end_offset, inside.broker_epoch, inside.caught_up_ms) == (5, 7, 900)
    assert (outside.log_end_offset, outside.caught_up_ms) == (5, NEVER_MS)
    # A fetch at the log end of the beginning shows that the follower had caught up then.
    assert fetch(outside, 12, 20, 1000).caught_up_ms == 900


@pytest.mark.parametrize(
    ("replica", "end", "high_watermark", "start", "may_join"),
    [
        (3, 10, 10, 0, True),
        (3, 9, 10, 0, False),  # it lacks a committed record
        (3, 10, 5, 10, True),
        (3, 9, 5, 10, False),  # it may have records of an older leader that this leader lacks
        (3, -1, 0, 0, False),
        (2, 10, 10, 0, False),  # it is a member
    ],
)
def test_a_follower_joins_the_isr_when_it_has_every_committed_record(
    replica: int, end: int, high_watermark: int, start: int, may_join: bool
) -> None:
    follower = FollowerState(log_end_offset=end)
    assert leader(start=start).may_join(replica, follower, high_watermark) is may_join


def test_one_change_is_in_flight() -> None:
    state = leader().expanded(3)
    assert not state.may_join(3, FollowerState(log_end_offset=10), 0)
    assert state.laggards(state.new_followers(0), 10, 10 * LAG_MS, LAG_MS) == ()
    for change in (lambda: state.expanded(3), lambda: state.reduced((2,))):
        with pytest.raises(AssertionError, match="one change"):
            change()


def test_a_joining_replica_counts_at_once_and_a_leaving_one_until_the_commit() -> None:
    followers = {2: FollowerState(log_end_offset=8), 3: FollowerState(log_end_offset=6)}
    state = leader()
    assert state.high_watermark(5, 10, followers) == 8
    joining = state.expanded(3)
    assert (joining.isr.members, joining.maximal_isr) == ((1, 2), (1, 2, 3))
    assert joining.high_watermark(5, 10, followers) == 6
    leaving = leader((1, 2, 3)).reduced((3,))
    assert (leaving.isr.members, leaving.maximal_isr) == ((1, 2, 3), (1, 2, 3))
    assert leaving.change is not None
    assert leaving.change.members == (1, 2)
    assert leaving.high_watermark(5, 10, followers) == 6
    done = leaving.with_partition(replicas=(1, 2, 3), isr=(1, 2), partition_epoch=11)
    assert (done.maximal_isr, done.partition_epoch, done.change) == ((1, 2), 11, None)
    assert done.high_watermark(5, 10, followers) == 8
    assert leaving.given_up().isr.members == (1, 2, 3)


def test_a_replica_that_is_about_to_join_holds_the_high_watermark() -> None:
    state = leader()
    near, far = FollowerState(0, 6, 7, caught_up_ms=0), FollowerState(0, 6, 7, caught_up_ms=-LAG_MS)
    for follower, eligible, joining, high_watermark in (
        (near, True, [3], 6),
        (near, False, [], 10),
        (far, True, [], 10),
    ):
        followers = {2: FollowerState(log_end_offset=10), 3: follower}
        found = state.joining(followers, partial(answer, eligible), LAG_MS - 1, LAG_MS)
        assert found == joining
        assert state.high_watermark(5, 10, followers, found) == high_watermark


def test_a_replica_that_left_the_isr_holds_nothing_back_until_it_has_caught_up_again() -> None:
    """The controller removes replicas of a failed log directory from the ISR, and their brokers stay alive."""
    left = FollowerState(0, 6, 7, caught_up_ms=0, fetched_ms=0, leader_end_offset=6).outside_isr()

    def joining(follower: FollowerState) -> list[int]:
        return [*leader().joining({3: follower}, partial(answer, True), 1, LAG_MS)]

    def fetched(follower: FollowerState, offset: int) -> FollowerState:
        return follower.fetched(
            log_start_offset=0, log_end_offset=offset, broker_epoch=7, leader_end_offset=10, now_ms=1
        )

    assert joining(left) == []
    assert joining(fetched(left, 6)) == [], "the fetch before it left does not count"
    assert joining(fetched(left, 10)) == [3]
    assert joining(fetched(fetched(left, 6), 10)) == [3]


def test_a_leader_never_leaves_its_own_isr() -> None:
    assert leader((1,)).laggards(leader((1,)).new_followers(0), 10, 10 * LAG_MS, LAG_MS) == ()
    with pytest.raises(AssertionError, match="in sync with itself"):
        leader().reduced((1,))


def test_the_maximal_isr_decides_on_a_produce_that_waited() -> None:
    """A leaving replica still counts for the answer, because it has the records."""
    state = leader((1, 2), min_isr=2)
    assert state.reduced((2,)).produce_outcome(5, 5) is ErrorCode.NONE
    small = leader((1,), min_isr=2)
    assert small.produce_outcome(5, 5) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert small.expanded(2).produce_outcome(5, 5) is ErrorCode.NONE
    # The committed ISR decides on new records, and whether the high watermark moves.
    assert not small.expanded(2).accepts(-1)
    assert small.expanded(2).high_watermark(3, 5, {2: FollowerState(log_end_offset=5)}) == 3


def test_fewer_replicas_need_fewer_in_sync() -> None:
    state = leader((1, 2, 3), min_isr=3)
    assert state.isr == Isr((1, 2, 3), required=3)
    assert state.with_partition(replicas=(1, 2), isr=(1, 2), partition_epoch=11).isr == Isr(
        (1, 2), required=2
    )


def test_changes_with_the_same_members_are_not_equal() -> None:
    isr = Isr((1, 2), 1)
    assert expansion(isr, 3) != expansion(isr, 3)
    assert expansion(isr, 3).expands
    assert not reduction(isr, (2,)).expands


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Reaction.GIVE_UP),
        (ErrorCode.INELIGIBLE_REPLICA, Reaction.GIVE_UP),
        (ErrorCode.UNKNOWN_TOPIC_ID, Reaction.AWAIT_METADATA),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Reaction.AWAIT_METADATA),
        (ErrorCode.FENCED_LEADER_EPOCH, Reaction.AWAIT_METADATA),
        (ErrorCode.INVALID_UPDATE_VERSION, Reaction.AWAIT_METADATA),
        (ErrorCode.INVALID_REQUEST, Reaction.AWAIT_METADATA),
        (ErrorCode.NEW_LEADER_ELECTED, Reaction.AWAIT_METADATA),
        (ErrorCode.NOT_CONTROLLER, Reaction.SEND_AGAIN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Reaction.SEND_AGAIN),
    ],
)
def test_reactions_to_a_refusal(error: ErrorCode, reaction: Reaction) -> None:
    assert reaction_to(error) is reaction
