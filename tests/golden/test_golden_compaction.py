"""Batches that Kafka 4.1.0 compacted, made again from what they were before: the same bytes.

The records that it dropped are gone, but not what they left behind: offsets, a timestamp for each offset, the batch's
range. Records of any key that is written again later serve as well in their place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_header, read_records
from kcli.storage.cleaner.cleaner import DEFAULT_LIMITS
from kcli.storage.cleaner.one_pass import CleaningPass
from kcli.storage.cleaner.plan import CleanedSegment, CleaningDone, CleaningPlan, LastRecord, SourceSegment
from kcli.storage.files import CLEANED_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, offset_name
from kcli.storage.log.transaction_index import ENTRY, AbortedTransaction
from simulation.runtime.disk import SimDisk

GOLDEN = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden" / "logdir-clean"
REWRITTEN_LATER = b"written again later"
YEAR_MS = 31_536_000_000

pytestmark = pytest.mark.skipif(
    not GOLDEN.exists(), reason="the directory written by Kafka 4.1.0 is not here"
)


def batches_of(topic: str, base_offset: int = 0) -> list[bytes]:
    content = (GOLDEN / f"{topic}-0" / offset_name(base_offset, LOG_SUFFIX)).read_bytes()
    return [content[at : at + header.size_bytes] for at, header in iter_batches(content)]


def as_produced(compacted: bytes) -> bytes:
    """A batch as it was before it was compacted, with the records that went."""
    header = read_header(compacted)
    left = {record.offset: record for record in read_records(compacted)}
    shift = next(iter(left.values())).timestamp_ms - next(iter(left))
    records = [
        left.get(offset, Record(offset, shift + offset, REWRITTEN_LATER, b"gone", (), -1))
        for offset in range(header.base_offset, header.next_offset)
    ]
    assert all(record.timestamp_ms - record.offset == shift for record in records)
    return encode_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        codec=header.codec,
    )


def compact(
    segment: list[bytes],
    *,
    now_ms: int,
    retention_ms: int,
    base_offset: int = 0,
    aborted: tuple[AbortedTransaction, ...] = (),
    last_records: tuple[LastRecord, ...] = (),
) -> tuple[list[bytes], SimDisk]:
    disk = SimDisk(lambda: now_ms)
    disk.make_dir("/log")
    content = b"".join(segment)
    path = f"/log/{offset_name(base_offset, LOG_SUFFIX)}"
    disk.open(path, create=True).write_at(0, content)
    plan = CleaningPlan(
        topic_partition="t-0",
        path="/log",
        segments=(SourceSegment(base_offset, len(content), 0, 0),),
        first_dirty_offset=base_offset,
        first_dirty_position=0,
        upper_bound_offset=read_header(segment[-1]).next_offset,
        aborted=aborted,
        last_records=last_records,
        now_ms=now_ms,
        delete_retention_ms=retention_ms,
        segment_size_bytes=1 << 30,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
    )
    cleaned, done = CleaningPass(plan, DEFAULT_LIMITS, disk).run()
    assert isinstance(cleaned, CleanedSegment) and isinstance(done, CleaningDone)
    file = disk.open(path + CLEANED_SUFFIX)
    found = file.read_at(0, file.size())
    return [found[at : at + header.size_bytes] for at, header in iter_batches(found)], disk


@pytest.mark.parametrize(
    ("topic", "retention_ms"), [("compact-keep", YEAR_MS), ("compact-drop", 100), ("compact-zstd", YEAR_MS)]
)
def test_the_same_batches(topic: str, retention_ms: int) -> None:
    golden = batches_of(topic)
    horizon_ms = read_header(golden[0]).delete_horizon_ms
    assert horizon_ms is not None
    produced = [as_produced(batch) for batch in golden]
    # One more record, so that the key of those that went has a later one. It is past the batches that are compared.
    last = encode_batch(
        [Record(450, 1_760_000_300_000, REWRITTEN_LATER, b"", (), -1)], base_offset=450, leader_epoch=0
    )
    found, _ = compact([*produced, last], now_ms=horizon_ms - retention_ms, retention_ms=retention_ms)
    assert found == [*golden, last]
    again, _ = compact(found, now_ms=horizon_ms - 1, retention_ms=retention_ms)
    assert again == found
    tombstones = {record.offset for batch in golden for record in read_records(batch) if record.value is None}
    assert tombstones
    later, _ = compact(found, now_ms=horizon_ms, retention_ms=retention_ms)
    left = {record.offset for batch in later for record in read_records(batch)}
    before = {record.offset for batch in found for record in read_records(batch)}
    assert left == before - tombstones


def test_the_same_transactions() -> None:
    """The active segment of compact-txn was not compacted: what stays of it is what stayed of the round before it."""
    produced = batches_of("compact-txn", 189)
    headers = [read_header(batch) for batch in produced]
    content = (GOLDEN / "compact-txn-0" / offset_name(189, TXN_INDEX_SUFFIX)).read_bytes()
    (entry,) = ENTRY.iter_unpack(content)
    aborted = AbortedTransaction(*entry[1:])
    producer = LastRecord(headers[-1].producer_id, headers[-1].producer_epoch, headers[-2].last_offset)
    found, disk = compact(
        produced,
        now_ms=headers[-1].max_timestamp_ms,
        retention_ms=YEAR_MS,
        base_offset=189,
        aborted=(aborted,),
        last_records=(producer,),
    )
    golden = [batch for batch in batches_of("compact-txn") if read_header(batch).base_offset >= 146]
    shape = [shape_of(batch) for batch in found if read_header(batch).base_offset >= 209]
    assert shape == [(offset + 63, *rest) for offset, *rest in map(shape_of, golden)]
    index = disk.open(f"/log/{offset_name(189, TXN_INDEX_SUFFIX)}{CLEANED_SUFFIX}")
    assert index.read_at(0, index.size()) == content


def shape_of(batch: bytes) -> tuple[int, int, int, bool, bool]:
    header = read_header(batch)
    return (
        header.base_offset,
        header.last_offset_delta,
        header.records_count,
        header.is_control,
        header.has_delete_horizon,
    )
