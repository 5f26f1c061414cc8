"""Rules of replication that are broken on purpose: the stories are worth what they notice.

Each rule has the seed of a story that noticed its absence. To look for the first such seed of each rule again:

    PYTHONPATH=. python tests/sim/test_sim_replication_breaks.py 60 no_truncation
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container

import pytest

from kcli.errors import ErrorCode
from kcli.model.ids import Offset
from kcli.replica.leader import Followers, LeaderState
from kcli.replica.waiting import CommitQueue
from kcli.server.handlers.shared import partition_reads
from kcli.testing.sim.replication_story import run_seed


def acks_before_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A producer gets its answer when the leader has appended its records."""
    patch.setattr(CommitQueue, "wait_for", lambda _queue, _offset, waiter: waiter())
    patch.setattr(LeaderState, "produce_outcome", lambda *_: ErrorCode.NONE)


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps the records that its leader does not have, because nothing compares the epochs of the logs."""
    patch.setattr(partition_reads, "_divergence", lambda *_: None)


def high_watermark_of_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark does not wait for followers."""

    def high_watermark(
        state: LeaderState, current: Offset, end: Offset, _: Followers, joining: Container[int] = ()
    ) -> Offset:
        return max(current, end) if state.isr.is_sufficient else current

    patch.setattr(LeaderState, "high_watermark", high_watermark)


def joins_the_isr_too_early(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR with its first fetch, whatever it has."""
    patch.setattr(
        LeaderState,
        "may_join",
        lambda state, replica, *_: state.change is None and replica not in state.isr.members,
    )


RULES: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    acks_before_the_high_watermark: 0,
    no_truncation: 5,
    high_watermark_of_the_leader_alone: 0,
    joins_the_isr_too_early: 1,
}


@pytest.mark.parametrize(("break_rule", "seed"), RULES.items())
def test_a_broken_rule_is_noticed(
    break_rule: Callable[[pytest.MonkeyPatch], None], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_rule(monkeypatch)
    assert _notices(seed), f"{break_rule.__name__} went unnoticed"


def _notices(seed: int) -> str:
    """The error by which the story of a seed noticed a broken rule, or ''."""
    try:
        run_seed(seed)
    except AssertionError as error:
        return str(error)
    except ExceptionGroup as group:
        found = group.subgroup(AssertionError)
        assert found is not None, f"{group}"
        return str(found.exceptions[0])
    return ""


def main(seeds: int, *names: str) -> None:
    for break_rule in RULES:
        if names and break_rule.__name__ not in names:
            continue
        with pytest.MonkeyPatch.context() as patch:
            break_rule(patch)
            for seed in range(seeds):
                if notice := _notices(seed):
                    print(f"{break_rule.__name__}: seed {seed}: {notice[:300]}", flush=True)
                    break
            else:
                print(f"{break_rule.__name__}: not noticed by {seeds} seeds", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
