"""Idempotence and transactions of one partition, and the snapshot file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import (
    CorruptRecordError,
    InvalidProducerEpochException,
    InvalidTxnStateException,
    KafkaError,
    OutOfOrderSequenceException,
    TransactionCoordinatorFencedException,
)
from kcli.model.ids import Offset
from kcli.protocol.batches.batch import MAX_SEQUENCE, read_header
from kcli.runtime.disk import read_file
from kcli.storage.log import producer_entries
from kcli.storage.log.log import AppendResult, PartitionLog
from kcli.storage.log.markers import TransactionEnd, read_marker
from kcli.storage.log.producer_entries import (
    MANY_PRODUCERS,
    ProducerEntry,
    SnapshotContent,
    WrittenBatch,
    decode_snapshot,
    unpacked,
)
from kcli.storage.log.producer_ids import KEPT_PRODUCER_IDS, ProducerIds
from kcli.storage.log.producer_state import (
    MAX_VERIFICATIONS,
    ProducerState,
)
from kcli.storage.log.transaction_index import AbortedTransaction
from rigs.logs import START_MS, LogRig, append_client, batch_of, contents, marker_of, numbered
from rigs.steps import last_of
from simulation.runtime.disk import FaultKind, SimDisk


def produce(
    log: PartitionLog,
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    producer: int = 1,
    transactional: bool = False,
) -> AppendResult:
    batch = batch_of(
        numbered(count),
        producer_id=producer,
        producer_epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )
    return append_client(log, batch, leader_epoch=0, now_ms=START_MS)


def end_transaction(
    log: PartitionLog,
    *,
    commit: bool,
    producer: int = 1,
    epoch: int = 0,
    coordinator: int = 0,
    version: int = 0,
) -> AppendResult:
    marker = marker_of(
        commit=commit, producer_id=producer, producer_epoch=epoch, coordinator_epoch=coordinator
    )
    return log.append(marker, leader_epoch=0, now_ms=START_MS, transaction_version=version)


@pytest.fixture
def log() -> PartitionLog:
    return LogRig(SimDisk()).create()


class TestSequences:
    def test_consecutive_batches_are_taken(self, log: PartitionLog) -> None:
        assert produce(log, 0, count=3).base_offset == 0
        assert produce(log, 3, count=2).base_offset == 3
        (entry,) = log.producers.active()
        assert (entry.last_sequence, entry.last_data_offset, entry.epoch) == (4, 4, 0)

    def test_any_first_sequence_of_an_unknown_producer(self, log: PartitionLog) -> None:
        assert produce(log, 77).base_offset == 0

    def test_the_last_five_batches_may_be_repeated(self, log: PartitionLog) -> None:
        for nth in range(6):
            produce(log, 2 * nth, count=2)
        for nth in range(1, 6):
            again = produce(log, 2 * nth, count=2)
            assert (again.base_offset, again.last_offset, again.duplicate) == (2 * nth, 2 * nth + 1, True)
        assert log.log_end_offset == 12
        with pytest.raises(OutOfOrderSequenceException):
            produce(log, 0, count=2)

    def test_a_batch_of_another_extent_is_no_duplicate(self, log: PartitionLog) -> None:
        produce(log, 0, count=3)
        with pytest.raises(OutOfOrderSequenceException):
            produce(log, 1, count=2)

    @pytest.mark.parametrize("sequence", [0, 2, 4, 5])
    def test_gaps_and_repeats_are_refused(self, log: PartitionLog, sequence: int) -> None:
        produce(log, 0, count=3)
        with pytest.raises(OutOfOrderSequenceException, match="producer 1 at offset 3 in partition t-0"):
            produce(log, sequence)
        assert log.log_end_offset == 3

    def test_after_the_largest_sequence_comes_0(self, log: PartitionLog) -> None:
        produce(log, MAX_SEQUENCE - 1, count=2)
        assert produce(log, 0).base_offset == 2

    def test_a_batch_over_the_wrap(self, log: PartitionLog) -> None:
        produce(log, MAX_SEQUENCE, count=3)
        assert produce(log, MAX_SEQUENCE, count=3).duplicate
        assert produce(log, 2).base_offset == 3

    def test_a_new_epoch_starts_at_0(self, log: PartitionLog) -> None:
        produce(log, 0)
        with pytest.raises(OutOfOrderSequenceException):
            produce(log, 1, epoch=1)
        produce(log, 0, epoch=1)
        with pytest.raises(InvalidProducerEpochException):
            produce(log, 1, epoch=0)

    def test_batches_of_an_older_epoch_are_no_duplicates(self, log: PartitionLog) -> None:
        produce(log, 0)
        produce(log, 1, count=2)
        produce(log, 0, epoch=1)
        with pytest.raises(OutOfOrderSequenceException):
            produce(log, 1, count=3, epoch=0 + 2)
        assert not produce(log, 1, count=2, epoch=1).duplicate

    def test_a_duplicate_on_a_log_append_time_topic_has_its_time(self) -> None:
        rig = LogRig(SimDisk())
        log = rig.create()
        log.update_config(type(rig.config)(message_timestamp_type="LogAppendTime"))
        first = produce(log, 0)
        assert produce(log, 0).log_append_time_ms == first.log_append_time_ms == START_MS

    def test_a_duplicate_on_any_topic_has_the_time_of_its_records(self, log: PartitionLog) -> None:
        assert produce(log, 0).log_append_time_ms == -1
        assert produce(log, 0).log_append_time_ms == START_MS

    def test_coordinators_are_not_checked(self, log: PartitionLog) -> None:
        for _ in range(2):
            batch = batch_of([b"x"], producer_id=1, producer_epoch=0, sequence=0)
            log.append(batch, leader_epoch=0, now_ms=START_MS)
        assert log.log_end_offset == 2


class TestTransactions:
    def test_last_stable_offset(self, log: PartitionLog) -> None:
        produce(log, 0, producer=9)
        produce(log, 0, count=2, transactional=True)
        produce(log, 0, producer=2, transactional=True)
        log.set_high_watermark(4)
        assert log.last_stable_offset == 1
        end_transaction(log, commit=True)
        assert log.last_stable_offset == 1  # the marker is not committed itself
        log.set_high_watermark(5)
        assert log.last_stable_offset == 3
        end_transaction(log, commit=False, producer=2)
        log.set_high_watermark(6)
        assert log.last_stable_offset == 6

    def test_aborts_are_indexed(self, log: PartitionLog) -> None:
        produce(log, 0, count=2, transactional=True)
        produce(log, 0, producer=2, transactional=True)
        end_transaction(log, commit=False)  # offset 3, with producer 2 still open at 2
        end_transaction(log, commit=False, producer=2)  # offset 4
        produce(log, 2, transactional=True)
        end_transaction(log, commit=True)
        first, second = AbortedTransaction(1, 0, 3, 2), AbortedTransaction(2, 2, 4, 5)
        assert log.local.aborted_transactions(0, 7) == [first, second]
        assert log.local.aborted_transactions(4, 7) == [second]
        assert log.local.aborted_transactions(0, 2) == [first]
        assert log.local.aborted_transactions(5, 7) == []
        assert log.local.has_aborted_transactions(4) and not log.local.has_aborted_transactions(5)
        assert [offset for offset, _ in contents(log)] == [0, 1, 2, 5]

    def test_aborts_in_a_later_segment_are_found(self, log: PartitionLog) -> None:
        produce(log, 0, transactional=True)
        log.roll()
        produce(log, 0, producer=3)
        log.roll()
        end_transaction(log, commit=False)
        assert log.local.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 2, 3)]
        assert log.local.has_aborted_transactions(0)
        assert not log.segments[0].txn_index.exists()
        assert log.segments[2].txn_index.exists()

    def test_plain_writes_are_refused_while_a_transaction_is_open(self, log: PartitionLog) -> None:
        produce(log, 0, transactional=True)
        with pytest.raises(InvalidTxnStateException):
            produce(log, 1)
        end_transaction(log, commit=True)
        produce(log, 1)

    @pytest.mark.parametrize(
        ("epoch", "coordinator", "version", "error"),
        [
            (4, 7, 0, InvalidProducerEpochException),
            (5, 6, 0, TransactionCoordinatorFencedException),
            (5, 7, 2, InvalidProducerEpochException),
            (5, 7, 0, None),
            (6, 7, 2, None),
        ],
    )
    def test_markers_of_the_past_are_refused(
        self, log: PartitionLog, epoch: int, coordinator: int, version: int, error: type[KafkaError] | None
    ) -> None:
        produce(log, 0, epoch=5, transactional=True)
        end_transaction(log, commit=True, epoch=5, coordinator=7)
        produce(log, 1, epoch=5, transactional=True)
        if error is None:
            end_transaction(log, commit=True, epoch=epoch, coordinator=coordinator, version=version)
            return
        with pytest.raises(error):
            end_transaction(log, commit=True, epoch=epoch, coordinator=coordinator, version=version)

    def test_a_retried_marker_of_a_bumped_epoch(self, log: PartitionLog) -> None:
        produce(log, 0, transactional=True)
        end_transaction(log, commit=True, epoch=1, version=2)
        end_transaction(log, commit=True, epoch=1, version=2)
        produce(log, 0, epoch=1)  # the marker bumped the epoch, so sequences begin again
        assert log.log_end_offset == 4

    def test_a_marker_of_an_unknown_producer(self, log: PartitionLog) -> None:
        end_transaction(log, commit=False, producer=42, epoch=3)
        (entry,) = log.producers.active()
        assert (entry.producer_id, entry.epoch, entry.last_sequence) == (42, 3, -1)
        assert log.local.aborted_transactions(0, 9) == []

    def test_other_control_records_are_no_markers(self) -> None:
        batch = batch_of([b"value"], key=b"\x00\x00\x00\x02")
        assert read_marker(batch) is None
        assert read_marker(batch_of([b"v"], key=b"k")) is None
        marker = marker_of(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=8)
        assert read_marker(marker) == TransactionEnd(True, 8, START_MS)

    def test_truncation_takes_the_state_back(self, log: PartitionLog) -> None:
        produce(log, 0, count=2, transactional=True)
        produce(log, 2, count=2, transactional=True)
        end_transaction(log, commit=False)
        log.set_high_watermark(5)
        log.truncate_to(2)
        (entry,) = log.producers.active()
        assert (entry.last_sequence, entry.current_txn_first_offset) == (1, 0)
        assert log.last_stable_offset == 0
        assert log.local.aborted_transactions(0, 9) == []
        produce(log, 2, transactional=True)


class TestExpiry:
    def test_idle_producers_are_forgotten(self, log: PartitionLog) -> None:
        produce(log, 0)
        produce(log, 0, producer=2, transactional=True)
        assert last_of(log.producers.remove_expired(START_MS + 86_399_999)) == 0
        assert last_of(log.producers.remove_expired(START_MS + 86_400_000)) == 1
        assert [entry.producer_id for entry in log.producers.active()] == [2]
        assert produce(log, 50).base_offset == 2


class TestSnapshot:
    def entries(self) -> list[ProducerEntry]:
        plain = ProducerEntry(5, 1, -1, START_MS, batches=(WrittenBatch(9, 99, 4, START_MS),))
        opened = ProducerEntry(3, 0, 7, START_MS, 90, (WrittenBatch(0, 90, 0, START_MS),))
        return [opened, plain, ProducerEntry(4, 2, 1, START_MS)]

    def state(self) -> ProducerState:
        state = ProducerState("t-0", 1000)
        state.load([entry.packed() for entry in self.entries()], 100, START_MS)
        return state

    def test_the_snapshot_is_read_back_as_it_was_written(self) -> None:
        found = decode_snapshot(self.state().content().encode(), "x")
        assert {entry.producer_id: entry for entry in found} == {
            entry.producer_id: entry for entry in self.entries()
        }
        assert self.state().first_unstable_offset == 90

    def test_expired_producers_are_not_loaded(self) -> None:
        state = ProducerState("t-0", 1000)
        state.load([entry.packed() for entry in self.entries()], 100, START_MS + 1000)
        assert [entry.producer_id for entry in state.entries()] == [3]  # its transaction is open

    def test_order_is_that_of_java_s_hash_table(self) -> None:
        state = ProducerState("t-0", 1000)
        state.load(
            [ProducerEntry(id_, 0, -1, START_MS).packed() for id_ in (13, 15, 16, 33, 17)], 1, START_MS
        )
        assert [entry.producer_id for entry in decode_snapshot(state.content().encode(), "x")] == [
            16,
            33,
            17,
            13,
            15,
        ]

    def test_a_snapshot_may_have_no_producers(self) -> None:
        encoded = ProducerState("t-0", 1).content().encode()
        assert len(encoded) == 10
        assert decode_snapshot(encoded, "x") == []

    @pytest.mark.parametrize("position", range(0, 148, 7))
    def test_a_wrong_bit_is_found(self, position: int) -> None:
        encoded = bytearray(self.state().content().encode())
        encoded[position] ^= 4
        with pytest.raises(CorruptRecordError):
            decode_snapshot(bytes(encoded), "x")

    def test_a_short_file_is_found(self) -> None:
        encoded = self.state().content().encode()
        for size in range(len(encoded)):
            with pytest.raises(CorruptRecordError):
                decode_snapshot(encoded[:size], "x")

    def test_a_torn_snapshot_gives_way_to_an_older_one(self) -> None:
        rig = LogRig(SimDisk())
        log = rig.create()
        produce(log, 0)
        log.roll()
        produce(log, 1)
        log.roll()
        log.close(clean=True)
        rig.disk.open("/data/t-0/00000000000000000002.snapshot").truncate(20)
        again = rig.load(clean=True)
        (entry,) = again.producers.active()
        assert entry.last_sequence == 1

    def test_only_the_newest_batch_survives_a_restart(self) -> None:
        rig = LogRig(SimDisk())
        log = rig.create()
        produce(log, 0)
        produce(log, 1)
        log.close(clean=True)
        again = rig.load(clean=True)
        assert produce(again, 1).duplicate
        with pytest.raises(OutOfOrderSequenceException):
            produce(again, 0)

    def test_five_batches_and_a_later_marker_are_kept_in_the_stored_form(self) -> None:
        batches = tuple(WrittenBatch(nth, 10 + nth, 0, START_MS + nth) for nth in range(5))
        entry = ProducerEntry(2**62, 32_767, 9, START_MS + 50, 11, batches)
        assert unpacked(entry.packed()) == entry
        assert len(entry.packed()) == 166

    @pytest.mark.parametrize("most", [0, MANY_PRODUCERS * 40])
    def test_many_producers_have_the_same_order_as_few(
        self, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = [nth * 7_919 % 5_003 + (nth % 3 << 40) for nth in range(MANY_PRODUCERS)]
        producers = [ProducerEntry(id_, 0, -1, START_MS).packed() for id_ in ids]
        content = SnapshotContent(producers, max(most, len(producers)))
        many = content.encode()
        monkeypatch.setattr(producer_entries, "MANY_PRODUCERS", len(producers) + 1)
        assert content.encode() == many
        assert len(decode_snapshot(many, "x")) == len(producers)


class TestManyProducers:
    """A snapshot of many producers is written in the background, and any change of the log may come first."""

    @pytest.fixture(autouse=True)
    def _few_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in ("producer_entries", "snapshots"):
            monkeypatch.setattr(f"kcli.storage.log.{module}.MANY_PRODUCERS", 3)

    @pytest.fixture
    def rig(self) -> LogRig:
        return LogRig(SimDisk(), background=self.jobs.append)

    def setup_method(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def write(self, rig: LogRig) -> PartitionLog:
        log = rig.create()
        for producer in range(5):
            produce(log, 0, producer=producer)
        log.roll()
        return log

    def disk_of(self, rig: LogRig) -> SimDisk:
        assert isinstance(rig.disk, SimDisk)
        return rig.disk

    def snapshots(self, rig: LogRig) -> list[str]:
        return [each.name for each in rig.disk.list_dir("/data/t-0") if "snapshot" in each.name]

    def test_a_roll_writes_the_snapshot_in_the_background(self, rig: LogRig) -> None:
        log = self.write(rig)
        assert self.snapshots(rig) == []
        produce(log, 0, producer=9)
        for job in self.jobs:
            job()
        assert self.snapshots(rig) == ["00000000000000000005.snapshot"]
        content = read_file(rig.disk, "/data/t-0/00000000000000000005.snapshot")
        assert [entry.producer_id for entry in decode_snapshot(content, "x")] == [0, 1, 2, 3, 4]

    def test_a_crash_before_the_write_loses_no_producer(self, rig: LogRig) -> None:
        log = self.write(rig)
        produce(log, 0, producer=9)
        again = rig.load(clean=False)
        assert [entry.producer_id for entry in again.producers.active()] == [0, 1, 2, 3, 4, 9]
        assert log.log_end_offset == again.log_end_offset == 6

    @pytest.mark.parametrize("offset", [0, 4, 5])
    def test_a_truncation_before_the_write_drops_the_snapshot(self, rig: LogRig, offset: int) -> None:
        log = self.write(rig)
        produce(log, 0, producer=9)
        log.truncate_to(offset)
        for job in self.jobs:
            job()
        assert self.snapshots(rig) == (["00000000000000000005.snapshot"] if offset == 5 else [])
        assert [entry.producer_id for entry in log.producers.active()] == list(range(offset))

    def test_a_deleted_segment_takes_its_unwritten_snapshot_along(self, rig: LogRig) -> None:
        log = self.write(rig)
        log.truncate_fully_and_start_at(Offset(20))
        for job in self.jobs:
            job()
        assert self.snapshots(rig) == []

    def test_a_closed_log_writes_nothing_into_a_new_log_of_its_name(self, rig: LogRig) -> None:
        log = self.write(rig)
        log.close(clean=False)
        rig.disk.rename("/data/t-0", "/data/t-0.0-delete")
        rig.create()
        before = self.disk_of(rig).contents("/data/t-0")
        for job in self.jobs:
            job()
        assert self.disk_of(rig).contents("/data/t-0") == before

    def test_a_clean_stop_before_the_write_keeps_the_producers(self, rig: LogRig) -> None:
        log = self.write(rig)
        log.close(clean=True)
        assert self.snapshots(rig) == ["00000000000000000005.snapshot"]
        assert [entry.producer_id for entry in rig.load(clean=True).producers.active()] == [0, 1, 2, 3, 4]

    def test_the_file_of_a_deleted_snapshot_is_not_the_unfinished_file(
        self, rig: LogRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise the removal of deleted files could remove it before it has its name."""
        log = self.write(rig)
        rename = rig.disk.rename

        def removed_first(source: str, target: str) -> None:
            if source.startswith(f"{log.path}/") and target == log.local.snapshots.path(Offset(5)):
                assert source.endswith(".deleted"), "the next start removes it"
                with contextlib.suppress(FileNotFoundError):
                    rig.disk.remove(log.local.snapshots.path(Offset(5)) + ".deleted")
            rename(source, target)

        monkeypatch.setattr(rig.disk, "rename", removed_first)
        for job in self.jobs:
            job()
        assert self.snapshots(rig) == ["00000000000000000005.snapshot"]

    def test_retention_of_every_segment_loses_no_producer_at_a_kill(self, rig: LogRig) -> None:
        log = rig.create()
        for producer in range(5):
            produce(log, 0, producer=producer)
        log.set_high_watermark(log.log_end_offset)
        log.update_config(LogConfig(retention_ms=1))
        assert log.delete_old_segments(START_MS + 1_000_000) == 1
        again = rig.load(clean=False, recovery_point=5, log_start_offset=5)
        assert [entry.producer_id for entry in again.producers.active()] == [0, 1, 2, 3, 4]

    def test_after_a_shortage_only_the_newest_copy_waits(self, rig: LogRig) -> None:
        log = self.write(rig)
        produce(log, 1, producer=0)
        log.roll()
        self.disk_of(rig).fail("open", "unfinished", kind=FaultKind.SHORT)
        self.disk_of(rig).fail("open", "unfinished", nth=2, kind=FaultKind.SHORT)
        jobs = iter(self.jobs)
        while self.disk_of(rig).has_faults:
            next(jobs)()
        assert [log.local.snapshots.is_unwritten(Offset(offset)) for offset in (5, 6)] == [False, True]
        for job in jobs:
            job()
        assert self.snapshots(rig) == ["00000000000000000006.snapshot"]


class TestLimits:
    def test_above_the_limit_the_ids_that_wrote_longest_ago_are_forgotten(self) -> None:
        state = ProducerState("t-0", 1 << 60, ProducerIds(2 * KEPT_PRODUCER_IDS))
        busy, opened = 0, 1
        self.write(state, opened, 1, transactional=True)
        for nth in range(2, 20 * KEPT_PRODUCER_IDS):
            self.write(state, nth, 2 * nth)
            self.write(state, busy, 2 * nth + 1)
        assert KEPT_PRODUCER_IDS < len(state) < 3 * KEPT_PRODUCER_IDS
        known = [entry.producer_id for entry in state.entries()]
        assert {busy, opened, 20 * KEPT_PRODUCER_IDS - 1} <= {*known}
        assert min(set(known) - {busy, opened}) > 15 * KEPT_PRODUCER_IDS

    def test_a_partition_with_few_ids_forgets_none(self) -> None:
        ids = ProducerIds(2 * KEPT_PRODUCER_IDS)
        small, large = ProducerState("s-0", 1 << 60, ids), ProducerState("l-0", 1 << 60, ids)
        for nth in range(10 * KEPT_PRODUCER_IDS):
            self.write(large, nth, nth)
            if nth % 100 == 0:
                self.write(small, nth, nth)
        assert len(small) == KEPT_PRODUCER_IDS // 10
        assert len(large) < 3 * KEPT_PRODUCER_IDS

    def test_verifications_are_limited(self) -> None:
        state = ProducerState("t-0", 1 << 60)
        first = state.verification(0, 0, 0, from_zero=True, now_ms=1)
        for nth in range(1, MAX_VERIFICATIONS + 1):
            newest = state.verification(nth, 0, 0, from_zero=True, now_ms=1)
        assert not state.is_valid(0, first)
        assert state.is_valid(MAX_VERIFICATIONS, newest)

    def write(self, state: ProducerState, producer: int, offset: int, *, transactional: bool = False) -> None:
        header = read_header(HEADER)._replace(producer_id=producer, attributes=0x10 if transactional else 0)
        state.update(header, Offset(offset))


HEADER = batch_of(numbered(1), producer_id=1, producer_epoch=0, sequence=0)


def test_header_of_a_marker_is_kafka_s() -> None:
    marker = marker_of(commit=True, producer_id=1, producer_epoch=2)
    header = read_header(marker)
    assert (header.attributes, header.records_count, header.base_sequence, len(marker)) == (0x30, 1, -1, 78)
