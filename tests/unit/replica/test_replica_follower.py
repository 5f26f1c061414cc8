"""A follower's decisions as a table: the leader's answer, the follower's log, and the action."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.replica.follower import (
    DOUBLINGS_MAX,
    Action,
    Answer,
    Append,
    AskEnd,
    AskStart,
    BackOff,
    Cut,
    Fail,
    FollowedState,
    Ignore,
    OwnLog,
    Phase,
    Restart,
    begin,
    on_answer,
    on_leader_end,
    on_leader_start,
    on_offsets_error,
)


def own(
    end: int = 10,
    epochs: tuple[tuple[int, int], ...] = ((1, 0), (3, 4), (5, 8)),
    *,
    start: int = 0,
    high_watermark: int = 6,
) -> Any:
    """A log with the epochs (epoch, start offset)."""

    def end_of_epoch(epoch: int) -> tuple[int, int]:
        if not epochs or epoch > epochs[-1][0]:
            return -1, -1
        ends = [each[1] for each in epochs[1:]] + [end]
        known = [(each[0], ends[nth]) for nth, each in enumerate(epochs) if each[0] <= epoch]
        return known[-1] if known else (epoch, epochs[0][1])

    latest: Any = epochs[-1][0] if epochs else -1
    return OwnLog(start, end, high_watermark, latest, end_of_epoch)


STATE: Any = begin(7, own())[0]


def decide(answer: Any, log: OwnLog | None = None, state: FollowedState = STATE) -> Action:
    return on_answer(state, state, answer, log or own())


def diverging(epoch: Any, end_offset: Any) -> Answer:
    return Answer(diverging_epoch=epoch, diverging_end_offset=end_offset)


def test_fetching_begins_at_the_log_end_with_the_last_epoch() -> None:
    state, cut = begin(7, own())
    assert (state.fetch_offset, state.last_fetched_epoch, state.leader_epoch) == (10, 5, 7)
    assert (state.phase, state.lag, cut) == (Phase.FETCHING, None, None)


def test_a_log_without_epochs_first_drops_what_is_not_committed() -> None:
    state, cut = begin(7, own(epochs=()))
    assert (state.phase, cut) == (Phase.CUTTING, Cut(6, below_high_watermark=False))
    assert begin(7, own(6, epochs=()))[1] is None


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (Answer(high_watermark=9, log_start_offset=2), Append(9, 2)),
        (diverging(3, 7), Cut(7, False)),  # both have epoch 3; the leader's end is lower
        (diverging(3, 9), Cut(8, False)),  # both have epoch 3; our end is lower
        (diverging(3, 5), Cut(5, True)),  # committed records are dropped
        (diverging(4, 7), Cut(8, False)),  # we do not have epoch 4: cut to our end of epoch 3, and ask again
        (diverging(2, 3), Cut(4, True)),
        (diverging(0, 0), Cut(0, True)),  # the leader ends before our first epoch
        (diverging(6, 9), Cut(9, False)),  # an epoch that no answer should have
        (diverging(6, 99), Cut(10, False)),
        (diverging(3, -1), Cut(6, False)),  # an epoch without an end: keep what is committed
        (Answer(ErrorCode.OFFSET_OUT_OF_RANGE), AskEnd()),
        (Answer(ErrorCode.FENCED_LEADER_EPOCH), Fail("the leader epoch 7 is fenced", is_usual=True)),
        (Answer(ErrorCode.UNKNOWN_LEADER_EPOCH), BackOff("UNKNOWN_LEADER_EPOCH", is_usual=True)),
        (Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER), BackOff("NOT_LEADER_OR_FOLLOWER", is_usual=True)),
        (Answer(ErrorCode.UNKNOWN_TOPIC_ID), BackOff("UNKNOWN_TOPIC_ID", is_usual=True)),
        (Answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), BackOff("UNKNOWN_TOPIC_OR_PARTITION", is_usual=True)),
        (Answer(ErrorCode.INCONSISTENT_TOPIC_ID), BackOff("INCONSISTENT_TOPIC_ID")),
        (Answer(ErrorCode.CORRUPT_MESSAGE), BackOff("CORRUPT_MESSAGE")),
        (Answer(ErrorCode.KAFKA_STORAGE_ERROR), BackOff("KAFKA_STORAGE_ERROR")),
    ],
)
def test_the_action_for_an_answer(answer: Any, action: Action) -> None:
    assert decide(answer) == action


def test_a_negative_end_of_a_known_epoch_is_no_offset() -> None:
    assert isinstance(decide(diverging(3, -5)), BackOff)


def test_an_answer_to_an_earlier_state_is_ignored() -> None:
    answer: Any = Answer(high_watermark=9)
    later: Any = 11
    assert on_answer(STATE, replace(STATE, fetch_offset=later), answer, own()) == Ignore()
    older: Any = replace(STATE, leader_epoch=6)
    fenced = Answer(ErrorCode.FENCED_LEADER_EPOCH)
    assert on_answer(STATE, older, fenced, own()) == Ignore()
    for phase in (Phase.CUTTING, Phase.ASKING, Phase.FAILED):
        assert decide(answer, state=STATE.during(phase)) == Ignore()


def test_out_of_range_compares_first_the_ends_and_then_the_starts() -> None:
    assert on_leader_end(8, own()) == Cut(8, False)
    assert on_leader_end(2, own()) == Cut(2, True)
    assert isinstance(on_leader_end(-1, own()), BackOff)
    assert on_leader_end(10, own()) == AskStart()
    assert on_leader_start(11, own()) == Restart(11)
    assert isinstance(on_leader_start(10, own()), BackOff)


def test_a_refused_question_about_the_ends_waits_or_fails() -> None:
    assert isinstance(on_offsets_error(ErrorCode.FENCED_LEADER_EPOCH, STATE), Fail)
    assert isinstance(on_offsets_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, STATE), BackOff)


def test_the_pause_after_a_usual_error_is_short_and_doubles_until_an_answer_without_error() -> None:
    usual, bad = BackOff("UNKNOWN_LEADER_EPOCH", is_usual=True), BackOff("CORRUPT_MESSAGE")
    state, pauses = STATE, []
    for _ in range(30):
        pauses.append(state.pause_ms(usual, 1000))
        assert state.pause_ms(bad, 1000) == 1000
        state = state.delayed(5)
    assert pauses[:7] == [20, 40, 80, 160, 320, 640, 1000]
    assert set(pauses[7:]) == {1000}
    assert state.pause_ms(usual, 10**12) == 20 << DOUBLINGS_MAX
    assert state.after(own()).pause_ms(usual, 1000) == 20
    assert STATE.pause_ms(usual, 5) == 5


def test_the_lag_is_what_the_leader_committed_and_we_lack() -> None:
    state = STATE.after(own(), leader_high_watermark=14)
    assert (state.lag, state.is_caught_up) == (4, False)
    state = state.after(own(14), leader_high_watermark=14)
    assert (state.lag, state.is_caught_up, state.fetch_offset) == (0, True, 14)
    assert STATE.after(own(20), leader_high_watermark=14).lag == 0
    assert not STATE.is_caught_up
