"""Power failures and failing calls: whatever a disk does, a log comes back with a whole prefix of what was written."""

from __future__ import annotations

import itertools
import logging
import random

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import KcliError, StorageError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import crc_is_valid, iter_batches
from kcli.runtime.rng import SystemRng
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, batch_of, contents, marker_of
from simulation.checks.dump_check import dump_complaints
from simulation.runtime.disk import FaultKind, SimDisk

CONFIG = LogConfig(internal_segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)
NODE = 1


def formatted() -> SimDisk:
    disk = SimDisk(lambda: START_MS)
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", NODE), START_MS)
    disk.sync_dir("/")
    return disk


def open_store(disk: SimDisk) -> LogStore:
    return LogStore.open(
        disk,
        ManualClock(),
        ["/data"],
        node_id=NODE,
        rng=SystemRng(3),
        default_config=CONFIG,
        recovery_threads=1,
    )


class Writer:
    """Writes to a log at random and remembers what it must hold."""

    def __init__(self, log: PartitionLog, rng: random.Random) -> None:
        self.log = log
        self.rng = rng
        self.values: list[bytes] = [value or b"" for _, value in contents(log)]
        self.safe = log.log_end_offset
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()

    def step(self) -> None:
        match self.rng.randrange(12):
            case 0:
                self.log.roll()
            case 1:
                self.log.durability.flush()
                self.safe = self.log.log_end_offset
            case 2 | 3:
                self.append_of_producer()
            case _:
                self.append(self.rng.randrange(1, 5))

    def append(self, count: int, **producer: object) -> None:
        values = [b"%d" % self.rng.randrange(1 << 60) for _ in range(count)]
        batch = batch_of(values, **producer)
        self.values += values  # before: a write that fails may still be there
        append_client(self.log, batch, leader_epoch=1, now_ms=START_MS)

    def append_of_producer(self) -> None:
        producer = self.rng.randrange(3)
        if producer in self.open_transactions and self.rng.random() < 0.5:
            marker = marker_of(commit=self.rng.random() < 0.5, producer_id=producer, producer_epoch=0)
            self.open_transactions.discard(producer)
            self.values.append(b"")  # the marker's offset; `contents` does not show it
            self.log.append(marker, leader_epoch=1, now_ms=START_MS)
            return
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + 2
        self.open_transactions.add(producer)
        self.append(2, producer_id=producer, producer_epoch=0, sequence=sequence, transactional=True)


def check(log: PartitionLog, values: list[bytes], safe: int) -> None:
    """Whole batches of what was written, all of those flushed, and indexes that say the truth.

    What was not flushed may be lost from the end, and from the end of a segment that has a younger one: its last
    batches never reached the device, its successor did. Kafka has no way to tell that gap from compaction's.
    """
    assert safe <= log.log_end_offset <= len(values)
    found = dict(contents(log, max_bytes=200, may_end_early=True))
    assert all(value == values[offset] for offset, value in found.items())
    assert all(offset in found or not values[offset] for offset in range(safe))
    next_offset = 0
    for segment in log.segments:
        assert segment.base_offset == next_offset or segment.base_offset > next_offset >= safe
        next_offset = segment.base_offset
        content = segment.log.file().read_at(0, segment.files.log.file().size())
        batches = dict(iter_batches(content))
        assert sum(header.size_bytes for header in batches.values()) == len(content) == segment.size_bytes
        for position, header in batches.items():
            assert crc_is_valid(content, position, header)
            next_offset = header.next_offset
        for relative, position in segment.offset_index.entries.entries():
            assert batches[position].last_offset == segment.base_offset + relative
        newest = max((header.max_timestamp_ms for header in batches.values()), default=-1)
        for timestamp, relative in segment.time_index.entries.entries():
            assert timestamp <= newest
            assert segment.base_offset + relative < next_offset
    assert log.log_end_offset == next_offset
    check_producers(log)


def check_producers(log: PartitionLog) -> None:
    """The producers' state, and the transaction index, are those of the batches in the log."""
    sequences: dict[int, int] = {}
    first_offsets: dict[int, int] = {}
    aborted = []
    for segment in log.segments:
        content = segment.log.file().read_at(0, segment.size_bytes)
        for position, header in iter_batches(content):
            if header.producer_id < 0:
                continue
            if header.is_control:
                first = first_offsets.pop(header.producer_id, None)
                is_abort = content[position + header.size_bytes - 9] == 0  # the type in the marker's key
                if first is not None and is_abort:
                    aborted.append((header.producer_id, first, header.base_offset))
            else:
                sequences[header.producer_id] = header.last_sequence
                first_offsets.setdefault(header.producer_id, header.base_offset)
    found = {entry.producer_id: entry for entry in log.producers.active()}
    assert {key: entry.last_sequence for key, entry in found.items()} == sequences
    opened = {key: entry.current_txn_first_offset for key, entry in found.items()}
    assert {key: first for key, first in opened.items() if first is not None} == first_offsets
    indexed = [entry for segment in log.segments for entry in segment.txn_index.entries()]
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in indexed] == aborted


@pytest.mark.parametrize("seed", range(60))
def test_a_log_keeps_flushed_records_after_a_power_failure(seed: int) -> None:
    rng = random.Random(seed)
    store = open_store(formatted())
    log = store.create("t", 0, None)
    writer = Writer(log, rng)
    for _life in range(3):
        for _ in range(rng.randrange(40)):
            writer.step()
            if rng.random() < 0.1:
                store.maintenance.checkpoint_recovery_points()
        crashed = store.disk.crash_clone(rng.randrange(1 << 30))  # type: ignore[attr-defined]
        store = open_store(crashed)
        found = store.get("t", 0)
        assert found is not None
        check(found, writer.values, writer.safe)
        assert dump_complaints(store.disk, "/data/t-0", compacted=True) == ""
        assert found.durability.recovery_point <= found.log_end_offset
        del writer.values[found.log_end_offset :]
        again = Writer(found, rng)
        again.values, again.safe = writer.values, min(writer.safe, found.log_end_offset)
        for entry in found.producers.active():
            again.sequences[entry.producer_id] = entry.last_sequence + 1
            if entry.current_txn_first_offset is not None:
                again.open_transactions.add(entry.producer_id)
        writer = again
    store.close()


def life(disk: SimDisk) -> tuple[list[bytes], int]:
    """Opens, writes, cuts and closes. Returns what was written and what was acknowledged as flushed."""
    progress: list[tuple[list[bytes], int]] = [([], 0)]
    try:
        store = open_store(disk)
        log = store.get("t", 0) or store.create("t", 0, None)
        writer = Writer(log, random.Random(5))
        progress[0] = (writer.values, writer.safe)
        try:
            for _ in range(25):
                writer.step()
                progress[0] = (writer.values, writer.safe)
            log.set_high_watermark(log.log_end_offset)
            store.maintenance.delete_due_files()
            store.maintenance.checkpoint_recovery_points()
            store.maintenance.checkpoint_high_watermarks()
        finally:
            store.close()
        # Each failure is noticed. Only a lock file that cannot be removed stays, with a line in the log.
        assert disk.has_faults or store.directories[0].error is not None or disk.exists("/data/.lock")
    except KcliError:
        pass
    return progress[0]


@pytest.mark.parametrize("kind", [FaultKind.ERROR, FaultKind.FULL])
@pytest.mark.parametrize("torn", [False, True])
def test_every_call_may_fail(kind: FaultKind, torn: bool) -> None:
    """One call fails, for each of all calls of a run; what comes after must find a sound log."""
    nth = 0
    while True:
        nth += 1
        disk = formatted()
        disk.fail(nth=nth, kind=kind)
        values, safe = life(disk)
        untouched = disk.has_faults
        disk.heal()
        if torn:
            disk = disk.crash_clone(nth)
        else:
            disk._locks.clear()  # the process is gone
        store = open_store(disk)
        log = store.get("t", 0)
        if log is None:
            assert safe == 0
        else:
            check(log, values, safe)
            store.close()
            assert dump_complaints(disk, "/data/t-0", compacted=True) == ""
        if untouched:
            break
    assert nth > 100


RECOVERED_FROM = "/data/t-0/00000000000000000026.log"


def killed_in_mid_life() -> tuple[SimDisk, Writer]:
    """Returns a disk with several flushed segments, some of them above the recovery point."""
    store = open_store(formatted())
    writer = Writer(store.create("t", 0, None), random.Random(11))
    for nth in range(40):
        writer.step()
        if nth == 20:
            store.maintenance.checkpoint_recovery_points()
    writer.log.durability.flush()
    return store.disk.kill_clone(), writer  # type: ignore[attr-defined]


def starts_or_tells(
    disk: SimDisk, writer: Writer, caplog: pytest.LogCaptureFixture, *, is_sealed: bool = False
) -> bool:
    """Returns whether the disk has all flushed records. If not, the start must be refused, or a line of the log must
    report the cut.

    `is_sealed` means that the damage is below the recovery point. No start reads this part, but a reader finds the
    damage by the checksum of the batch.
    """
    safe = writer.log.log_end_offset
    caplog.clear()
    try:
        store = open_store(disk)
    except KcliError:
        return False
    finally:
        disk.heal()
    log = store.get("t", 0)
    is_whole = log is not None and log.log_end_offset == safe
    assert is_whole or any(record.levelno >= logging.WARNING for record in caplog.records), "a silent loss"
    if log is not None and store.directories[0].error is None and not is_sealed:
        found = dict(contents(log, max_bytes=200, may_end_early=True))
        assert all(value == writer.values[offset] for offset, value in found.items())
    store.close()
    return is_whole


def test_a_wrong_bit_in_one_read(caplog: pytest.LogCaptureFixture) -> None:
    """Each read of the start in turn. Nothing of the log itself is lost: what looks torn is read once more."""
    killed, writer = killed_in_mid_life()
    for part in (".log", ""):
        for nth in range(1, reads_of_a_start(killed, part) + 1):
            disk = killed.crash_clone(0)
            disk.fail("read", part, nth=nth, kind=FaultKind.FLIP)
            assert starts_or_tells(disk, writer, caplog) or part != ".log"


def reads_of_a_start(killed: SimDisk, part: str) -> int:
    for nth in itertools.count(1):
        disk = killed.crash_clone(0)
        disk.fail("read", part, nth=nth, kind=FaultKind.SLOW)
        open_store(disk)
        if disk.has_faults:
            return nth - 1
    raise AssertionError


def test_a_wrong_bit_on_the_device(caplog: pytest.LogCaptureFixture) -> None:
    """In each file in turn. Records past the recovery point are cut where they are damaged, and the log reports it."""
    killed, writer = killed_in_mid_life()
    paths = [f"/data/t-0/{entry.name}" for entry in killed.crash_clone(0).list_dir("/data/t-0")]
    outcomes = {}
    for path in paths:
        disk = killed.crash_clone(0)
        file = disk.open(path)
        middle = file.size() // 2
        if byte := file.read_at(middle, 1):
            file.write_at(middle, bytes([byte[0] ^ 0x10]))
            is_sealed = path.endswith(".log") and path < RECOVERED_FROM
            outcomes[path] = starts_or_tells(disk, writer, caplog, is_sealed=is_sealed)
    lost = [path for path, is_whole in outcomes.items() if not is_whole]
    assert "/data/t-0/00000000000000000052.log" in lost
    assert all(path.endswith((".log", "-checkpoint", ".metadata", ".txnindex")) for path in lost), lost


def test_a_failing_disk_takes_only_its_own_logs(caplog: pytest.LogCaptureFixture) -> None:
    disk = formatted()
    disk.make_dir("/other")
    store = LogStore.open(
        disk,
        ManualClock(),
        ["/data", "/other"],
        node_id=NODE,
        rng=SystemRng(3),
        default_config=CONFIG,
        recovery_threads=1,
    )
    logs = [store.create("t", partition, None) for partition in range(4)]
    assert {log.directory.path for log in logs} == {"/data", "/other"}
    disk.fail("write", ".log")
    with pytest.raises(StorageError):
        append_client(
            next(log for log in logs if log.directory.path == "/data"),
            batch_of([b"x"]),
            leader_epoch=0,
            now_ms=START_MS,
        )
    for log in logs:
        if log.directory.path == "/other":
            append_client(log, batch_of([b"x"]), leader_epoch=0, now_ms=START_MS)
    errors = {described.path: described.error for described in store.describe()}
    assert errors["/data"] is not None
    assert errors["/other"] is None
    store.close()
    assert not disk.exists("/data/.kafka_cleanshutdown")
    assert disk.exists("/other/.kafka_cleanshutdown")
    assert "offline" in caplog.text


@pytest.mark.parametrize("seed", range(60))
def test_a_log_that_was_cut_and_continued_survives_a_power_failure(seed: int) -> None:
    rng = random.Random(seed)
    disk = formatted()
    store = open_store(disk)
    log = store.create("t", 0, None, CONFIG)

    def fetched(first: int, count: int, epoch: int) -> bytes:
        return b"".join(
            batch_of([b"%d of epoch %d" % (offset, epoch)], base_offset=offset, leader_epoch=epoch)
            for offset in range(first, first + count)
        )

    def replicate(first: int, count: int, epoch: int) -> None:
        for _ in log.replicate(fetched(first, count, epoch), leader_epoch=epoch, now_ms=START_MS):
            pass

    replicate(0, 60, epoch=1)
    log.durability.flush()
    store.checkpoint_directory(log.directory)
    cut = rng.randint(0, 59)
    log.directory.background = lambda _work: None  # the jobs of the cut and of the appends have not run yet
    log.truncate_to(cut)
    store.maintenance.sync_cuts([log])  # as the fetcher does before it appends again
    assert not log.durability.has_unsynced_cut
    replicate(cut, rng.randint(1, 7 - cut % 7), epoch=2)  # up to the end of the segment, which has 7 records
    assert len(log.segments) == cut // 7 + 1
    again = open_store(disk.crash_clone(seed)).logs[TopicPartition("t", 0)]
    expected = [(offset, b"%d of epoch %d" % (offset, 1 if offset < cut else 2)) for offset in range(200)]
    found = contents(again)
    assert len(found) >= cut, "the records before the cut were on the device"
    assert found == expected[: len(found)]
