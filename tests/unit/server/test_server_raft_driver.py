"""The driver: the order in which a `Ready` reaches the disk, and what a failure of each duty leaves behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kcli.errors import BrokerNotAvailableException, NotControllerException, StorageError
from kcli.metadata.image import MetadataImage
from kcli.metadata.snapshot_file import SnapshotId, encode_snapshot
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.records.metadata import NoOpRecord, encode_metadata_record
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import (
    Flushed,
    Message,
    Outgoing,
    Peer,
    Ready,
    Received,
    Reply,
    Shrunk,
    SnapshotChunk,
    Tick,
)
from kcli.raft.requests import FetchRequest, FetchResponse, ProbeRequest, ReceivedBatch
from kcli.raft.voters import ReplicaKey
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.quorum import committed as committed_module
from kcli.server.quorum import driver as driver_module
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.quorum import Quorum
from kcli.storage.store.store import LogStore
from rigs.logs import ManualClock
from rigs.loops import PATIENCE_S, on_a_loop, until
from rigs.quorum import DATA, LOG_DIR, broker_config, formatted_machine
from simulation.runtime.disk import FaultKind

REQUEST = FetchRequest(
    replica=ReplicaKey(2), epoch=1, fetch_offset=0, last_fetched_epoch=0, high_watermark=-1, max_wait_s=0.5
)

ANY_MESSAGE = Tick()
NO_OP = encode_metadata_record(NoOpRecord(), 0)


class DriverRig:
    """A quorum of one without its controller role, so that the test alone appends."""

    def __init__(self, disk: Any = None) -> None:
        clock = ManualClock()
        self.disk = disk or formatted_machine(clock)
        rng = SystemRng(1)
        config = broker_config()
        ensure_formatted(config, Machine(self.disk, clock, rng), lambda _line: None)
        logs = LogStore.open(self.disk, clock, [DATA], node_id=1, rng=rng)
        self.failures: list[BaseException] = []
        self.quorum = Quorum(
            logs,
            config,
            clock,
            rng,
            SystemNetwork(),
            MetadataLoader(MetadataImage(cluster_id=logs.cluster_id)),
            on_fatal=self.failures.append,
        )
        self.log: Any = self.quorum.log
        self.node: Any = self.quorum.node
        self.driver = self.quorum.driver

    async def __aenter__(self) -> DriverRig:
        await self.quorum.start()
        await until(lambda: self.failures or self.node.high_watermark == 3)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.quorum.stop(clean=False)

    def answer(self, ready: Ready) -> list[Any]:
        """Lets the node answer each later message with nothing, and the next with `ready`. Returns the messages."""
        taken: list[Any] = []

        def step(message: Message, _now: float) -> Ready:
            taken.append(message)
            return ready if len(taken) == 1 else Ready()

        self.node.step = step
        return taken


def received(base_offset: int, *values: bytes, epoch: int = 1) -> ReceivedBatch:
    content = encode_batch(
        [Record(value=value) for value in values], base_offset=base_offset, leader_epoch=epoch
    )
    return ReceivedBatch(base_offset, base_offset + len(values), epoch, content)


@on_a_loop
async def test_the_first_batch_is_committed_when_it_is_flushed() -> None:
    async with DriverRig() as rig:
        assert rig.log.end_offset == rig.log.log.high_watermark == 3
        assert rig.log.read_election_state() == ElectionState(1, leader_id=1)


@on_a_loop
async def test_a_request_that_comes_before_the_stored_state_is_handled_after_it() -> None:
    """Otherwise the node could vote twice in one epoch."""
    rig = DriverRig()
    step, taken = rig.node.step, []

    def noted(message: Message, now: float) -> Ready:
        taken.append(type(message).__name__)
        ready: Ready = step(message, now)
        return ready

    rig.node.step = noted
    asking = rig.driver.ask(REQUEST)
    async with rig:
        assert taken[:2] == ["Start", "Received"]
    await asyncio.gather(asking, return_exceptions=True)


@on_a_loop
async def test_an_append_has_its_offset_at_once_and_is_committed_later() -> None:
    async with DriverRig() as rig:
        assert rig.driver.append([b"a"]).last_offset == 3
        appended = rig.driver.append([b"b", b"c"])
        assert (appended.base_offset, appended.last_offset, appended.epoch) == (4, 5, 1)
        assert rig.log.log.high_watermark == 3
        await until(lambda: rig.log.log.high_watermark == 6)


@on_a_loop
async def test_a_vote_that_cannot_be_written_leaves_the_log_untouched() -> None:
    rig = DriverRig()
    rig.disk.fail("sync", LOG_DIR)
    async with rig:
        assert isinstance(rig.failures[0], StorageError)
        assert rig.log.end_offset == 0


@on_a_loop
async def test_a_flush_that_fails_commits_nothing() -> None:
    async with DriverRig() as rig:
        rig.disk.fail("sync", LOG_DIR)
        rig.driver.append([b"a"])
        await until(lambda: rig.failures)
        assert (rig.node.high_watermark, rig.log.log.high_watermark) == (3, 3)


@on_a_loop
async def test_after_the_stop_nothing_is_appended() -> None:
    async with DriverRig() as rig:
        await rig.quorum.stop()
        with pytest.raises(NotControllerException):
            rig.driver.append([b"a"])
        assert rig.log.end_offset == 3


@on_a_loop
async def test_batches_of_the_leader_are_written_byte_for_byte_after_the_cut() -> None:
    async with DriverRig() as rig:
        rig.driver.append([b"lost"])
        batch = received(3, b"a", b"b", epoch=2)
        rig.answer(Ready(truncate=3, append=(batch,)))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.log.end_offset == 5)
        assert rig.log.log.read(3, 1000, end_offset=5).read() == batch.content
        assert rig.log.epoch == 2


@on_a_loop
async def test_a_flush_before_a_cut_is_not_counted() -> None:
    async with DriverRig() as rig:
        flushes = []

        def flush() -> int:
            flushes.append(rig.log.end_offset)
            if len(flushes) == 1:
                rig.log.truncate(3)
            return flushes[-1]

        rig.log.flush = flush
        taken = rig.answer(Ready(append=(received(3, b"a"),), flush=True))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: len(taken) == 2)
        assert (taken[1], flushes) == (Flushed(3), [4, 3])


@on_a_loop
async def test_committed_records_are_never_cut_off() -> None:
    async with DriverRig() as rig:
        rig.answer(Ready(truncate=2))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.failures)
        assert isinstance(rig.failures[0], AssertionError)
        assert rig.log.end_offset == 3


@on_a_loop
async def test_nothing_is_sent_if_the_vote_is_not_durable() -> None:
    async with DriverRig() as rig:
        sent: list[Outgoing] = []
        rig.driver.sender = type("Sender", (), {"send": staticmethod(sent.append)})()
        outgoing = Outgoing(1, Peer(2, ("h", 1)), ProbeRequest())
        rig.disk.fail("sync", LOG_DIR)
        rig.answer(Ready(persist=(ElectionState(7),), send=(outgoing,)))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.failures)
        assert sent == []


@on_a_loop
async def test_the_operator_is_warned_of_a_voter_whose_log_became_shorter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with DriverRig() as rig:
        rig.answer(Ready(shrunk=(Shrunk(ReplicaKey(2), former_end=40, end_offset=0),)))
        rig.driver.post(ANY_MESSAGE)
        text = (
            "Voter 2 now fetches the metadata log from offset 0, although it already had all records before "
        )
        await until(lambda: any(each.startswith(f"{text}offset 40.") for each in caplog.messages))


@on_a_loop
async def test_a_reply_has_the_records_of_the_log() -> None:
    async with DriverRig() as rig:
        taken = rig.answer(Ready())
        answer = rig.driver.ask(REQUEST, max_bytes=1000)
        await until(lambda: taken)
        (message,) = taken
        assert isinstance(message, Received) and message.request == REQUEST
        response = FetchResponse(epoch=1, leader_id=1)
        rig.answer(Ready(replies=(Reply(message.token, response, read_from=0),)))
        rig.driver.post(ANY_MESSAGE)
        answered = await answer
        assert answered.response is response
        assert answered.records == rig.log.log.read(0, 1000, end_offset=3).read() != b""


@on_a_loop
async def test_records_that_were_deleted_meanwhile_are_not_sent() -> None:
    async with DriverRig() as rig:
        taken = rig.answer(Ready())
        answer = rig.driver.ask(REQUEST, max_bytes=1000)
        await until(lambda: taken)
        rig.log.log.delete_records_before(3)
        response = FetchResponse(epoch=1, leader_id=1)
        rig.answer(Ready(replies=(Reply(taken[0].token, response, read_from=0),)))
        rig.driver.post(ANY_MESSAGE)
        assert (await answer).records == b""
        assert not rig.failures


@on_a_loop
async def test_requests_that_wait_are_limited_and_refused_at_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_module, "MAX_WAITING_REQUESTS", 2)
    async with DriverRig() as rig:
        rig.answer(Ready())
        answers = [rig.driver.ask(REQUEST), rig.driver.ask(REQUEST)]
        with pytest.raises(BrokerNotAvailableException):
            rig.driver.ask(REQUEST)
    with pytest.raises(BrokerNotAvailableException):
        rig.driver.ask(REQUEST)
    results = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(result) for result in results] == [BrokerNotAvailableException] * 2


@on_a_loop
async def test_a_downloaded_snapshot_replaces_the_log() -> None:
    async with DriverRig() as rig:
        snapshot_id = SnapshotId(50, 4)
        content = b"".join(encode_snapshot((), epoch=4, last_contained_log_timestamp_ms=1, now_ms=1))
        taken = rig.answer(Ready(write_snapshot=SnapshotChunk(snapshot_id, 0, content[:40], False)))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: any(each.name.endswith(".part") for each in rig.disk.list_dir(LOG_DIR)))
        taken = rig.answer(Ready(write_snapshot=SnapshotChunk(snapshot_id, 40, content[40:], True)))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: len(taken) == 2)
        assert taken[1].snapshot_id == snapshot_id
        assert (rig.log.log.log_start_offset, rig.log.end_offset, rig.log.epoch) == (50, 50, 4)
        assert rig.log.snapshots.ids == [snapshot_id]
        assert rig.quorum.loader.image.offset == 49


@on_a_loop
async def test_a_cleaning_during_the_install_of_a_snapshot_leaves_it_alone() -> None:
    async with DriverRig() as rig:
        await rig.quorum.snapshotting.write_snapshot()
        rig.log.log.roll()
        before = rig.log.snapshots.newest
        snapshot_id = SnapshotId(50, 4)
        content = b"".join(encode_snapshot((), epoch=4, last_contained_log_timestamp_ms=1, now_ms=1))
        committed: Any = rig.quorum.committed
        point_of, cleaned = committed.point_of, threading.Event()

        def slow(*asked: Any) -> Any:
            assert cleaned.wait(PATIENCE_S)
            return point_of(*asked)

        committed.point_of = slow
        await until(lambda: not rig.driver._inbox)
        rig.answer(Ready(write_snapshot=SnapshotChunk(snapshot_id, 0, content, True)))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: snapshot_id.file_name in [each.name for each in rig.disk.list_dir(LOG_DIR)])
        rig.log.clean(retention_bytes=0, retention_ms=0)
        assert rig.log.snapshots.ids == [before]
        cleaned.set()
        await until(lambda: rig.log.snapshots.ids == [snapshot_id])


@on_a_loop
async def test_a_damaged_snapshot_ends_the_node_and_keeps_the_log() -> None:
    async with DriverRig() as rig:
        chunk = SnapshotChunk(SnapshotId(50, 4), 0, b"damaged" * 20, True)
        rig.answer(Ready(write_snapshot=chunk))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.failures)
        assert isinstance(rig.failures[0], StorageError)
        assert rig.log.end_offset == 3
        assert not any(each.name.endswith(".part") for each in rig.disk.list_dir(LOG_DIR))


def short_of_descriptors(rig: DriverRig, monkeypatch: pytest.MonkeyPatch, calls: int = 3) -> None:
    """Lets the next opens in the metadata log's directory fail, one after another. The files of the log are closed."""
    monkeypatch.setattr(driver_module, "SHORTAGE_PAUSE_S", 0.0)
    monkeypatch.setattr(committed_module, "SHORTAGE_PAUSE_S", 0.0)
    for segment in rig.log.log.segments:
        segment.files.close()
    for nth in range(1, calls + 1):
        rig.disk.fail("open", LOG_DIR, nth=nth, kind=FaultKind.SHORT)


@on_a_loop
async def test_an_append_without_a_descriptor_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with DriverRig() as rig:
        short_of_descriptors(rig, monkeypatch)
        appended = rig.driver.append([NO_OP, NO_OP])
        assert (appended.base_offset, appended.last_offset, rig.log.end_offset) == (3, 4, 3)
        with pytest.raises(NotControllerException):
            rig.driver.append([NO_OP])
        await until(lambda: rig.failures or rig.log.log.high_watermark == 5)
        assert not rig.failures and not rig.disk.has_faults
        assert rig.driver.append([NO_OP]).base_offset == 5


@on_a_loop
async def test_batches_of_the_leader_wait_for_a_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    async with DriverRig() as rig:
        rig.driver.append([NO_OP])
        await until(lambda: rig.log.log.high_watermark == 4 or rig.failures)
        batches = received(4, NO_OP), received(5, NO_OP)
        rig.answer(Ready(truncate=4, append=batches))
        short_of_descriptors(rig, monkeypatch)
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.failures or rig.log.end_offset == 6)
        assert not rig.failures and not rig.disk.has_faults
        assert rig.log.log.read(4, 1000, end_offset=6).read() == batches[0].content + batches[1].content


@pytest.mark.parametrize(("call", "nth"), [("open", 1), ("open", 2), ("open", 3), ("sync_dir", 1)])
def test_a_downloaded_snapshot_is_installed_after_a_shortage(
    call: str, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_a_loop
    async def install() -> None:
        async with DriverRig() as rig:
            snapshot_id = SnapshotId(50, 4)
            content = b"".join(encode_snapshot((), epoch=4, last_contained_log_timestamp_ms=1, now_ms=1))
            monkeypatch.setattr(driver_module, "SHORTAGE_PAUSE_S", 0.0)
            await until(lambda: not rig.driver._inbox)
            rig.disk.fail(call, LOG_DIR, nth=nth, kind=FaultKind.SHORT)
            rig.answer(Ready(write_snapshot=SnapshotChunk(snapshot_id, 0, content, True)))
            rig.driver.post(ANY_MESSAGE)
            await until(lambda: rig.failures or rig.log.snapshots.ids == [snapshot_id])
            assert not rig.failures
            assert (rig.log.log.log_start_offset, rig.log.end_offset, rig.log.epoch) == (50, 50, 4)

    install()


@on_a_loop
async def test_committed_records_are_read_after_a_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    async with DriverRig() as rig:
        rig.driver.append([NO_OP])
        await until(lambda: rig.quorum.loader.image.offset == 3 or rig.failures)
        rig.answer(Ready(append=(received(4, NO_OP),)))
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.log.end_offset == 5)
        rig.answer(Ready(apply=5))
        short_of_descriptors(rig, monkeypatch)
        rig.driver.post(ANY_MESSAGE)
        await until(lambda: rig.quorum.loader.image.offset == 4 or rig.failures)
        assert not rig.failures and not rig.disk.has_faults
