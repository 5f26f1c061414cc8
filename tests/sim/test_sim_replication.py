"""Replicated topics under faults of nodes, networks and disks; each seed is one story, the same every time.

pytest tests/sim/test_sim_replication.py --sim-seed 48       # one story again
python -m kcli.testing.sim.replication_story 0 2000          # many stories, in all processors
"""

from __future__ import annotations

import pytest

from kcli.testing.sim.group_part import CLASSIC, CONSUMER, GroupSettings
from kcli.testing.sim.replication_story import run_seed


def test_replicas_keep_what_was_acknowledged_and_become_equal(replication_seed: int) -> None:
    outcome = run_seed(replication_seed)
    assert outcome.lives > len(outcome.faults), "no node ever failed: the story tests nothing"
    assert outcome.leader_changes > 0, "no partition ever changed its leader: the story tests nothing"
    assert outcome.isr_changes > 0, "no ISR ever changed: the story tests nothing"
    assert outcome.acknowledged > 0, "no record was ever acknowledged: the story tests nothing"
    assert outcome.compared_batches > 0, "no batch was ever compared: the story tests nothing"


def test_a_seed_tells_the_same_story_again() -> None:
    assert run_seed(3) == run_seed(3)


def test_some_stories_delete_topics_and_records_and_compact() -> None:
    outcome = run_seed(268)
    assert outcome.deleted_topics > 0, "no topic was deleted: choose another seed"
    assert outcome.deleted_records > 0, "retention has deleted nothing: choose another seed"
    assert outcome.moved_trimmed > 0, "no log that begins after 0 was moved: choose another seed"
    assert outcome.compacted_batches > 0, "compaction has removed nothing: choose another seed"


@pytest.mark.parametrize("seed", [112, 140], ids=["TV1", "TV2"])
def test_some_stories_copy_exactly_once(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.transactions_committed > 1, "too few transactions were committed: choose another seed"
    assert outcome.transactions_aborted > 0, "no transaction was aborted: choose another seed"
    assert outcome.takeovers > 0, "no copier was replaced by another one: choose another seed"


def test_some_stories_pause_nodes_wipe_disks_replace_voters_and_disturb_clocks() -> None:
    faults = run_seed(38).faults.keys() | run_seed(3).faults.keys() | run_seed(0).faults.keys()
    assert faults >= {"pause", "wipe", "voter", "clock"}, "choose other seeds"


def test_some_stories_add_and_remove_brokers() -> None:
    outcome = run_seed(27)
    assert outcome.faults["broker joins"] > 1, "no broker came back: choose another seed"
    assert outcome.faults["broker leaves"] > 0, "no broker left: choose another seed"
    assert outcome.emptied_partitions > 0, "no replica was moved from a broker that left: choose another seed"


@pytest.mark.parametrize(("seed", "protocol"), [(22, CLASSIC), (30, CONSUMER)])
def test_some_stories_have_members_while_the_coordinator_changes(seed: int, protocol: str) -> None:
    group, outcome = GroupSettings.of(seed), run_seed(seed)
    assert group is not None and group.protocol == protocol, "choose another seed"
    assert outcome.generations > 2, "the members never came and went: choose another seed"
    assert outcome.coordinator_changes > 0, "the coordinator never changed: choose another seed"
    assert outcome.read_by_members > 0 and outcome.committed_by_members > 0, "choose another seed"
