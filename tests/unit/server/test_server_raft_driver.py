"""The driver: the order in which a `Ready` reaches the disk, and what a failure of each duty leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcli.errors import NotControllerException, StorageError
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.model.addresses import Address
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import Outgoing, Peer, Ready
from kcli.raft.node import RaftNode
from kcli.raft.requests import ProbeRequest
from kcli.raft.settings import RaftSettings
from kcli.raft.voters import ReplicaKey
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.quorum.driver import Appended, RaftDriver
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.storage.store.store import LogStore
from kcli.testing.rigs.logs import ManualClock
from rigs.quorum import DATA, LOG_DIR, broker_config, formatted_machine


class DriverRig:
    def __init__(self, disk: Any = None) -> None:
        clock = ManualClock()
        self.disk = disk or formatted_machine(clock)
        rng = SystemRng(1)
        config = broker_config()
        ensure_formatted(config, Machine(self.disk, clock, rng), lambda _line: None)
        logs = LogStore.open(self.disk, clock, [DATA], node_id=1, rng=rng)
        self.log = MetadataLog(logs, config, clock, rng)
        self.node = RaftNode(ReplicaKey(1, self.log.directory_id), RaftSettings(), lambda: 0.0)
        self.driver = RaftDriver(self.node, self.log, clock)

    def start(self) -> tuple[Appended, ...]:
        return asyncio.run(self.driver.start(self.log.load(ImageReplayer(MetadataImage()))))

    def flush(self) -> int:
        return asyncio.run(self.driver.flush())

    @property
    def voted(self) -> Any:
        return ElectionState(1, voted=self.node.key)


def test_the_first_batch_is_in_the_log_but_not_committed() -> None:
    rig = DriverRig()
    (first,) = rig.start()
    assert (first.last_offset, first.epoch) == (2, 1)
    assert rig.log.log.high_watermark == 0 and rig.node.high_watermark == -1
    assert rig.log.read_election_state() == ElectionState(1, leader_id=1)


def test_a_flush_commits_every_append_before_it() -> None:
    rig = DriverRig()
    rig.start()
    assert rig.driver.append([b"a"]).last_offset == 3
    assert rig.driver.append([b"b", b"c"]).last_offset == 5
    assert rig.flush() == 6
    assert rig.log.log.high_watermark == 6
    assert rig.flush() is None


def test_a_vote_that_cannot_be_written_leaves_the_log_untouched() -> None:
    rig = DriverRig()
    rig.disk.fail("sync", LOG_DIR)
    with pytest.raises(StorageError):
        rig.start()
    assert rig.log.end_offset == 0


def test_a_flush_that_fails_commits_nothing() -> None:
    rig = DriverRig()
    rig.start()
    rig.disk.fail("sync", LOG_DIR)
    with pytest.raises(StorageError):
        rig.flush()
    assert (rig.node.high_watermark, rig.log.log.high_watermark) == (-1, 0)


def test_after_resigning_nothing_is_appended() -> None:
    rig = DriverRig()
    rig.start()
    end_offset = rig.log.end_offset
    rig.driver.resign()
    with pytest.raises(NotControllerException):
        rig.driver.append([b"a"])
    assert rig.log.end_offset == end_offset


@pytest.mark.parametrize(
    "ready", [Ready(truncate=3), Ready(send=(Outgoing(1, Peer(2, Address("h", 9093)), ProbeRequest()),))]
)
def test_duties_of_a_larger_quorum_are_refused_not_forgotten(ready: Ready) -> None:
    rig = DriverRig()
    rig.start()
    rig.node.step = lambda message, now: ready
    with pytest.raises(AssertionError, match="a lone voter"):
        rig.driver.resign()
