"""A log directory written by Kafka 4.1.0 opens, reads back record for record, and closes to the very same bytes."""

from __future__ import annotations

import base64
import json
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.config.topic import LogConfig
from kcli.model.ids import Position
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, Record, iter_batches, read_header, read_records
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import read_offsets
from kcli.storage.cleaner.cleaner import LogCleaner
from kcli.storage.log.batch_search import headers
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.store import LogStore

GOLDEN = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden"
KEEP = LogConfig(retention_ms=-1, segment_index_bytes=65536)

KAFKA_CLEANED_AT_MS = 1_795_252_200_000  # about when the directory was made

INDEX_INTERVALS = {"segments-ms": 256, "segments-bytes": 1024, "delrec": 1024}

# Written to before and after a restart, which began a new count of bytes to the next index entry; the first entry
# after it, and so all later ones, are elsewhere than one pass over the whole segment puts them.
RESTARTED = (
    "__cluster_metadata-0/",
    "__consumer_offsets-1/",
    "__transaction_state-1/",
    "delrec-",
    "segments-ms-0/",
)

# Compaction took the data of an aborted transaction and left its marker: only the old file knows of it.
COMPACTED = "compact-txn-0/00000000000000000000.txnindex"

pytestmark = pytest.mark.skipif(
    not GOLDEN.exists(), reason="the directory written by Kafka 4.1.0 is not here"
)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    target = tmp_path / "data"
    shutil.copytree(GOLDEN / "logdir-clean", target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def open_store(path: Path) -> LogStore:
    return LogStore.open(
        SystemDisk(), SystemClock(), [str(path)], node_id=1, rng=SystemRng(7), default_config=KEEP,
        producer_expiration_ms=1 << 60,
        config_for=lambda topic: replace(KEEP, index_interval_bytes=INDEX_INTERVALS.get(topic, 4096)),
    )  # fmt: skip


def bounds() -> dict[TopicPartition, dict[str, int]]:
    lines = map(json.loads, (GOLDEN / "partitions.jsonl").read_text().splitlines())
    return {TopicPartition(line["topic"], line["partition"]): line for line in lines}


def records_of(log: PartitionLog) -> list[dict[str, object]]:
    """As in manifest.jsonl, read through `read` in slices of 4 kB."""
    found: list[dict[str, object]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        content = log.read(offset, 4096, end_offset=log.log_end_offset).read()
        assert content
        for position, header in iter_batches(content):
            if not header.is_control:
                records = read_records(content, position)
                found.extend(
                    line_of(log, header, record)
                    for record in records
                    if record.offset >= log.log_start_offset
                )
            offset = header.next_offset
    return found


def line_of(log: PartitionLog, header: BatchHeader, record: Record) -> dict[str, object]:
    return {
        "topic": log.topic,
        "partition": log.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "key": encoded(record.key),
        "value": encoded(record.value),
        "headers": [[name, encoded(value)] for name, value in record.headers],
        "leader_epoch": header.partition_leader_epoch,
    }


def encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_every_record_is_the_manifest_s(copied: Path) -> None:
    expected = defaultdict(list)
    for line in (GOLDEN / "manifest.jsonl").read_text().splitlines():
        record = json.loads(line)
        expected[(record["topic"], record["partition"])].append(record)
    store = open_store(copied)
    assert len(store.logs) == 58
    assert store.previous_broker_epoch == 541
    for key, bound in bounds().items():
        log = store.logs[key]
        assert log.log_start_offset == bound["log_start_offset"], key
        assert log.high_watermark == bound["high_watermark"], key
        assert log.last_stable_offset == bound["last_stable_offset"], key
        assert records_of(log) == expected[key], key
    store.close()


def what_kafka_would_change(path: Path) -> dict[str, bytes]:
    """The files as they were, without the changes that any start of Kafka makes."""
    kept = {}
    for name, content in files_of(path).items():
        directory = path / Path(name).parent
        if name.endswith(".snapshot"):
            bases = {file.stem for file in directory.glob("*.log")}
            newest = max(file.stem for file in directory.glob("*.snapshot"))
            if Path(name).stem not in bases | {newest}:
                continue  # a stray snapshot, of an earlier clean stop
        kept[name] = content
    for (topic, partition), bound in bounds().items():
        # An epoch without records is forgotten, because the next leader has a higher one.
        name = f"{topic}-{partition}/leader-epoch-checkpoint"
        rows = [
            row
            for row in kept[name].decode().splitlines()[2:]
            if int(row.split()[1]) < bound["high_watermark"]
        ]
        kept[name] = "".join(f"{row}\n" for row in ["0", str(len(rows)), *rows]).encode()
    return kept


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def test_a_clean_open_and_close_changes_no_byte(copied: Path) -> None:
    before = what_kafka_would_change(copied)
    store = open_store(copied)
    store.close(broker_epoch=541)
    after = files_of(copied)
    changed = differences(before, after)
    # Offset checkpoints are in hash order, which is not promised: the same entries will do.
    tables = [name for name in changed if name.endswith("-offset-checkpoint")]
    for name in tables:
        assert sorted(before[name].splitlines()) == sorted(after[name].splitlines()), name
    assert [name for name in changed if name not in tables] == []


def test_an_unclean_open_rebuilds_every_index_as_kafka_wrote_it(copied: Path) -> None:
    before = what_kafka_would_change(copied)
    (copied / ".kafka_cleanshutdown").unlink()
    (copied / "recovery-point-offset-checkpoint").unlink()
    for path in copied.rglob("*.index"):
        path.write_bytes(bytes(65536))  # as a crashed Kafka leaves them
    for path in copied.rglob("*.timeindex"):
        path.write_bytes(bytes(65532))
    store = open_store(copied)
    for key, bound in bounds().items():
        log = store.logs[key]
        assert log.log_end_offset == bound["high_watermark"], key
        assert log.last_stable_offset == bound["last_stable_offset"], key
    store.close(broker_epoch=541)
    after = files_of(copied)
    rebuilt = (".log", ".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint")
    changed = [name for name in differences(before, after) if name.endswith(rebuilt)]
    assert [name for name in changed if not name.startswith(RESTARTED) and name != COMPACTED] == []


def test_every_index_entry_points_to_its_batch(copied: Path) -> None:
    store = open_store(copied)
    entries = 0
    for log in store.logs.values():
        for segment in log.segments:
            batches = dict(headers(segment))
            for relative, position in segment.offset_index.entries.entries():
                assert batches[Position(position)].last_offset == segment.base_offset + relative
                entries += 1
    assert entries > 300
    store.close()


def test_checkpoints_parse_again(copied: Path) -> None:
    disk = SystemDisk()
    before = {path.name: read_offsets(disk, str(path)) for path in copied.glob("*-offset-checkpoint")}
    open_store(copied).close()
    assert {path.name: read_offsets(disk, str(path)) for path in copied.glob("*-offset-checkpoint")} == before


def clean_again(copied: Path, topic: str) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """The batches of Kafka's compacted segment before and after our cleaner has been over it: base offset -> bytes."""
    (copied / "cleaner-offset-checkpoint").unlink()
    store = open_store(copied)
    log = store.logs[TopicPartition(topic, 0)]
    log.update_config(LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0))

    def batches() -> dict[int, bytes]:
        content = log.read(log.log_start_offset, 1 << 20, end_offset=1 << 40).read()
        return {
            header.base_offset: content[position : position + header.size_bytes]
            for position, header in iter_batches(content)
        }

    before = batches()
    (result,) = LogCleaner(store).clean(KAFKA_CLEANED_AT_MS)
    assert result.topic == topic
    after = batches()
    store.close()
    return before, after


@pytest.mark.parametrize("topic", ["compact-keep", "compact-zstd"])
def test_cleaning_does_not_change_a_log_that_kafka_compacted(copied: Path, topic: str) -> None:
    before, after = clean_again(copied, topic)
    assert after == before


def test_markers_without_data_get_their_horizon_in_the_next_pass(copied: Path) -> None:
    """So did Kafka with the transactions before: their horizons differ by pass."""
    before, after = clean_again(copied, "compact-txn")
    assert after.keys() == before.keys()
    changed = {offset for offset in before if after[offset] != before[offset]}
    assert changed == {125, 146, 167}  # 188 ends a transaction that still has data
    for offset in changed:
        assert read_header(before[offset]).delete_horizon_ms is None
        assert read_header(after[offset]).delete_horizon_ms == KAFKA_CLEANED_AT_MS + 86_400_000
        assert list(read_records(after[offset])) == list(read_records(before[offset]))
