"""LogDirMoves: what a shortage of descriptors leaves of a move between log directories."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import ShortageError
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from kcli.server.partitions import log_dir_moves as moves_module
from kcli.server.partitions.log_dir_moves import THREADS_KEY, LogDirMoves
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, batch_of, contents
from rigs.loops import on_a_loop
from simulation.runtime.disk import FaultKind, SimDisk

KEY = TopicPartition("t", 0)
IDS = {"/a": uuid.UUID(int=0xA00), "/b": uuid.UUID(int=0xB00)}


class MoveRig:
    """A log in one directory and its copy in another, after a start."""

    def __init__(self) -> None:
        self.disk = SimDisk(lambda: START_MS)
        for path, directory_id in IDS.items():
            self.disk.make_dir(path)
            write_meta_properties(self.disk, path, MetaProperties("cluster", 1, directory_id), START_MS)
        self.store = LogStore.open(
            self.disk, ManualClock(), [*IDS], node_id=1, rng=SystemRng(5), recovery_threads=1
        )
        self.store.placement.prefer("t", 0, "/a")
        self.log = self.store.create("t", 0, uuid.UUID(int=1 << 80), LogConfig())
        self.copy = self.store.futures.begin("t", 0, self.store.futures.check_target("t", 0, "/b"))
        self.lost: list[TopicPartition] = []
        self.partition = SimpleNamespace(replicas=(1,), directory=lambda _node: IDS["/b"])
        replicas: Any = SimpleNamespace(
            logs=self.store, node_id=1, log_lost=lambda *key: self.lost.append(TopicPartition(*key))
        )
        config: Any = SimpleNamespace(current={THREADS_KEY: 1})
        unused: Any = None
        self.moves = LogDirMoves(replicas, unused, config, ManualClock(), unused, unused)

    def recover(self) -> None:
        image: Any = SimpleNamespace(partition=lambda *_key: self.partition)
        self.moves.recover(image)

    def short(self, path_part: str) -> None:
        """Lets the next opens fail, so that the second try of the pool fails too."""
        for nth in (1, 2):
            self.disk.fail("open", path_part, nth=nth, kind=FaultKind.SHORT)


def append(log: PartitionLog, value: bytes) -> None:
    append_client(log, batch_of([value]), leader_epoch=0, now_ms=START_MS)
    log.set_high_watermark(log.log_end_offset)


def test_a_copy_that_cannot_be_truncated_is_copied_again() -> None:
    """Otherwise the copy would keep records that the log lost in a crash."""
    rig = MoveRig()
    append(rig.log, b"kept")
    append(rig.copy, b"kept")
    append(rig.copy, b"lost")
    rig.copy.close(clean=True)
    rig.copy.local.reopen(rig.store.directories[1])
    rig.short("-future")
    rig.recover()
    assert not rig.disk.has_faults
    append(rig.log, b"new")
    futures = rig.store.futures
    assert futures.is_behind(rig.copy, rig.log) and not futures.is_complete(rig.copy, rig.log)
    futures.follow(rig.copy, rig.log, START_MS)
    assert contents(rig.copy) == []
    futures.append(rig.copy, rig.log, rig.log.read(0, 1 << 20, end_offset=2).read(), START_MS)
    assert contents(rig.copy) == contents(rig.log)


def test_a_start_fails_if_a_copy_cannot_replace_its_log() -> None:
    """Otherwise the partition would begin with a new, empty log in the directory of the copy."""
    rig = MoveRig()
    append(rig.copy, b"kept")
    rig.store.remove(rig.log)
    rig.short("/b/t-0/")
    with pytest.raises(ShortageError):
        rig.recover()
    rig.disk.heal()
    again = LogStore.open(rig.disk.kill_clone(), ManualClock(), [*IDS], node_id=1, rng=SystemRng(5))
    assert [value for _offset, value in contents(again.logs[KEY])] == [b"kept"]


@on_a_loop
async def test_a_move_waits_for_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves_module, "RETRY_INTERVAL_S", 0.0)
    rig = MoveRig()
    steps: list[Any] = [ShortageError("no more"), ShortageError("no more"), True]

    async def advance(*_key: object) -> bool:
        step = steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return bool(step)

    monkeypatch.setattr(rig.moves, "_advance", advance)
    monkeypatch.setattr(rig.moves, "_partition", lambda *_key: None)
    await rig.moves._move("t", 0)
    assert not steps
    assert rig.store.futures.get("t", 0) is rig.copy


def test_a_log_that_stays_in_service_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = MoveRig()
    append(rig.log, b"kept")

    def promote(*_key: object) -> None:
        raise ShortageError("no more")

    monkeypatch.setattr(rig.store.futures, "promote", promote)
    with pytest.raises(ShortageError):
        rig.moves._swap("t", 0)
    assert rig.lost == []
