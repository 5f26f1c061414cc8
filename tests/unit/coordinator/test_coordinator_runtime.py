"""Timers against a plain model, the hash that all brokers share, and the making of a Ready."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.coordinator.hashing import REMEMBERED_HASHES, java_hash, partition_for
from kcli.coordinator.runtime import Step, Timers
from kcli.errors import ErrorCode, NotCoordinatorException


@pytest.mark.parametrize(
    ("text", "value", "of_fifty"),
    [
        ("", 0, 0),
        ("my-group", -1906497762, 12),
        ("test", 3556498, 48),
        ("g-consumer", 935103132, 32),
        ("日本", 835047, 47),
        ("polygenelubricants", -(2**31), 0),  # its absolute value does not fit in an int
        ("\U0001f600", 1772899, 49),  # two UTF-16 units
    ],
)
def test_the_hash_of_a_group_id_equals_the_hash_of_java(text: str, value: int, of_fifty: int) -> None:
    assert java_hash(text) == value
    assert partition_for(text, 50) == of_fifty


def test_a_timer_fires_once_and_in_order() -> None:
    timers = Timers()
    timers.schedule("b", 20)
    timers.schedule("a", 10)
    timers.schedule("c", 20)
    assert timers.next_deadline_ms == 10
    assert timers.pop_expired(9) is None
    assert [timers.pop_expired(20) for _ in range(4)] == ["a", "b", "c", None]
    assert timers.next_deadline_ms is None


def test_a_moved_or_cancelled_timer_does_not_fire_at_its_old_time() -> None:
    timers = Timers()
    timers.schedule("later", 10)
    timers.schedule("later", 30)
    timers.schedule("sooner", 50)
    timers.schedule("sooner", 20)
    timers.schedule("gone", 15)
    timers.cancel("gone")
    timers.cancel("never there")
    assert timers.pop_expired(19) is None
    assert timers.pop_expired(29) == "sooner"
    assert timers.pop_expired(29) is None
    assert timers.pop_expired(30) == "later"
    assert timers.pop_expired(1000) is None


_KEYS = st.sampled_from("abcd")
_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), _KEYS, st.integers(0, 50)),
        st.tuples(st.just("cancel"), _KEYS, st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(0, 20)),
    )
)


@given(_ACTIONS)
def test_timers_do_what_a_table_of_deadlines_would(actions: list[tuple[str, str, int]]) -> None:
    timers, model, now_ms = Timers(), {}, 0
    for action, key, amount in actions:
        if action == "schedule":
            timers.schedule(key, now_ms + amount)
            model[key] = now_ms + amount
        elif action == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            now_ms += amount
            fired: list[Any] = []
            while (expired := timers.pop_expired(now_ms)) is not None:
                fired.append(expired)
            due = {name for name, deadline in model.items() if deadline <= now_ms}
            assert set(fired) == due
            assert len(fired) == len(due)
            assert [model[name] for name in fired] == sorted(model[name] for name in fired)
            for name in due:
                del model[name]
        if model:
            assert timers.next_deadline_ms is not None
            assert timers.next_deadline_ms <= min(model.values()), "woken too late"


def test_every_part_of_a_step_hears_of_the_write_in_order() -> None:
    step: Step[str, str] = Step(5)
    step.append("a")
    step.when_written(lambda code, then: then.append(f"after a: {code.name}"))
    step.append("b")
    step.when_written(lambda code, then: then.send(f"b at {then.now_ms}"))
    ready = step.ready()
    assert ready.records == ("a", "b")
    after = ready.written(ErrorCode.NONE, 7)
    assert (after.records, after.sends, after.continuations) == (("after a: NONE",), ("b at 7",), ())


def test_a_failed_step_is_undone_and_sends_nothing() -> None:
    step: Step[str, str] = Step(5)
    heard = []
    step.when_written(lambda code, then: heard.append((code, then.now_ms)))
    step.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert heard == [(ErrorCode.UNKNOWN_SERVER_ERROR, 5)]


class Parked:
    """A request that waits; `closed`: its connection is gone."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self.answers: list[object] = []

    def done(self) -> bool:
        return self.closed

    def set_result(self, result: object, /) -> None:
        self.answers.append(result)

    def set_exception(self, exception: BaseException, /) -> None:
        self.answers.append(exception)


def test_a_reply_reaches_a_request_that_still_waits() -> None:
    waiting, closed, refused = Parked(), Parked(closed=True), Parked()
    step: Step[str, str] = Step(0)
    for token in (waiting, closed, refused):
        step.reply(token, "answer")
    error = NotCoordinatorException()
    first, second, third = step.ready().replies
    first.deliver()
    second.deliver()
    second.refuse(error)
    third.refuse(error)
    assert (waiting.answers, closed.answers, refused.answers) == (["answer"], [], [error])


def test_hash_codes_are_remembered_for_a_bounded_number_of_texts() -> None:
    before = java_hash.cache_info()
    for _ in range(2):
        java_hash("a member id that no other test uses")
    after = java_hash.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)
    assert after.maxsize == REMEMBERED_HASHES
