"""Several controllers and brokers under faults; each seed is one story, the same every time."""

from __future__ import annotations

from kcli.testing.sim.quorum_story import run_seed


def test_no_acknowledged_topic_is_lost_and_committed_metadata_never_changes(sim_seed: int) -> None:
    outcome = run_seed(sim_seed)
    assert outcome.epochs >= 2, "no controller ever failed over: the story tests nothing"
    assert outcome.acknowledged > 0, "no topic was ever created: the story tests nothing"
    assert outcome.compared_images > 0, "no two nodes ever had the same offset: the story compares nothing"


def test_a_seed_tells_the_same_story_again() -> None:
    assert run_seed(3) == run_seed(3)
