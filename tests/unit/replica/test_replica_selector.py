"""Which replica a consumer is sent to."""

from __future__ import annotations

from kcli.config.start_up import REPLICA_SELECTORS
from kcli.model.ids import BrokerId, Offset
from kcli.replica.selector import SELECTORS, Candidate, leader_only, rack_aware


def follower(broker: int, rack: str | None, end: int = 10, caught_up_ms: int = 0) -> Candidate:
    return Candidate(BrokerId(broker), rack, Offset(end), caught_up_ms)


def test_a_consumer_in_the_leaders_rack_reads_from_the_leader() -> None:
    assert rack_aware("a", "a", [follower(2, "a")]) is None


def test_a_consumer_without_a_rack_reads_from_the_leader() -> None:
    assert rack_aware("", "a", [follower(2, ""), follower(3, None)]) is None


def test_a_consumer_in_a_rack_without_replicas_reads_from_the_leader() -> None:
    assert rack_aware("c", "a", [follower(2, "b"), follower(3, None)]) is None


def test_the_longest_log_in_the_rack_is_chosen() -> None:
    assert rack_aware("b", "a", [follower(2, "b", 10), follower(3, "b", 12), follower(4, "c", 99)]) == 3


def test_among_equal_logs_the_one_that_caught_up_last_is_chosen() -> None:
    near = [follower(2, "b", caught_up_ms=70), follower(3, "b", caught_up_ms=60)]
    assert rack_aware("b", None, near) == 2


def test_the_leader_selector_never_sends_a_consumer_away() -> None:
    assert leader_only("b", "a", [follower(2, "b")]) is None


def test_every_configurable_selector_exists() -> None:
    assert set(SELECTORS) == set(REPLICA_SELECTORS)
