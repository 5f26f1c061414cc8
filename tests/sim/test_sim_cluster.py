"""A whole broker under clients, crashes and bad networks; each seed is one story, the same every time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from kcli.server.metadata_log import MetadataLog
from kcli.storage.directory import CLUSTER_METADATA_TOPIC
from kcli.storage.log import PartitionLog
from kcli.storage.producer_state import ProducerState
from kcli.testing.sim_network import SimTransport
from kcli.testing.simulation import run_seed


def test_story(sim_seed: int) -> None:
    outcome = run_seed(sim_seed)
    assert outcome.lives >= 2, "nothing ever went wrong: the story tests nothing"
    assert outcome.acknowledged > 0, "nobody ever wrote anything: the story tests nothing"


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    script = "from kcli.testing.simulation import run_seed; print(run_seed(3))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
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
    flush = PartitionLog.flush

    def only_metadata(log: PartitionLog, *arguments: int) -> None:
        if log.topic == CLUSTER_METADATA_TOPIC:
            flush(log, *arguments)

    monkeypatch.setattr(PartitionLog, "flush", only_metadata)


def _metadata_not_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataLog, "flush", lambda self: self.end_offset)


def _retries_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "duplicate_of", _nothing)


def _producers_forgotten_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLog, "rebuild_producers", _nothing)


def _bytes_get_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the broker but the network: what the protocols rely on is checked, too."""
    take = SimTransport._take
    monkeypatch.setattr(SimTransport, "_take", lambda self, size: take(self, size)[:-1] or b"x")


@pytest.mark.parametrize(
    "sabotage",
    [
        _flush_only_says_so,
        _metadata_not_flushed,
        _retries_are_written_again,
        _producers_forgotten_at_start,
        _bytes_get_lost,
    ],
)
def test_a_broken_broker_is_found_out(
    sabotage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    assert any(_fails(seed) for seed in range(20)), f"{sabotage.__name__} went unnoticed"


def _fails(seed: int) -> bool:
    try:
        run_seed(seed)
    except Exception:
        return True
    return False
