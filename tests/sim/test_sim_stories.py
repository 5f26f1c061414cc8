"""Clusters of one to seven nodes under faults. Each seed is one story, the same every time.

pytest tests/sim/test_sim_stories.py --sim-seed 48       # one story again
PYTHONPATH=tests python -m simulation.world.story 0 2000          # many stories, in all processors
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.storage.log.log import PartitionLog
from simulation.world.group_part import BOTH_PROTOCOLS, CLASSIC, CONSUMER, GroupSettings
from simulation.world.settings import Kind, kind_of
from simulation.world.story import Outcome, run_seed

TESTS = Path(__file__).resolve().parents[1]
REPEATED = 70458
"""The seed whose story runs twice."""


def pauses_and_disturbs_clocks(outcome: Outcome) -> None:
    assert outcome.faults.keys() >= {"pause", "clock"}


def wipes_disks_and_replaces_voters(outcome: Outcome) -> None:
    assert outcome.faults.keys() >= {"wipe", "voter"}


def adds_and_removes_brokers(outcome: Outcome) -> None:
    assert outcome.faults["broker joins"] > 1, "no broker came back"
    assert outcome.faults["broker leaves"] > 0, "no broker left"
    assert outcome.emptied_partitions > 0, "no replica was moved from a broker that left"


def has_members_while_the_coordinator_changes(outcome: Outcome) -> None:
    assert outcome.generations > 2, "the members never came and went"
    assert outcome.coordinator_changes > 0, "the coordinator never changed"
    assert outcome.read_by_members > 0 and outcome.committed_by_members > 0


def copies_exactly_once(outcome: Outcome) -> None:
    assert outcome.transactions_committed > 1, "too few transactions were committed"
    assert outcome.transactions_aborted > 0, "no transaction was aborted"
    assert outcome.takeovers > 0, "no copier was replaced by another one"


def deletes_topics_and_records_and_compacts(outcome: Outcome) -> None:
    assert outcome.deleted_topics > 0, "no topic was deleted"
    assert outcome.deleted_records > 0, "retention has deleted nothing"
    assert outcome.moved_trimmed > 0, "no log that begins after 0 was moved"
    assert outcome.compacted_batches > 0, "compaction has removed nothing"


def loses_records(outcome: Outcome) -> None:
    assert outcome.losses > 0, "no record was ever lost"
    assert outcome.generations > 2, "the members never came and went"


RICH: dict[int, Callable[[Outcome], None]] = {
    70439: pauses_and_disturbs_clocks,
    70352: wipes_disks_and_replaces_voters,
    70242: adds_and_removes_brokers,
    70330: has_members_while_the_coordinator_changes,
    70355: has_members_while_the_coordinator_changes,
    70366: copies_exactly_once,
    70530: copies_exactly_once,
    70474: deletes_topics_and_records_and_compacts,
    202: loses_records,
}
"""The stories that must show a certain kind of life. If one of them no longer does, choose another seed. Each run has
these seeds. The copier uses TV1 in 70366, and TV2 in 70530."""


# fmt: off
ONE_NODE = (4, 24, 27, 59, 63, 90, 99, 113, 140, 153, 282)
CONTROLLERS = (10, 16, 17, 31, 39, 75, 86, 93, 95, 96, 107, 108)
SHORT = (
    70297, 70300, 70521, 70328, 70333, 70337, 70348, 70350, 70356, 70360, 70376,
    70389, 70409, 70420, 70422, 70445, 70458, 70465, 70472, 70478, 70514, 70515, 70520, 70526,
    70545, 70546, 70550, 70556, 70557, 70563, 70564, 70569,
)
# fmt: on
"""Short stories: of one node, of controllers, and of replicas with members of groups, copiers, or brokers that leave.
Each run of the usual size has these seeds too. Larger runs (`make full`) have the first seeds of each kind."""
ELSEWHERE = 140
"""The seed whose story runs in two other processes."""
GROUPS = {70330: CLASSIC, 70355: CONSUMER, 140: BOTH_PROTOCOLS}
"""Stories with each kind of group."""


def test_a_cluster_keeps_what_it_acknowledged_and_its_replicas_become_equal(story_seed: int) -> None:
    outcome = run_seed(story_seed)
    kind = kind_of(story_seed)
    assert outcome.lives > len(outcome.faults) or kind is Kind.ONE_NODE, "no node ever failed"
    assert outcome.lives >= 2, "no node ever failed: the story tests nothing"
    assert outcome.acknowledged > 0, "no record was ever acknowledged: the story tests nothing"
    assert outcome.compared_batches > 0, "no batch was ever compared: the story tests nothing"
    if kind is not Kind.ONE_NODE:
        assert outcome.leader_changes > 0, "no partition ever changed its leader: the story tests nothing"
        assert outcome.isr_changes > 0, "no ISR ever changed: the story tests nothing"
        assert outcome.compared_images > 0, (
            "no two nodes ever had the same offset: the story compares nothing"
        )
    if kind is Kind.CONTROLLERS:
        assert outcome.epochs >= 2, "no controller ever failed over: the story tests nothing"
        assert outcome.created_topics > 0, "no topic was ever created: the story tests nothing"
    if story_seed in RICH:
        RICH[story_seed](outcome)
    if story_seed == REPEATED:
        assert run_seed(story_seed) == outcome, "a seed must tell the same story again"


def test_the_stories_with_members_have_all_kinds_of_groups() -> None:
    protocols = {
        seed: group.protocol
        for seed in GROUPS
        if (group := GroupSettings.of(seed, is_one_node=kind_of(seed) is Kind.ONE_NODE)) is not None
    }
    assert protocols == GROUPS, "choose other seeds"


def test_the_short_stories_are_of_their_kinds() -> None:
    assert {kind_of(seed) for seed in ONE_NODE} == {Kind.ONE_NODE}
    assert {kind_of(seed) for seed in CONTROLLERS} == {Kind.CONTROLLERS}


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    script = f"from simulation.world.story import run_seed; print(run_seed({ELSEWHERE}))"
    outcomes = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert outcomes == {f"{run_seed(ELSEWHERE)}\n"}


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "set_high_watermark", lambda self, offset: 1 / 0)
    with pytest.raises(BaseException) as failure:
        run_seed(5)
    notes = "\n".join(failure.value.__notes__)
    assert "--sim-seed 5" in notes
    assert "node-1 starts its life 1" in notes
