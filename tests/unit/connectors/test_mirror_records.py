"""The records of MirrorMaker's internal topics, and their formatters."""

from __future__ import annotations

import base64

import pytest

from kcli.cli.syntax.options import UsageError
from kcli.cli.tools.console.formatters import FormatError, formatter
from kcli.connectors.mirror.records import Checkpoint, Heartbeat, InvalidMirrorRecord, OffsetSync
from kcli.model.topic_partition import TopicPartition
from rigs.connect_tasks import Record
from rigs.golden3 import recording, steps

MirrorRecord = OffsetSync | Checkpoint | Heartbeat
SYNC = OffsetSync(TopicPartition("t", 0), 7, 5)
CHECKPOINT = Checkpoint("g", TopicPartition("A.t", 3), 7, 5, "meta")
HEARTBEAT = Heartbeat("A", "B", 1_700_000_000_000)
RECORDS = [
    (SYNC, "OffsetSyncFormatter", "OffsetSync{topicPartition=t-0, upstreamOffset=7, downstreamOffset=5}"),
    (
        CHECKPOINT,
        "CheckpointFormatter",
        "Checkpoint{consumerGroupId=g, topicPartition=A.t-3, upstreamOffset=7, downstreamOffset=5, metadata=meta}",
    ),
    (
        HEARTBEAT,
        "HeartbeatFormatter",
        "Heartbeat{sourceClusterAlias=A, targetClusterAlias=B, timestamp=1700000000000}",
    ),
]


def test_the_bytes_of_an_offset_sync() -> None:
    assert SYNC.key() == bytes.fromhex("0001 74 00000000")
    assert SYNC.value() == bytes.fromhex("0000000000000007 0000000000000005")


@pytest.mark.parametrize(("record", "name", "line"), RECORDS)
def test_a_record_is_read_back_and_printed(record: MirrorRecord, name: str, line: str) -> None:
    assert type(record).parse(record.key(), record.value()) == record
    show = formatter(f"org.apache.kafka.connect.mirror.formatters.{name}", {})
    assert show(Record("topic", record.value(), record.key())) == line.encode() + b"\n"


@pytest.mark.parametrize(("record", "name", "line"), RECORDS)
def test_each_damaged_record_is_refused(record: MirrorRecord, name: str, line: str) -> None:
    key, value = record.key(), record.value()
    show = formatter(f"org.apache.kafka.connect.mirror.formatters.{name}", {})
    damaged = [(None, value), (key, None), (key + b"x", value), (key, value + b"x")]
    damaged += [(key[:end], value) for end in range(len(key))] + [
        (key, value[:end]) for end in range(len(value))
    ]
    damaged += [(b"\xff" + key[1:], value), (key[:2] + b"\xff" + key[3:], value)]
    if record is not SYNC:
        damaged.append((key, b"\0\1" + value[2:]))
    for broken_key, broken_value in damaged:
        with pytest.raises(InvalidMirrorRecord):
            type(record).parse(broken_key, broken_value)
        with pytest.raises(FormatError, match="Could not read record at offset 0 due to"):
            show(Record("topic", broken_value, broken_key))


def test_a_negative_partition_and_a_long_text_are_refused() -> None:
    with pytest.raises(InvalidMirrorRecord):
        OffsetSync.parse(bytes.fromhex("0001 74 ffffffff"), SYNC.value())
    with pytest.raises(InvalidMirrorRecord):
        Heartbeat("x" * 2**15, "B", 0).key()


def test_an_unknown_formatter_of_mirror_maker() -> None:
    with pytest.raises(UsageError):
        formatter("org.apache.kafka.connect.mirror.formatters.OtherFormatter", {})


def test_the_recorded_topics_of_kafka() -> None:
    kinds: dict[str, type[MirrorRecord]] = {
        "mm2-offset-syncs.": OffsetSync,
        ".checkpoints.": Checkpoint,
        "heartbeats": Heartbeat,
    }
    read = 0
    for step in steps(recording("mirror/mirror.jsonl")):
        outcome = step.get("outcome")
        for topic, records in (outcome.get("raw", {}) if isinstance(outcome, dict) else {}).items():
            for kind in (kind for part, kind in kinds.items() if part in topic):
                for line in records:
                    key, value = base64.b64decode(line["key"]), base64.b64decode(line["value"])
                    record = kind.parse(key, value)
                    assert (record.key(), record.value()) == (key, value)
                    read += 1
    assert read > 40
