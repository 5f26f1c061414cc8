"""A log directory written by Kafka 4.1.0 opens, reads back record for record, and closes to the very same bytes."""

from __future__ import annotations

import base64
import json
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from kcli.config.topic import LogConfig
from kcli.protocol.batch import iter_batches, read_records
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import read_offsets
from kcli.storage.log import PartitionLog
from kcli.storage.store import LogStore

GOLDEN = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden"
KEEP = LogConfig(retention_ms=-1, segment_index_bytes=65536)

pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="the directory written by Kafka 4.1.0 is not here")


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
    )  # fmt: skip


def bounds() -> dict[tuple[str, int], dict[str, int]]:
    lines = map(json.loads, (GOLDEN / "partitions.jsonl").read_text().splitlines())
    return {(line["topic"], line["partition"]): line for line in lines}


def records_of(log: PartitionLog) -> list[dict[str, object]]:
    """As in manifest.jsonl, read through `read` in slices of 4 kB."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 4096, end_offset=log.log_end_offset)
        content = piece.read()
        assert content
        for position, header in iter_batches(content):
            if not header.is_control:
                for record in read_records(content, position):
                    if record.offset >= log.log_start_offset:
                        found.append(
                            {
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
                        )
            offset = header.next_offset
    return found


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


def test_a_clean_open_and_close_changes_no_byte(copied: Path) -> None:
    before = files_of(copied)
    store = open_store(copied)
    store.close(broker_epoch=541)
    after = files_of(copied)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    # Offset checkpoints are in hash order, which is not promised: the same entries will do.
    tables = [name for name in changed if name.endswith("-offset-checkpoint")]
    for name in tables:
        again = dict.fromkeys(before[name].decode().splitlines())
        assert sorted(again) == sorted(after[name].decode().splitlines()), name
    assert [name for name in changed if name not in tables] == []


def test_an_unclean_open_rebuilds_every_index_as_kafka_wrote_it(copied: Path) -> None:
    before = files_of(copied)
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
    logs = [name for name in before if name.endswith((".log", ".txnindex", "leader-epoch-checkpoint"))]
    assert [name for name in logs if before[name] != after[name]] == []
    differing = [name for name in before if name.endswith((".index", ".timeindex")) and before[name] != after[name]]
    assert differing == []


def test_checkpoints_parse_again(copied: Path) -> None:
    disk = SystemDisk()
    before = {path.name: read_offsets(disk, str(path)) for path in copied.glob("*-offset-checkpoint")}
    open_store(copied).close()
    assert {path.name: read_offsets(disk, str(path)) for path in copied.glob("*-offset-checkpoint")} == before
