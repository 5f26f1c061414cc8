"""Replicated topics under faults of nodes, networks and disks; each seed is one story, the same every time.

pytest tests/sim/test_sim_replication.py --sim-seed 48       # one story again
PYTHONPATH=tests python -m simulation.world.replication_story 0 2000          # many stories, in all processors
"""

from __future__ import annotations

from collections.abc import Callable

from simulation.world.group_part import CLASSIC, CONSUMER, GroupSettings
from simulation.world.replication_story import Outcome, run_seed

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


RICH: dict[int, Callable[[Outcome], None]] = {
    70439: pauses_and_disturbs_clocks,
    70352: wipes_disks_and_replaces_voters,
    70242: adds_and_removes_brokers,
    70521: has_members_while_the_coordinator_changes,
    70420: has_members_while_the_coordinator_changes,
    70366: copies_exactly_once,
    70422: copies_exactly_once,
    70474: deletes_topics_and_records_and_compacts,
}
"""The stories that must show a certain kind of life. If one of them no longer does, choose another seed. Each run has
these seeds. The copier uses TV1 in 70366, and TV2 in 70422."""


# fmt: off
SHORT = (
    70297, 70300, 70320, 70328, 70333, 70337, 70348, 70350, 70355, 70356, 70360, 70376,
    70389, 70409, 70445, 70458, 70465, 70472, 70478, 70514, 70515, 70520, 70526, 70530,
    70545, 70546, 70550, 70556, 70557, 70563, 70564, 70569,
)
# fmt: on
"""Stories of 3 to 6 CPU-s with members of groups, copiers, or brokers that leave. Each run of the usual size has these
seeds too. Larger runs (`make full`, `make stories`) have the seeds from 0 on."""


def test_replicas_keep_what_was_acknowledged_and_become_equal(replication_seed: int) -> None:
    outcome = run_seed(replication_seed)
    assert outcome.lives > len(outcome.faults), "no node ever failed: the story tests nothing"
    assert outcome.leader_changes > 0, "no partition ever changed its leader: the story tests nothing"
    assert outcome.isr_changes > 0, "no ISR ever changed: the story tests nothing"
    assert outcome.acknowledged > 0, "no record was ever acknowledged: the story tests nothing"
    assert outcome.compared_batches > 0, "no batch was ever compared: the story tests nothing"
    if replication_seed in RICH:
        RICH[replication_seed](outcome)
    if replication_seed == REPEATED:
        assert run_seed(replication_seed) == outcome, "a seed must tell the same story again"


def test_the_stories_with_members_have_both_kinds_of_groups() -> None:
    protocols = {
        seed: group.protocol for seed in (70521, 70420) if (group := GroupSettings.of(seed)) is not None
    }
    assert protocols == {70521: CLASSIC, 70420: CONSUMER}, "choose other seeds"
