"""The cleaner's process: plans in, events out, and an end to both."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.server.partitions.cleaner_process import CleanerProcess
from kcli.storage.cleaner.cleaner import DEFAULT_LIMITS, CleaningStopped
from kcli.storage.cleaner.plan import CleanedSegment, CleaningDone, CleaningPlan, SourceSegment

NOW_MS = 1_800_000_000_000
SIZES_OF_ONE = {".log": 70, ".index": 0, ".timeindex": 12}


@pytest.fixture
def process() -> Iterator[CleanerProcess]:
    process = CleanerProcess()
    yield process
    process.stop()


@pytest.fixture
def plan(tmp_path: Path) -> CleaningPlan:
    batches = [
        encode_batch([Record(-1, NOW_MS, b"k", b"%d" % nth, (), -1)], base_offset=nth, leader_epoch=0)
        for nth in range(2)
    ]
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(batches))
    return CleaningPlan(
        topic_partition="t-0",
        path=str(tmp_path),
        segments=(SourceSegment(0, sum(map(len, batches)), 0, 0),),
        first_dirty_offset=0,
        first_dirty_position=0,
        upper_bound_offset=2,
        aborted=(),
        last_records=(),
        now_ms=NOW_MS,
        delete_retention_ms=1000,
        segment_size_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
    )


def test_passes_one_after_another(process: CleanerProcess, plan: CleaningPlan) -> None:
    for _ in range(2):
        cleaned, done = process.run_pass(plan, DEFAULT_LIMITS)
        assert cleaned == CleanedSegment((0,), SIZES_OF_ONE)
        assert isinstance(done, CleaningDone)
        assert (done.end_offset, done.records_read, done.records_kept) == (2, 2, 1)
    assert (Path(plan.path) / "00000000000000000000.log.cleaned").stat().st_size == 70


def test_a_log_that_is_corrupt(process: CleanerProcess, plan: CleaningPlan) -> None:
    with (Path(plan.path) / "00000000000000000000.log").open("r+b") as file:
        file.seek(65)
        file.write(b"\xff")
    with pytest.raises(CorruptRecordError, match="the batch at offset 0 of t-0"):
        list(process.run_pass(plan, DEFAULT_LIMITS))
    (Path(plan.path) / "00000000000000000000.log").unlink()
    with pytest.raises(OSError, match="No such file"):
        list(process.run_pass(plan, DEFAULT_LIMITS))


def test_a_pass_that_is_given_up(process: CleanerProcess, plan: CleaningPlan) -> None:
    """Its remaining events are dropped: the next pass has a process of its own."""
    events = process.run_pass(plan, DEFAULT_LIMITS)
    assert isinstance(next(events), CleanedSegment)
    events.close()
    assert len(list(process.run_pass(plan, DEFAULT_LIMITS))) == 2


def test_stopped_in_the_middle(process: CleanerProcess, plan: CleaningPlan) -> None:
    slow = replace(DEFAULT_LIMITS, bytes_per_second=1)
    stopper = threading.Timer(0.5, process.stop)
    stopper.start()
    began = time.monotonic()
    with pytest.raises(CleaningStopped):
        list(process.run_pass(plan, slow))
    assert time.monotonic() - began < 60
    with pytest.raises(CleaningStopped):
        list(process.run_pass(plan, DEFAULT_LIMITS))
    stopper.join()


def test_stopped_while_an_event_is_dealt_with(process: CleanerProcess, plan: CleaningPlan) -> None:
    events = process.run_pass(plan, DEFAULT_LIMITS)
    assert isinstance(next(events), CleanedSegment)
    process.stop("the cleaner's settings have changed")
    with pytest.raises(CleaningStopped, match="the cleaner's settings have changed"):
        next(events)


def test_a_process_that_dies(process: CleanerProcess, plan: CleaningPlan) -> None:
    list(process.run_pass(plan, DEFAULT_LIMITS))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(CorruptRecordError, match="has ended with code -9"):
        list(process.run_pass(plan, DEFAULT_LIMITS))
    assert len(list(process.run_pass(plan, DEFAULT_LIMITS))) == 2


ORPHAN = """
import pickle, sys, threading
from dataclasses import replace
from kcli.server.partitions.cleaner_process import CleanerProcess
from kcli.storage.cleaner.cleaner import DEFAULT_LIMITS

plan, process = pickle.load(sys.stdin.buffer), CleanerProcess()
events = process.run_pass(plan, replace(DEFAULT_LIMITS, bytes_per_second=1))
threading.Thread(target=lambda: list(events), daemon=True).start()
while process.pid is None:
    pass
print(process.pid, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("is_at_work", [True, False])
def test_it_ends_with_its_parent(plan: CleaningPlan, is_at_work: bool) -> None:
    """A killed broker starts again in the same directory: no other process may write there by then."""
    command = [sys.executable, "-c", ORPHAN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(pickle.dumps(plan))
        parent.stdin.close()
        pid = int(parent.stdout.readline())
        if is_at_work:
            time.sleep(1)  # it is in the middle of its pass, or else about to begin
        parent.kill()
        deadline = time.monotonic() + 60
        while is_running(pid):
            assert time.monotonic() < deadline, "it outlives its parent"
            time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended; its new parent has not waited for it yet


def test_nothing_runs_before_the_first_pass(process: CleanerProcess) -> None:
    assert process.pid is None
