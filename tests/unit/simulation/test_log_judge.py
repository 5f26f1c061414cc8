"""The judge of sends and polls finds each anomaly in a history that has it, and no anomaly in a correct history."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from simulation.checks.log_judge import ALLOWED, Finding, Verdict, duplicate_places, judge
from simulation.checks.operations import (
    Action,
    History,
    Operation,
    Outcome,
    Polled,
    Producer,
    Protocol,
    Sent,
    load,
    save,
)

P, Q = 0, 1


def write(
    process: str,
    text: str,
    outcome: Outcome = Outcome.COMMITTED,
    *,
    at: float = 0.0,
    protocol: Protocol = Protocol.TV2,
) -> Operation:
    """A transaction from `at` to `at + 1`. `text` has partition, value and offset of each record: `p=a@3 q=b`."""
    return operation(process, [_sent(each) for each in text.split()], outcome, at=at, protocol=protocol)


def operation(
    process: str,
    actions: list[Action],
    outcome: Outcome = Outcome.COMMITTED,
    *,
    at: float = 0.0,
    protocol: Protocol = Protocol.TV2,
) -> Operation:
    return Operation(
        process,
        at,
        outcome,
        asked=math.inf if outcome is Outcome.ABORTED else at + 0.5,
        ended=at + 1 if outcome is Outcome.COMMITTED else math.inf,
        protocol=protocol,
        actions=actions,
    )


def poll(
    process: str,
    *texts: str,
    at: float = 9.0,
    session: int = 0,
    position: int | None = None,
    reads_uncommitted: bool = False,
) -> Operation:
    """A poll of a consumer. Each text is a partition with the values that it returned: `p: a@0 b@1`."""
    actions: list[Action] = [_polled(text, session, at, position) for text in texts]
    return Operation(
        process, at, Outcome.COMMITTED, at, at, reads_uncommitted=reads_uncommitted, actions=actions
    )


def _sent(text: str) -> Sent:
    name, _, rest = text.partition("=")
    value, _, offset = rest.partition("@")
    return Sent("pq".index(name), value, int(offset) if offset else None)


def _polled(text: str, session: int = 0, at: float = 9.0, position: int | None = None) -> Polled:
    name, _, rest = text.partition(":")
    pairs = tuple((int(each.split("@")[1]), each.split("@")[0]) for each in rest.split())
    return Polled("pq".index(name), pairs, session, at, position)


def found(*operations: Operation, ends: dict[int, int] | None = None) -> set[Finding]:
    return set(judge(History(operations, ends or {})).counts)


A = write("one", "p=a@0 q=b@0")
B = write("two", "p=c@2", at=2)
UNSURE = write("three", "p=d@4 q=e@2", Outcome.UNKNOWN, at=4)
DROPPED = write("four", "p=x@6", Outcome.ABORTED, at=4)
READ = poll("reader", "p: a@0 c@2 d@4", "q: b@0 e@2", position=0)


def test_a_correct_history_has_no_finding() -> None:
    assert found(A, B, UNSURE, DROPPED, READ, ends={P: 8, Q: 4}) == set()


def test_an_unknown_transaction_may_be_missing_completely() -> None:
    read = poll("reader", "p: a@0 c@2", "q: b@0", position=0)
    assert found(A, B, UNSURE, DROPPED, read, ends={P: 8, Q: 4}) == set()


def test_a_consumer_that_is_assigned_again_may_go_back() -> None:
    again = poll("reader", "p: a@0 c@2 d@4", session=1)
    assert found(A, B, UNSURE, READ, again) == set()


def test_a_read_uncommitted_consumer_may_return_open_transactions() -> None:
    early = poll("eager", "p: c@2", at=2.1, reads_uncommitted=True)
    assert found(A, B, UNSURE, READ, early) == set()


TWICE = (write("one", "p=c@2", protocol=Protocol.NONE), poll("reader", "p: c@2 c@3"))
"""A record of a producer without transactions that is in the log twice."""


@pytest.mark.parametrize(
    ("first", "second", "finding"),
    [
        (Producer(7, 0), Producer(7, 1), Finding.EPOCH_DUPLICATE),
        (Producer(7, 1), Producer(7, 1), Finding.DUPLICATE),
        (Producer(7, 0), Producer(8, 1), Finding.DUPLICATE),
    ],
)
def test_a_copy_in_a_later_epoch_of_the_producer_is_no_anomaly(
    first: Producer, second: Producer, finding: Finding
) -> None:
    history = History(TWICE, {}, {(P, 2): first, (P, 3): second})
    assert duplicate_places(history) == {(P, 2), (P, 3)}
    assert set(judge(history).counts) == {finding}


def test_a_copy_of_an_unknown_producer_is_a_duplicate() -> None:
    assert set(judge(History(TWICE, {}, {(P, 2): Producer(7, 0)})).counts) == {Finding.DUPLICATE}


def test_a_copy_of_a_transaction_is_a_duplicate() -> None:
    history = History((write("one", "p=c@2"), TWICE[1]), {}, {(P, 2): Producer(7, 0), (P, 3): Producer(7, 1)})
    assert set(judge(history).counts) == {Finding.DUPLICATE}


CASES: dict[str, tuple[Finding, tuple[Operation, ...], dict[int, int]]] = {
    "lost below a later poll": (Finding.LOST_WRITE, (A, B, poll("reader", "p: c@2", "q: b@0")), {}),
    "lost in a partition that was read to its end": (
        Finding.LOST_WRITE,
        (A, B, poll("reader", "p: a@0", "q: b@0")),
        {P: 4, Q: 2},
    ),
    "lost without an offset": (Finding.LOST_WRITE, (write("one", "p=a"), poll("r", "p:")), {P: 0}),
    "not seen yet": (Finding.UNSEEN, (A, B, poll("reader", "p: a@0", "q: b@0")), {}),
    "aborted read": (Finding.ABORTED_READ, (DROPPED, poll("reader", "p: x@6")), {}),
    "read before the commit": (Finding.EARLY_READ, (B, poll("reader", "p: c@2", at=2.1)), {}),
    "torn": (Finding.TORN, (UNSURE, poll("reader", "p: d@4", "q:")), {P: 6, Q: 4}),
    "twice in one partition": (Finding.DUPLICATE, (B, poll("reader", "p: c@2 c@3")), {}),
    "in two partitions": (Finding.DUPLICATE, (B, poll("reader", "p: c@2", "q: c@0")), {}),
    "never sent": (Finding.UNKNOWN_VALUE, (B, poll("reader", "p: c@2 z@3")), {}),
    "two values at one offset": (
        Finding.INCONSISTENT_OFFSET,
        (B, DROPPED, poll("reader", "p: c@2"), poll("other", "p: x@2")),
        {},
    ),
    "an answer and a poll disagree": (
        Finding.INCONSISTENT_OFFSET,
        (B, write("one", "p=f@2"), poll("reader", "p: c@2")),
        {},
    ),
    "poll goes back": (Finding.POLL_BACK, (A, B, poll("r", "p: c@2"), poll("r", "p: a@0")), {}),
    "poll repeats": (Finding.POLL_BACK, (A, B, poll("r", "p: c@2"), poll("r", "p: c@2")), {}),
    "poll skips": (
        Finding.POLL_SKIP,
        (A, B, UNSURE, poll("r", "p: a@0"), poll("r", "p: d@4"), poll("other", "p: c@2")),
        {},
    ),
    "poll skips from its start": (Finding.POLL_SKIP, (A, B, poll("r", "p: c@2", position=0)), {}),
    "poll goes back inside": (Finding.INTERNAL_POLL_BACK, (A, B, poll("r", "p: c@2 a@0")), {}),
    "poll skips inside": (
        Finding.INTERNAL_POLL_SKIP,
        (A, B, UNSURE, poll("r", "p: a@0 d@4"), poll("other", "p: c@2")),
        {},
    ),
    "second poll of a transaction goes back": (
        Finding.INTERNAL_POLL_BACK,
        (A, B, operation("r", [_polled("p: c@2"), _polled("p: a@0")], at=5)),
        {},
    ),
    "send goes back": (Finding.SEND_BACK, (write("one", "p=a@5"), write("one", "p=b@3", at=2)), {}),
    "send goes back inside": (Finding.INTERNAL_SEND_BACK, (write("one", "p=a@5 p=b@3"),), {}),
    "order against time": (Finding.TIME_ORDER, (write("one", "p=a@5"), write("two", "p=b@3", at=2)), {}),
    "read cycle": (
        Finding.READ_CYCLE,
        (
            operation("one", [_sent("p=a@0"), _polled("q: b@0")]),
            operation("two", [_sent("q=b@0"), _polled("p: a@0")]),
        ),
        {},
    ),
    "aborted value of a read_uncommitted consumer": (
        Finding.UNCOMMITTED_READ,
        (DROPPED, poll("r", "p: x@6", reads_uncommitted=True)),
        {},
    ),
    "lost write of the first protocol": (
        Finding.TV1_LOST_WRITE,
        (write("one", "p=a@0", protocol=Protocol.TV1), B, poll("reader", "p: c@2")),
        {},
    ),
    "aborted read of the first protocol": (
        Finding.TV1_ABORTED_READ,
        (write("one", "p=a@0", Outcome.ABORTED, protocol=Protocol.TV1), poll("reader", "p: a@0")),
        {},
    ),
    "torn transaction of the first protocol": (
        Finding.TV1_TORN,
        (
            write("one", "p=a@0 q=b@0", Outcome.UNKNOWN, protocol=Protocol.TV1),
            poll("reader", "p: a@0"),
        ),
        {P: 1, Q: 1},
    ),
    "write cycle": (
        Finding.WRITE_CYCLE,
        (write("one", "p=a@0 q=b@1"), write("two", "p=c@1 q=d@0")),
        {},
    ),
    "write and read cycle": (
        Finding.WRITE_READ_CYCLE,
        (
            operation("one", [_sent("p=a@0"), _polled("q: d@0")]),
            write("two", "p=c@1 q=d@0"),
        ),
        {},
    ),
    "cycle with a poll that lags": (
        Finding.LAG_CYCLE,
        (
            write("zero", "p=z@0 q=y@0", at=-2),
            operation("one", [_polled("p: z@0"), _sent("q=b@1")]),
            operation("two", [_polled("q: y@0"), _sent("p=c@1")]),
        ),
        {},
    ),
}


@pytest.mark.parametrize(("finding", "operations", "ends"), CASES.values(), ids=CASES.keys())
def test_each_anomaly_is_found(
    finding: Finding, operations: tuple[Operation, ...], ends: dict[int, int]
) -> None:
    assert finding in found(*operations, ends=ends)


def test_every_kind_of_finding_has_a_case() -> None:
    of_producers = {Finding.EPOCH_DUPLICATE}  # a case needs the producers of the log
    assert {finding for finding, _, _ in CASES.values()} | of_producers == set(Finding)


def test_only_broken_promises_are_anomalies() -> None:
    verdict = Verdict()
    for finding in Finding:
        verdict.add(finding, "text")
    assert set(verdict.anomalies) == set(Finding) - ALLOWED


def test_a_verdict_counts_all_findings_and_describes_the_first_ones() -> None:
    lost = [write("one", f"p=v{number}@{number}", at=number) for number in range(50)]
    verdict = judge(History(tuple(lost), {P: 50}))
    assert verdict.count(Finding.LOST_WRITE) == 50
    assert 0 < len(verdict.texts[Finding.LOST_WRITE]) < 50


def test_a_history_is_the_same_after_it_was_saved(tmp_path: Path) -> None:
    producers = {(P, 2): Producer(7, 0), (P, 3): Producer(7, 1)}
    history = History((A, B, UNSURE, DROPPED, READ), {P: 8, Q: 4}, producers)
    save(history, tmp_path / "history")
    assert load(tmp_path / "history") == history
