from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.features import FeatureError, metadata_version_of_release
from kcli.config.start_up import node_config
from kcli.controller.bootstrap import decode_bootstrap
from kcli.errors import StorageError
from kcli.metadata.snapshot_file import decode_snapshot
from kcli.protocol.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import (
    FormatError,
    FormatRequest,
    Machine,
    check_new_directories,
    ensure_formatted,
    format_directories,
    standalone_voters,
)
from kcli.storage.meta_properties import read_meta_properties

CLUSTER_ID = "Z29sZGVuLWNsdXN0ZXItMQ"
GOLDEN = Path(__file__).resolve().parents[3] / ".." / "shared" / "golden" / "logdir-clean"
MACHINE = Machine(SystemDisk(), SystemClock(), SystemRng(7))
VOTERS_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def node(tmp_path: Path, *dirs: str, **changes: str) -> BrokerConfig:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": ",".join(str(tmp_path / name) for name in dirs or ("d1",)),
    }
    return node_config(texts | {key.replace("_", "."): value for key, value in changes.items()})


def standalone(config: BrokerConfig, **changes: object) -> FormatRequest:
    request = {
        "cluster_id": CLUSTER_ID,
        "voters": standalone_voters(config, MACHINE.rng),
        "dynamic_quorum": True,
    }
    return FormatRequest(**(request | changes))


def levels(path: Path) -> dict[str, int]:
    records = decode_bootstrap((path / "bootstrap.checkpoint").read_bytes())
    return {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}


def test_a_standalone_node(tmp_path: Path) -> None:
    config = node(tmp_path, "d1", "d2")
    request = standalone(config)
    said: list[str] = []
    format_directories(config, request, MACHINE, said.append)
    assert sorted(said) == [
        f"Formatting data directory {tmp_path}/d2 with metadata.version 4.1-IV1.",
        f"Formatting dynamic metadata voter directory {tmp_path}/d1 with metadata.version 4.1-IV1.",
    ]
    first = read_meta_properties(MACHINE.disk, str(tmp_path / "d1"))
    second = read_meta_properties(MACHINE.disk, str(tmp_path / "d2"))
    assert first is not None and second is not None and request.voters is not None
    assert (first.cluster_id, first.node_id, first.version) == (CLUSTER_ID, 1, 1)
    assert first.directory_id == request.voters.voters[0].key.directory_id
    assert first.directory_id != second.directory_id
    snapshot = decode_snapshot((tmp_path / "d1" / VOTERS_SNAPSHOT).read_bytes(), "0-0")
    assert snapshot.voters == request.voters.record()
    assert request.voters.voters[0].endpoints == {"CONTROLLER": ("localhost", 9093)}
    assert not (tmp_path / "d2" / VOTERS_SNAPSHOT).exists()
    expected = {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    }
    assert levels(tmp_path / "d1") == levels(tmp_path / "d2") == expected


@pytest.mark.skipif(not GOLDEN.exists(), reason="the recorded log directory is not beside the checkout")
def test_files_are_those_that_kafka_writes(tmp_path: Path) -> None:
    config = node(tmp_path, listeners="PLAINTEXT://127.0.0.1:31092,CONTROLLER://127.0.0.1:31093")
    format_directories(config, standalone(config, features={"share.version": 1}), MACHINE, lambda _: None)
    ours, theirs = (tmp_path / "d1" / "bootstrap.checkpoint"), GOLDEN / "bootstrap.checkpoint"
    assert decode_bootstrap(ours.read_bytes()) == decode_bootstrap(theirs.read_bytes())
    assert ours.stat().st_size == theirs.stat().st_size
    assert (tmp_path / "d1" / VOTERS_SNAPSHOT).stat().st_size == (GOLDEN / VOTERS_SNAPSHOT).stat().st_size
    ours_meta = (tmp_path / "d1" / "meta.properties").read_text().splitlines()
    theirs_meta = (GOLDEN / "meta.properties").read_text().splitlines()
    assert [line.partition("=")[0] for line in ours_meta[2:]] == [
        line.partition("=")[0] for line in theirs_meta[2:]
    ]
    assert ours_meta[5] == theirs_meta[5]


def test_static_voters_and_a_metadata_directory_of_its_own(tmp_path: Path) -> None:
    config = node(
        tmp_path, metadata_log_dir=str(tmp_path / "meta"), controller_quorum_voters="1@127.0.0.1:9093"
    )
    said: list[str] = []
    format_directories(config, FormatRequest(cluster_id=CLUSTER_ID), MACHINE, said.append)
    assert sorted(said) == [
        f"Formatting data directory {tmp_path}/d1 with metadata.version 4.1-IV1.",
        f"Formatting metadata directory {tmp_path}/meta with metadata.version 4.1-IV1.",
    ]
    assert not (tmp_path / "meta" / VOTERS_SNAPSHOT).exists()


def test_release_features_and_credentials(tmp_path: Path) -> None:
    config = node(tmp_path)
    credential = UserScramCredentialRecord(name="adm", mechanism=1, iterations=4096)
    request = standalone(config, release=metadata_version_of_release("4.0"), scram=(credential,))
    format_directories(config, request, MACHINE, lambda _: None)
    assert levels(tmp_path / "d1") == {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
    assert decode_bootstrap((tmp_path / "d1" / "bootstrap.checkpoint").read_bytes())[-1] == credential


def test_formatting_again_is_refused_without_ignore_formatted(tmp_path: Path) -> None:
    format_directories(node(tmp_path), standalone(node(tmp_path)), MACHINE, lambda _: None)
    config = node(tmp_path, "d1", "d2")
    with pytest.raises(FormatError, match=rf"^Log directory {tmp_path}/d1 is already formatted\."):
        format_directories(config, standalone(config), MACHINE, lambda _: None)
    before = (tmp_path / "d1" / "meta.properties").read_bytes()
    said: list[str] = []
    format_directories(config, standalone(config, ignore_formatted=True), MACHINE, said.append)
    assert said == [f"Formatting data directory {tmp_path}/d2 with metadata.version 4.1-IV1."]
    assert (tmp_path / "d1" / "meta.properties").read_bytes() == before
    format_directories(config, standalone(config, ignore_formatted=True), MACHINE, said.append)
    assert said[1:] == ["All of the log directories are already formatted."]


def test_directories_of_others(tmp_path: Path) -> None:
    config = node(tmp_path)
    format_directories(config, standalone(config), MACHINE, lambda _: None)
    other = standalone(config, cluster_id="AAAAAAAAAAAAAAAAAAAAAA", ignore_formatted=True)
    with pytest.raises(StorageError) as refused:
        format_directories(config, other, MACHINE, lambda _: None)
    assert str(refused.value) == (
        f"Invalid cluster.id in: {tmp_path}/d1/meta.properties. "
        f"Expected AAAAAAAAAAAAAAAAAAAAAA, but read {CLUSTER_ID}"
    )
    with pytest.raises(StorageError, match="Stored node id 1 doesn't match previous node id 2 in"):
        ensure_formatted(node(tmp_path, node_id="2"), MACHINE, lambda _: None)


def test_a_copied_directory_is_noticed(tmp_path: Path) -> None:
    format_directories(node(tmp_path), standalone(node(tmp_path)), MACHINE, lambda _: None)
    (tmp_path / "d2").mkdir()
    (tmp_path / "d2" / "meta.properties").write_bytes((tmp_path / "d1" / "meta.properties").read_bytes())
    with pytest.raises(
        StorageError, match=rf"^Duplicate directory ID .* It was the ID of {tmp_path}/d1, but also of"
    ):
        ensure_formatted(node(tmp_path, "d1", "d2"), MACHINE, lambda _: None)


def test_voters_of_the_command_line_may_differ_from_those_of_the_configuration(tmp_path: Path) -> None:
    config = node(tmp_path, controller_quorum_voters="1@127.0.0.1:9093")
    said: list[str] = []
    format_directories(config, standalone(config), MACHINE, said.append)
    assert said[0].startswith(f"Formatting dynamic metadata voter directory {tmp_path}/d1 "), "as Kafka 4.1"


def test_requests_that_are_refused(tmp_path: Path) -> None:
    config = node(tmp_path, controller_quorum_voters="1@127.0.0.1:9093")
    old = FormatRequest(
        cluster_id=CLUSTER_ID,
        release=metadata_version_of_release("3.4"),
        scram=(UserScramCredentialRecord(name="adm"),),
    )
    with pytest.raises(
        FormatError, match=r"^SCRAM is only supported in metadata\.version 3\.5-IV2 or later\.$"
    ):
        format_directories(config, old, MACHINE, lambda _: None)
    with pytest.raises(FeatureError, match="Unsupported feature: nope"):
        format_directories(
            config, FormatRequest(cluster_id=CLUSTER_ID, features={"nope": 1}), MACHINE, lambda _: None
        )
    assert list(tmp_path.iterdir()) == []


def test_directories_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "d1").mkdir()
    (tmp_path / "d1" / "meta.properties").write_text("version=9\n")
    config, said = node(tmp_path, "d1", "d2"), list[str]()
    format_directories(config, standalone(config), MACHINE, said.append)
    assert said[0] == f"I/O error trying to read log directory {tmp_path}/d1. Ignoring..."
    assert said[1].startswith(f"Formatting data directory {tmp_path}/d2")
    with pytest.raises(FormatError, match=r"^No available log directories to format\.$"):
        format_directories(node(tmp_path), standalone(node(tmp_path)), MACHINE, said.append)


@pytest.mark.parametrize("content", [b"", b"#\n", b"\xff\x00\x8a garbage=1\n"])
def test_a_start_gives_no_new_identity_to_a_directory_that_lost_its_own(
    tmp_path: Path, content: bytes
) -> None:
    config = node(tmp_path)
    format_directories(config, standalone(config), MACHINE, lambda _: None)
    file = tmp_path / "d1" / "meta.properties"
    file.write_bytes(content)
    with pytest.raises(StorageError, match=r"d1/meta\.properties names neither version nor cluster\.id"):
        ensure_formatted(config, MACHINE, lambda _: None)
    assert file.read_bytes() == content


def test_a_start_does_not_take_an_empty_directory_beside_others(tmp_path: Path) -> None:
    """An unmounted disk looks like an empty one: as in Kafka an option must say that it is new."""
    format_directories(node(tmp_path), standalone(node(tmp_path)), MACHINE, lambda _: None)
    both = node(tmp_path, "d1", "d2")
    for make in (lambda: None, (tmp_path / "d2").mkdir):
        make()
        with pytest.raises(
            StorageError, match=rf"^No `meta\.properties` found in {tmp_path}/d2 \(have you run"
        ):
            ensure_formatted(both, MACHINE, lambda _: None)
    format_directories(both, standalone(both, ignore_formatted=True), MACHINE, lambda _: None)
    assert ensure_formatted(both, MACHINE, lambda _: None) == CLUSTER_ID


def test_a_first_start_formats_an_empty_node(tmp_path: Path) -> None:
    config, said = node(tmp_path, "d1", "d2"), list[str]()
    cluster_id = ensure_formatted(config, MACHINE, said.append)
    assert len(cluster_id) == 22
    assert (tmp_path / "d1" / VOTERS_SNAPSHOT).exists()
    said.clear()
    assert ensure_formatted(config, MACHINE, said.append) == cluster_id
    assert said == []


def test_a_first_start_with_static_voters(tmp_path: Path) -> None:
    config = node(tmp_path, controller_quorum_voters="1@127.0.0.1:9093")
    ensure_formatted(config, MACHINE, lambda _: None)
    assert not (tmp_path / "d1" / VOTERS_SNAPSHOT).exists()


def test_a_first_start_does_not_format_what_may_be_data_or_part_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "d1").mkdir()
    (tmp_path / "d1" / "topic-0").mkdir()
    with pytest.raises(StorageError, match=rf"^No readable meta\.properties.*{tmp_path}/d1 is not empty"):
        ensure_formatted(node(tmp_path), MACHINE, lambda _: None)
    voters = node(tmp_path, "new", controller_quorum_voters="1@127.0.0.1:9093,2@127.0.0.1:9094")
    with pytest.raises(StorageError, match="not alone in its cluster"):
        ensure_formatted(voters, MACHINE, lambda _: None)
    (tmp_path / "d1" / "meta.properties").write_text("version=9\n")
    with pytest.raises(
        StorageError, match=rf"^Encountered I/O error in metadata log directory {tmp_path}/d1\. "
    ):
        ensure_formatted(node(tmp_path), MACHINE, lambda _: None)
    with pytest.raises(
        StorageError, match=rf"^No readable meta\.properties files found\. {tmp_path}/d1 cannot"
    ):
        ensure_formatted(node(tmp_path, "d2", "d1"), MACHINE, lambda _: None)


def test_a_process_formats_only_a_single_directory(tmp_path: Path) -> None:
    check_new_directories(node(tmp_path), MACHINE.disk)
    with pytest.raises(StorageError, match=rf"^No readable meta\.properties files found\. {tmp_path}/d1, "):
        check_new_directories(node(tmp_path, "d1", "d2"), MACHINE.disk)
    ensure_formatted(node(tmp_path, "d1", "d2"), MACHINE, lambda _: None)
    check_new_directories(node(tmp_path, "d1", "d2"), MACHINE.disk)
