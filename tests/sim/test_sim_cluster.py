"""A whole broker under clients, crashes and bad networks; each seed is one story, the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.server.coordinators.shard_runner import ShardRunner, _answer
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.storage.log.durability import Durability
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.producer_state import ProducerState
from kcli.storage.store import opening
from kcli.storage.store.loader import load_log
from simulation.world.simulation import run_seed

TESTS = Path(__file__).resolve().parents[1]


def test_every_story_keeps_what_was_acknowledged(sim_seed: int) -> None:
    outcome = run_seed(sim_seed)
    assert outcome.lives >= 2, "nothing ever went wrong: the story tests nothing"
    assert outcome.acknowledged > 0, "nobody ever wrote anything: the story tests nothing"


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    script = "from simulation.world.simulation import run_seed; print(run_seed(3))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert told == {f"{run_seed(3)}\n"}


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "set_high_watermark", lambda self, offset: 1 / 0)
    with pytest.raises(BaseException) as failure:
        run_seed(5)
    notes = "\n".join(failure.value.__notes__)
    assert "--sim-seed 5" in notes
    assert "node-1 starts its life 1" in notes


# What a simulation is worth is what it catches: each of these is a bug that brokers have had.


def _nothing(*_: object, **__: object) -> None:
    return None


def _flush_only_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are acknowledged as flushed and are not."""
    flush = Durability.flush

    def only_metadata(durability: Durability, *arguments: int) -> None:
        if durability._local.topic_partition.topic == CLUSTER_METADATA_TOPIC:
            flush(durability, *arguments)

    monkeypatch.setattr(Durability, "flush", only_metadata)


def _metadata_not_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataLog, "flush", lambda self: self.end_offset)


def _retries_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "duplicate_of", _nothing)


def _producers_forgotten_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash a producer that repeats what it had no answer to is taken for a new one."""

    def forgetful(*arguments: Any) -> PartitionLog:
        log = load_log(*arguments)
        log.producers.state.clear()
        log.producers.state.end_offset = log.log_end_offset
        return log

    monkeypatch.setattr(opening, "load_log", forgetful)


def _commits_answered_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator answers before its records are in the log."""
    monkeypatch.setattr(ShardRunner, "_schedule_flush", _answer_now)


def _answer_now(runner: ShardRunner[Any, Any]) -> None:
    for write in runner._gathered:
        _answer(write.ready)
    runner._loop.call_later(0.2, runner._flush)


def _partitions_given_before_they_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of a consumer group gets its target while another member still reads it."""
    monkeypatch.setattr(ConsumerGroup, "owners_of", lambda *_: {})


@pytest.mark.parametrize(
    "sabotage",
    [
        _flush_only_says_so,
        _metadata_not_flushed,
        _retries_are_written_again,
        _producers_forgotten_at_start,
        _commits_answered_unwritten,
        _partitions_given_before_they_are_free,
    ],
)
def test_a_broken_broker_is_found_out(
    sabotage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    assert any(_is_found_out(seed) for seed in range(30)), f"{sabotage.__name__} went unnoticed"


def _is_found_out(seed: int) -> bool:
    try:
        run_seed(seed)
    except AssertionError:
        return True
    except ExceptionGroup as group:
        return group.subgroup(AssertionError) is not None
    return False
