"""Snapshots of the metadata log: names, batches, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kcli.errors import CorruptRecordError
from kcli.metadata import snapshot_file as snapshots
from kcli.metadata.snapshot_file import SnapshotId, decode_snapshot, encode_snapshot, snapshot_id_of
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import iter_batches
from kcli.raft.voters import ReplicaKey, Voter, VoterSet, voter_set

VOTERS = VoterSet((Voter(ReplicaKey(1, uuid.UUID(int=500)), {"CONTROLLER": Address("h", 9093)}),))


def encoded(values: list[bytes], **changes: Any) -> bytes:
    fields = {"epoch": 3, "last_contained_log_timestamp_ms": 77, "now_ms": 99, **changes}
    return b"".join(encode_snapshot(values, **fields))


def test_names_are_offset_and_epoch() -> None:
    name = "00000000000000000168-0000000001.checkpoint"
    assert snapshot_id_of(name) == SnapshotId(168, 1)
    assert SnapshotId(168, 1).file_name == name
    assert SnapshotId(9, 1) < SnapshotId(10, 0) < SnapshotId(10, 1)


@pytest.mark.parametrize("name", ["1-1.checkpoint", f"{'0' * 20}-{'0' * 10}.checkpoint.deleted", "x.log"])
def test_other_names_are_no_snapshots(name: str) -> None:
    assert snapshot_id_of(name) is None


def test_offsets_count_the_records_of_the_file() -> None:
    content = encoded([b"a", b"b"], kraft_version=1, voters=VOTERS.record())
    headers = [header for _, header in iter_batches(content)]
    assert [(header.base_offset, header.records_count, header.is_control) for header in headers] == [
        (0, 3, True),
        (3, 2, False),
        (5, 1, True),
    ]
    assert {header.partition_leader_epoch for header in headers} == {3}
    assert {header.max_timestamp_ms for header in headers} == {99}


def test_a_snapshot_is_read_back_as_it_was_written() -> None:
    read = decode_snapshot(encoded([b"a", b"b"], kraft_version=1, voters=VOTERS.record()), "x")
    assert read.batches == ((b"a", b"b"),)
    assert (read.last_contained_log_timestamp_ms, read.kraft_version) == (77, 1)
    assert voter_set(read.voters) == VOTERS


def test_without_kraft_version_1_no_voters_are_written() -> None:
    read = decode_snapshot(encoded([]), "x")
    assert (read.kraft_version, read.voters, read.batches) == (0, None, ())


def test_large_snapshots_are_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_BATCH_BYTES", 100)
    values = [bytes([nth]) * 30 for nth in range(7)]
    read = decode_snapshot(encoded(values), "x")
    assert [len(batch) for batch in read.batches] == [1] * 7
    assert [value for batch in read.batches for value in batch] == values


def test_broken_snapshots_are_refused() -> None:
    whole = encoded([b"a"])
    starts = [position for position, _ in iter_batches(whole)]
    broken = {
        "cut short": whole[:-1],
        "empty": b"",
        "no footer": whole[: starts[2]],
        "no header": whole[starts[1] :],
        "flipped": whole[:-1] + bytes([whole[-1] ^ 1]),
    }
    for content in broken.values():
        with pytest.raises(CorruptRecordError, match="the-name"):
            decode_snapshot(content, "the-name")
