"""metadata-shell over files it makes itself."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.tools.metadata_shell.tree import absolute
from kcli.metadata.snapshot_file import encode_snapshot
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.records import metadata as records
from kcli.runtime.disk import SystemDisk

TOPIC_ID = uuid.UUID(int=1)
SHOWN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
RECORDS: tuple[records.MetadataRecord, ...] = (
    records.FeatureLevelRecord(name="metadata.version", feature_level=27),
    records.TopicRecord(name="orders", topic_id=TOPIC_ID),
    records.PartitionRecord(
        topic_id=TOPIC_ID, partition_id=0, replicas=(1,), isr=(1,), leader=1, leader_epoch=0
    ),
    records.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="9"),
    records.UserScramCredentialRecord(
        name="ann", mechanism=1, salt=b"salt", stored_key=b"secret", server_key=b"secret", iterations=4096
    ),
)


@pytest.fixture
def values() -> list[bytes]:
    return [records.encode_metadata_record(record, 0) for record in RECORDS]


@pytest.fixture
def snapshot(tmp_path: Path, values: list[bytes]) -> Path:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    path = directory / "00000000000000000005-0000000003.checkpoint"
    batches = encode_snapshot(values, epoch=3, last_contained_log_timestamp_ms=77, now_ms=80)
    path.write_bytes(b"".join(map(bytes, batches)))
    return path


def _said(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> list[str]:
    assert run(["metadata-shell", "--snapshot", str(path), *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_snapshot_is_a_tree(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(capsys, snapshot, "ls", "/") == ["image", "local"]
    assert _said(capsys, snapshot, "ls", "image") == [
        "acls", "clientQuotas", "cluster", "configs", "delegationToken", "features", "producerIds",
        "provenance", "scram", "topics",
    ]  # fmt: skip
    (provenance,) = _said(capsys, snapshot, "cat", "/image/provenance")
    assert json.loads(provenance) == {"offset": 4, "epoch": 3, "lastContainedLogTimeMs": 77}
    assert _said(capsys, snapshot, "cat", "/image/configs/TOPIC/orders/retention.ms") == ["9"]
    (partition,) = _said(capsys, snapshot, "cat", f"/image/topics/byId/{SHOWN_ID}/0")
    assert json.loads(partition)["leaderEpoch"] == 0
    assert _said(capsys, snapshot, "tree", "/image/features") == [
        "/image/features:",
        "  metadata.version",
        "    27",
    ]


def test_passwords_stay_hidden(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (credential,) = _said(capsys, snapshot, "cat", "/image/scram/SCRAM-SHA-256/ann")
    assert json.loads(credential)["iterations"] == 4096
    assert "secret" not in credential and "hidden" in credential


def test_a_segment_is_a_tree_too(
    tmp_path: Path, values: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_batch([Record(timestamp_ms=5, value=value) for value in values], leader_epoch=2))
    assert _said(capsys, log, "find", "/image/topics/byName/o*") == [
        "/image/topics/byName/orders",
        "/image/topics/byName/orders/0",
        "/image/topics/byName/orders/id",
        "/image/topics/byName/orders/name",
    ]


def test_an_unknown_path_or_command_is_reported(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(capsys, snapshot, "cat", "/image/zzz") == ["cat: /image/zzz: No such file or directory."]
    assert _said(capsys, snapshot, "cat", "/image") == ["cat: /image: Is a directory."]
    assert _said(capsys, snapshot, "bogus") == [
        "invalid choice: 'bogus' (choose from 'cat', 'find', 'ls', 'tree')"
    ]
    assert _said(capsys, snapshot, "cd", "/")[0].startswith("invalid choice: 'cd'")


def test_the_shell_runs_typed_commands_until_exit(
    snapshot: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "cd image/topics\npwd\nls\ncd ..\nls features\ncd nope\ncd provenance\nhistory 2\nexit\nls\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert "\n".join(_said(capsys, snapshot)).replace(">> ", "").splitlines() == [
        "Loading...",
        "Starting...",
        "[ Kafka Metadata Shell ]",
        "/image/topics",
        "byId",
        "byName",
        "metadata.version",
        "cd: /image/nope: no such file or directory.",
        "cd: /image/provenance: not a directory.",
        "    7  cd provenance",
        "    8  history 2",
    ]


def test_a_directory_in_use(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = snapshot.parent.parent
    lock = SystemDisk().lock(f"{directory}/.lock")
    try:
        assert run(["metadata-shell", "-s", str(snapshot), "ls"]) == 1
    finally:
        lock.release()
    assert capsys.readouterr().err == (
        f"Unexpected error: Unable to lock {directory}. Please ensure that no broker or controller process is using "
        "this directory before proceeding.\n"
    )


def test_a_file_that_is_no_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "x.log"
    other.write_bytes(b"hello" * 20)
    assert run(["metadata-shell", "-s", str(other), "ls"]) == 1
    assert capsys.readouterr().err.startswith(f"Unexpected error: {other} cannot be read: ")
    assert run(["metadata-shell", "-s", str(tmp_path / "none.log"), "ls"]) == 1
    assert "No such file" in capsys.readouterr().err
    assert run(["metadata-shell"]) == 1
    assert "argument --snapshot/-s is required" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "where", "path"),
    [("b", "/a", "/a/b"), ("..", "/a/b", "/a"), ("/x/./y", "/a", "/x/y"), ("../..", "/a", "/")],
)
def test_a_typed_path_is_relative_to_the_current_directory(typed: str, where: str, path: str) -> None:
    assert absolute(typed, where) == path
