"""Timers against a plain model, the hash that all brokers share, and the making of a Ready."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.coordinator.hashing import java_hash, partition_for
from kcli.coordinator.runtime import Step, Timers


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
def test_java_hash(text: str, value: int, of_fifty: int) -> None:
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


def test_a_step_has_one_continuation() -> None:
    step: Step[str] = Step(5)
    step.append("a", lambda _code, _now_ms: Step[str](0).ready())
    step.append("b")
    with pytest.raises(AssertionError, match="one continuation"):
        step.append("c", lambda _code, _now_ms: Step[str](0).ready())
    ready = step.ready()
    assert ready.records[:2] == ("a", "b")
    assert ready.on_written is not None
