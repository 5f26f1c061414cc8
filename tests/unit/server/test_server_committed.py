"""The committed metadata: what is published when, from memory, from the log, or from a snapshot of the leader."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kcli.controller.bootstrap import encode_records
from kcli.errors import NotControllerException
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot_file import SnapshotId, decode_snapshot, encode_snapshot
from kcli.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.quorum.committed import RECORDS_PER_TURN, Ahead, CommittedMetadata
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.storage.store.store import LogStore
from rigs.logs import ManualClock
from rigs.loops import on_a_loop, until
from rigs.quorum import DATA, broker_config, formatted_machine

VERSION = FeatureLevelRecord(name="metadata.version", feature_level=27)


def setting(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name="a", value=value)


class CommittedRig:
    """A metadata log on a simulated disk, without a raft node: the test moves the high watermark."""

    def __init__(self, disk: Any = None) -> None:
        clock, rng, config = ManualClock(), SystemRng(1), broker_config()
        self.disk = disk or formatted_machine(clock)
        ensure_formatted(config, Machine(self.disk, clock, rng), lambda _line: None)
        logs = LogStore.open(self.disk, clock, [DATA], node_id=1, rng=rng)
        self.log = MetadataLog(logs, config, clock, rng)
        self.failures: list[BaseException] = []
        self.heard: list[str | None] = []
        self.loader = MetadataLoader(MetadataImage(cluster_id="c"))
        self.committed = CommittedMetadata(self.log, self.loader, on_fatal=self.failures.append)
        self.loader.subscribe(lambda _delta, image: self.heard.append(self.value(image)))

    def start(self) -> None:
        self.committed.start(self.log.load(ImageReplayer(self.loader.image)))

    @staticmethod
    def value(image: MetadataImage) -> str | None:
        return next((config.get("a") for config in image.configs.values()), None)

    def append(self, *records: MetadataRecord) -> None:
        """Appends a batch that another node has decided."""
        self.log.append_records(encode_records(records, 27), 1, 1)

    def lead(self, *records: MetadataRecord) -> asyncio.Future[None]:
        """Appends and replays a batch like the active controller. Returns the future of its commit."""
        replayer = ImageReplayer.at(self.committed.newest)
        base_offset = self.log.end_offset
        self.append(*records)
        last_offset = self.log.end_offset - 1
        delta = replayer.replay(records, last_offset=last_offset, epoch=1, timestamp_ms=1)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.committed.replayed(Ahead(base_offset, last_offset, delta, replayer.point, done))
        return done

    async def commit(self, offset: int) -> None:
        self.committed.commit(offset)
        await until(lambda: self.failures or self.committed.next_offset >= offset)
        assert not self.failures


@on_a_loop
async def test_records_of_another_leader_are_published_when_they_are_committed() -> None:
    rig = CommittedRig()
    rig.start()
    rig.append(VERSION, setting("1"))
    rig.append(setting("2"))
    rig.append(setting("3"))
    assert not rig.loader.is_loaded
    await rig.commit(3)
    assert (rig.value(rig.loader.image), rig.loader.image.offset, rig.heard) == ("2", 2, ["2"])
    await rig.commit(4)
    assert rig.heard == ["2", "3"]


@on_a_loop
async def test_a_large_batch_is_decoded_in_turns_and_published_as_a_whole() -> None:
    rig = CommittedRig()
    rig.start()
    rig.append(VERSION, setting("0"))
    await rig.commit(2)
    rig.append(*(setting(str(number)) for number in range(1, 1 + 3 * RECORDS_PER_TURN)))
    rig.committed.commit(rig.log.end_offset)
    turns = 0
    while rig.committed.next_offset < rig.log.end_offset:
        assert rig.heard == ["0"]
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 3
    assert rig.heard == ["0", str(3 * RECORDS_PER_TURN)]


@on_a_loop
async def test_own_records_are_answered_when_they_are_committed() -> None:
    rig = CommittedRig()
    rig.start()
    first, second = rig.lead(VERSION, setting("1")), rig.lead(setting("2"))
    await rig.commit(2)
    assert first.done() and not second.done()
    await rig.commit(3)
    assert second.done() and rig.heard == ["1", "2"]


@on_a_loop
async def test_own_records_after_records_of_the_log_keep_their_order() -> None:
    rig = CommittedRig()
    rig.start()
    rig.append(VERSION, setting("1"))
    rig.append(setting("2"))
    replayer = ImageReplayer(rig.loader.image)
    for batch in rig.log.batches(0, 3):
        batch.replay(replayer, batch.records())
    rig.append(setting("3"))
    delta = replayer.replay([setting("3")], last_offset=3, epoch=1, timestamp_ms=1)
    rig.committed.replayed(Ahead(3, 3, delta, replayer.point))
    await rig.commit(4)
    assert (rig.heard, rig.loader.image.offset) == (["3"], 3)


@on_a_loop
async def test_a_lost_lead_fails_the_requests_and_leaves_the_committed_state() -> None:
    rig = CommittedRig()
    rig.start()
    committed, lost = rig.lead(VERSION, setting("1")), rig.lead(setting("lost"))
    await rig.commit(2)
    rig.committed.drop_ahead(NotControllerException())
    rig.log.truncate(2)
    rig.append(setting("other"))
    await rig.commit(3)
    assert committed.done() and isinstance(lost.exception(), NotControllerException)
    assert rig.heard == ["1", "other"]


@on_a_loop
async def test_a_lost_lead_reports_no_error_that_nothing_waits_for() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    rig = CommittedRig()
    rig.start()
    rig.lead(VERSION)
    rig.committed.drop_ahead(NotControllerException())
    gc.collect()
    assert reported == []


@on_a_loop
async def test_the_log_found_at_the_start_counts_when_all_of_it_is_committed() -> None:
    written = CommittedRig()
    written.append(VERSION, setting("1"))
    written.append(setting("2"))
    written.log.flush()
    rig = CommittedRig(written.disk.kill_clone())
    rig.start()
    assert rig.value(rig.loader.image) is None
    await rig.commit(3)
    assert (rig.value(rig.loader.image), rig.heard) == ("2", ["2"])


@on_a_loop
async def test_the_log_found_at_the_start_counts_only_up_to_the_high_watermark() -> None:
    written = CommittedRig()
    written.append(VERSION, setting("1"))
    written.append(setting("not committed"))
    written.log.flush()
    rig = CommittedRig(written.disk.kill_clone())
    rig.start()
    await rig.commit(2)
    assert (rig.value(rig.loader.image), rig.heard) == ("1", ["1"])
    rig.committed.drop_ahead(NotControllerException())
    rig.log.truncate(2)
    rig.append(setting("2"))
    await rig.commit(3)
    assert rig.heard == ["1", "2"]


@on_a_loop
async def test_an_open_transaction_survives_a_change_of_the_leader() -> None:
    rig = CommittedRig()
    rig.start()
    rig.lead(VERSION)
    rig.lead(BeginTransactionRecord(name="t"), setting("1"))
    rig.lead(setting("2"))
    await rig.commit(3)
    rig.committed.drop_ahead(NotControllerException())
    assert rig.value(rig.loader.image) is None
    rig.log.truncate(3)
    rig.append(setting("3"), EndTransactionRecord())
    await rig.commit(5)
    assert rig.value(rig.loader.image) == "3"
    rig.append(BeginTransactionRecord(name="u"), setting("4"))
    rig.append(AbortTransactionRecord(reason="r"))
    await rig.commit(8)
    assert rig.value(rig.loader.image) == "3"


@on_a_loop
async def test_a_snapshot_of_the_leader_is_published_with_its_deletions() -> None:
    rig = CommittedRig()
    rig.start()
    rig.append(VERSION, setting("1"), ConfigRecord(resource_type=4, resource_name="7", name="b", value="x"))
    await rig.commit(3)
    changes: list[Any] = []
    rig.loader.subscribe(lambda delta, _image: changes.extend(delta.configs_changed))
    snapshot_id = SnapshotId(40, 2)
    values = encode_records([VERSION, setting("9")], 27)
    content = b"".join(encode_snapshot(values, epoch=2, last_contained_log_timestamp_ms=5, now_ms=6))
    rig.committed.install(snapshot_id, rig.committed.point_of(snapshot_id, decode_snapshot(content, "s")))
    assert (rig.committed.next_offset, rig.loader.image.offset, rig.loader.image.epoch) == (40, 39, 2)
    assert rig.heard == ["1", "9"]
    assert sorted(resource.name for resource in changes) == ["", "7"]


@on_a_loop
async def test_a_log_that_cannot_be_read_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = CommittedRig()
    rig.start()
    rig.append(EndTransactionRecord())
    rig.committed.commit(1)
    await until(lambda: rig.failures)
    assert "a metadata transaction ends that never began" in str(rig.failures[0])
