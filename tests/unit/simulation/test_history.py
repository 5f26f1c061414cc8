"""The judge of histories finds what was planted, and nothing in what is right."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.checks.history import Outcome, Transaction, anomalies, write_cycles


def transaction(
    producer: str, number: int, writes: str, outcome: Outcome = Outcome.COMMITTED, *, at: float = 0.0
) -> Transaction:
    """`writes`: partition and value, `p1 q2`. It takes the time from `at` to `at + 1`."""
    ended = math.inf if outcome is Outcome.UNKNOWN else at + 1
    return Transaction(producer, number, at, outcome, ended, [(text[0], text[1:]) for text in writes.split()])


A = transaction("a", 0, "p1 q2 p3", at=0)
B = transaction("b", 0, "p4 q5", at=0.5)
C = transaction("c", 0, "p6", at=2)
ABORTED = transaction("d", 0, "q7", Outcome.ABORTED)
UNKNOWN = transaction("e", 0, "p8 q9", Outcome.UNKNOWN)
NEXT_OF_A = transaction("a", 1, "q0", at=0.9)
ALL = [A, B, C, ABORTED, UNKNOWN, NEXT_OF_A]


@pytest.mark.parametrize(
    ("p", "q"),
    [("1 3 4 6", "2 5 0"), ("1 4 3 6", "5 2 0"), ("4 1 3 8 6", "2 5 9 0"), ("1 3 4 6 8", "2 0 5 9")],
)
def test_a_history_without_anomalies_has_no_findings(p: str, q: str) -> None:
    assert anomalies(ALL, {"p": p.split(), "q": q.split()}) == []


@pytest.mark.parametrize(
    ("p", "q", "words"),
    [
        ("1 3 4 6", "2 0", "lost write: ('q', '5') of transaction 0 of b"),
        ("1 3 4 6", "2 5 7 0", "aborted read: '7'"),
        ("1 3 4 8 6", "2 5 0", "torn: ('q', '9')"),
        ("1 3 4 6 1", "2 5 0", "'1' is seen twice"),
        ("1 3 4 6", "2 5 0 x", "'x' in q was never written"),
        ("3 1 4 6", "2 5 0", "'3' of transaction 0 of a (committed) comes too early in p"),
        ("6 1 3 4", "2 5 0", "p has transaction 0 of c (committed) before transaction 0 of a"),
        ("1 3 4 6", "0 2 5", "q has transaction 1 of a (committed) before transaction 0 of a"),
        ("1 3 4 6 5", "2 0", "lost write: ('q', '5')"),
    ],
)
def test_each_anomaly_is_found(p: str, q: str, words: str) -> None:
    found = anomalies(ALL, {"p": p.split(), "q": q.split()})
    assert any(text.startswith(words) for text in found), found


def test_transactions_that_overwrite_each_other_form_a_write_cycle() -> None:
    turns = {"p": ["1", "3", "4"], "q": ["2", "5"]}
    assert write_cycles([A, B], turns) == []
    (cycle,) = write_cycles([A, B, C], {"p": ["1", "3", "4", "6"], "q": ["5", "2"]})
    assert {id(each) for each in cycle} == {id(A), id(B)}
    assert anomalies([A, B, C], {"p": ["1", "3", "4", "6"], "q": ["5", "2"]}) == []


@given(st.data())
def test_transactions_that_take_turns_have_neither_anomalies_nor_cycles(data: st.DataObject) -> None:
    log: dict[int, list[str]] = {0: [], 1: [], 2: []}
    done = []
    for number in range(data.draw(st.integers(1, 12))):
        outcome = data.draw(st.sampled_from(Outcome))
        one = Transaction(data.draw(st.sampled_from("ab")), number, number, outcome, number + 0.5)
        visible = outcome is Outcome.COMMITTED or (outcome is Outcome.UNKNOWN and data.draw(st.booleans()))
        for nth, partition in enumerate(data.draw(st.lists(st.integers(0, 2), max_size=4))):
            value = f"{number}-{nth}"
            one.writes.append((partition, value))
            if visible:
                log[partition].append(value)
        done.append(one)
    assert anomalies(done, log) == []
    assert write_cycles(done, log) == []
