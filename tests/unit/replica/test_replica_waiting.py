"""Which waiters are due: in which order, and when a fetch asks for the true size."""

from __future__ import annotations

from kcli.replica.waiting import CommitQueue, FetchWait, ProduceWait


def test_commits_are_due_in_offset_order_and_then_in_order_of_arrival() -> None:
    queue = CommitQueue()
    for offset, name in ((5, "b"), (3, "a"), (5, "c"), (9, "d")):
        queue.wait_for(offset, name)
    assert queue.due(2) == []
    assert queue.due(5) == ["a", "b", "c"]
    assert len(queue) == 1
    assert queue.due(5) == []


def test_at_the_end_of_the_leadership_all_are_due_in_order() -> None:
    queue = CommitQueue()
    for offset, name in ((9, "c"), (5, "a"), (5, "b")):
        queue.wait_for(offset, name)
    assert queue.end() == ["a", "b", "c"]
    assert (len(queue), queue.end(), queue.due(99)) == (0, [], [])


def test_waiters_are_never_compared() -> None:
    queue = CommitQueue()
    waiters = [object(), object()]
    for waiter in waiters:
        queue.wait_for(5, waiter)
    assert queue.due(5) == waiters


def test_a_dropped_waiter_is_never_due() -> None:
    queue = CommitQueue()
    dropped = [queue.wait_for(offset, "x") for offset in (1, 3)]
    queue.wait_for(1, "a")
    queue.wait_for(4, "b")
    for wait in dropped:
        wait.drop()
    assert queue.due(2) == ["a"]
    assert queue.end() == ["b"]


def test_a_fetch_is_measured_only_when_its_bound_is_reached() -> None:
    wait = FetchWait(min_bytes=100, size_bytes=40)
    assert not wait.appended(30), "40 + 30 cannot be 100"
    assert wait.appended(50)
    assert not wait.measured(70), "only 70 of it may be read"
    assert not wait.appended(29), "the bound is 70 + 29 now"
    assert wait.appended(1)
    assert wait.measured(100)


def test_a_produce_waits_for_all_its_partitions() -> None:
    wait = ProduceWait(2)
    assert not wait.committed()
    assert wait.committed()
