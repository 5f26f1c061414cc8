"""Several controllers and brokers under faults; each seed is one story, the same every time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.server.quorum.metadata_log import MetadataLog
from simulation.world.quorum_story import run_seed

SEEDS_UNTIL_NOTICED = 40


def test_no_acknowledged_topic_is_lost_and_committed_metadata_never_changes(sim_seed: int) -> None:
    outcome = run_seed(sim_seed)
    assert outcome.epochs >= 2, "no controller ever failed over: the story tests nothing"
    assert outcome.acknowledged > 0, "no topic was ever created: the story tests nothing"
    assert outcome.compared_images > 0, "no two nodes ever had the same offset: the story compares nothing"


def test_a_seed_tells_the_same_story_again() -> None:
    assert run_seed(3) == run_seed(3)


# The simulation is worth what it catches: each of these bugs loses a promise of the quorum.


def _metadata_not_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records count as durable before they are."""
    monkeypatch.setattr(MetadataLog, "flush", lambda self: self.end_offset)


def _votes_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node forgets its epoch and its vote when it stops."""
    monkeypatch.setattr(MetadataLog, "write_election_state", lambda _self, _state: None)


# The first seeds are those that noticed the bugs when they were chosen: each seed without a finding takes seconds.
@pytest.mark.parametrize(("bug", "first_seed"), [(_metadata_not_flushed, 9), (_votes_forgotten, 4)])
def test_a_broken_rule_is_noticed(
    bug: Callable[[pytest.MonkeyPatch], None], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(first_seed, first_seed + SEEDS_UNTIL_NOTICED):
            run_seed(seed)
