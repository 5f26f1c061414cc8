"""The metadata log of a real Kafka 4.1: read, compared with what its brokers said, and written again."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.properties import load
from kcli.config.start_up import node_config
from kcli.controller.bootstrap import (
    bootstrap_records,
    decode_bootstrap,
    encode_bootstrap,
    encode_voters_snapshot,
)
from kcli.metadata.image import MetadataImage, ScramKey
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import image_records
from kcli.metadata.snapshot_file import SnapshotId, decode_snapshot, encode_snapshot, snapshot_id_of
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.batches.control import VotersRecord, decode_control
from kcli.protocol.records.metadata import decode_metadata_record, encode_metadata_record, write_version_for
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.quorum import Quorum
from kcli.storage.store.store import LogStore

LOG = "00000000000000000000.log"


@pytest.fixture
def directory(golden: Path) -> Path:
    return golden / "logdir-clean" / "__cluster_metadata-0"


def replay_log(
    content: bytes, replayer: ImageReplayer, *, start: int = 0, end: int | None = None
) -> ImageReplayer:
    for position, header in iter_batches(content):
        if header.base_offset < start:
            continue
        if end is not None and header.base_offset >= end:
            break
        epoch, timestamp_ms = header.partition_leader_epoch, header.max_timestamp_ms
        if header.is_control:
            replayer.skip(header.last_offset, epoch, timestamp_ms)
            continue
        records = [decode_metadata_record(record.value)[0] for record in read_records(content, position)]
        replayer.replay(records, last_offset=header.last_offset, epoch=epoch, timestamp_ms=timestamp_ms)
    return replayer


def image_of_log(directory: Path, end: int | None = None) -> MetadataImage:
    return replay_log((directory / LOG).read_bytes(), ImageReplayer(MetadataImage()), end=end).image


def replay_snapshot(path: Path) -> tuple[SnapshotId, ImageReplayer]:
    snapshot_id = snapshot_id_of(path.name)
    snapshot = decode_snapshot(path.read_bytes(), path.name)
    replayer = ImageReplayer(MetadataImage())
    records = [decode_metadata_record(value)[0] for batch in snapshot.batches for value in batch]
    replayer.replay(
        records,
        last_offset=snapshot_id.end_offset - 1,
        epoch=snapshot_id.epoch,
        timestamp_ms=snapshot.last_contained_log_timestamp_ms,
    )
    return snapshot_id, replayer


def snapshots(directory: Path) -> list[Path]:
    found = [path for path in sorted(directory.glob("*.checkpoint")) if snapshot_id_of(path.name).end_offset]
    assert len(found) == 4
    return found


def test_the_image_has_the_partitions_that_the_brokers_served(golden: Path, directory: Path) -> None:
    image = image_of_log(directory)
    lines = (golden / "partitions.jsonl").read_text().splitlines()
    served = {(line["topic"], line["partition"]) for line in map(json.loads, lines)}
    assert {(topic.name, number) for topic in image.topics for number in topic.partitions} == served
    metadata_files = (golden / "logdir-clean").glob("*/partition.metadata")
    ids = {
        path.parent.name.rpartition("-")[0]: path.read_text().rpartition(" ")[2] for path in metadata_files
    }
    del ids["__cluster_metadata"]
    assert {topic.name: _text(topic.topic_id) for topic in image.topics} == ids


def _text(value: uuid.UUID) -> str:
    import base64

    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def test_the_image_has_what_was_configured(directory: Path) -> None:
    image = image_of_log(directory)
    assert image.topic_config("grown") == {
        "max.message.bytes": "2000000",
        "retention.ms": "-1",
        "cleanup.policy": "compact,delete",
    }
    assert image.config(ConfigResource(ConfigResourceType.BROKER, "")) == {
        "min.insync.replicas": "1",
        "log.cleaner.backoff.ms": "400",
    }
    assert image.config(ConfigResource(ConfigResourceType.BROKER, "1")) == {"log.cleaner.threads": "1"}
    assert image.config(ConfigResource(ConfigResourceType.GROUP, "share-1")) == {
        "share.auto.offset.reset": "earliest"
    }
    assert image.client_quotas[(("client-id", None), ("user", "alice"))] == {"consumer_byte_rate": 256000.0}
    assert (("user", None),) not in image.client_quotas
    assert set(image.scram) == {ScramKey("alice", 1), ScramKey("alice", 2)}
    assert image.scram[ScramKey("alice", 2)].iterations == 8192
    assert len(image.acls) == 10
    assert image.next_producer_id == 1000
    assert image.features == {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "transaction.version": 2,
    }
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown) == (541, True, True)
    assert image.partition("shapes", 2).elr == (1,) == image.partition("shapes", 2).last_known_elr


def test_each_snapshot_is_the_image_of_the_log_up_to_it(directory: Path) -> None:
    for path in snapshots(directory):
        snapshot_id, replayer = replay_snapshot(path)
        assert replayer.image == image_of_log(directory, end=snapshot_id.end_offset)


def test_log_alone_and_each_snapshot_with_the_rest_end_in_the_same_image(directory: Path) -> None:
    content = (directory / LOG).read_bytes()
    whole = image_of_log(directory)
    for path in snapshots(directory):
        snapshot_id, replayer = replay_snapshot(path)
        assert replay_log(content, replayer, start=snapshot_id.end_offset).image == whole


def test_every_record_is_written_back_in_its_bytes_and_version(directory: Path) -> None:
    for path in [directory / LOG, *snapshots(directory)]:
        content = path.read_bytes()
        for position, header in iter_batches(content):
            if header.is_control:
                continue
            for record in read_records(content, position):
                decoded, _ = decode_metadata_record(record.value)
                assert encode_metadata_record(decoded, write_version_for(decoded, 27)) == record.value


def test_our_snapshot_holds_the_records_of_kafkas_in_the_order_of_their_kinds(directory: Path) -> None:
    for path in snapshots(directory):
        _, replayer = replay_snapshot(path)
        theirs = decode_snapshot(path.read_bytes(), path.name).batches[0]
        ours = [
            encode_metadata_record(record, write_version_for(record, 27))
            for record in image_records(replayer.image)
        ]
        assert sorted(ours) == sorted(theirs)
        kinds = [
            list(dict.fromkeys(type(decode_metadata_record(value)[0]) for value in each))
            for each in (ours, theirs)
        ]
        assert kinds[0] == kinds[1]


def test_snapshots_are_the_same_bytes_given_the_same_order_and_times(directory: Path) -> None:
    for path in snapshots(directory):
        content = path.read_bytes()
        snapshot = decode_snapshot(content, path.name)
        (values,) = snapshot.batches
        times = [header.max_timestamp_ms for _, header in iter_batches(content)]
        written = []
        for now_ms in times:
            batches = encode_snapshot(
                values,
                epoch=snapshot_id_of(path.name).epoch,
                last_contained_log_timestamp_ms=snapshot.last_contained_log_timestamp_ms,
                now_ms=now_ms,
                kraft_version=1,
                voters=snapshot.voters,
            )
            written.append(list(batches))
        assert b"".join(written[index][index] for index in range(3)) == content


def test_the_files_of_format_are_the_same_bytes_given_the_same_times(golden: Path, directory: Path) -> None:
    content = (golden / "logdir-clean" / "bootstrap.checkpoint").read_bytes()
    levels = {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "share.version": 1,
        "streams.version": 0,
        "transaction.version": 2,
    }
    records = bootstrap_records(levels)
    assert decode_bootstrap(content) == records
    assert _patched(content, lambda now_ms: encode_bootstrap(records, now_ms)) == content

    path = directory / "00000000000000000000-0000000000.checkpoint"
    content = path.read_bytes()
    snapshot = decode_snapshot(content, path.name)
    voters = snapshot.voters
    header_ms = snapshot.last_contained_log_timestamp_ms
    batches = [
        b"".join(
            encode_snapshot(
                (),
                epoch=0,
                last_contained_log_timestamp_ms=header_ms,
                now_ms=now_ms,
                kraft_version=1,
                voters=voters,
            )
        )
        for now_ms in (header.max_timestamp_ms for _, header in iter_batches(content))
    ]
    assert _batch(batches[0], 0) + _batch(batches[1], 1) == content
    assert decode_snapshot(encode_voters_snapshot(voters, 1, header_ms), "ours") == snapshot


def _batch(content: bytes, index: int) -> bytes:
    position, header = list(iter_batches(content))[index]
    return content[position : position + header.size_bytes]


def _patched(content: bytes, encode: Callable[..., Any]) -> bytes:
    times = [header.max_timestamp_ms for _, header in iter_batches(content)]
    return b"".join(_batch(encode(now_ms), index) for index, now_ms in enumerate(times))


def test_a_node_takes_over_kafkas_directory_and_leaves_as_kafka_does(golden: Path, tmp_path: Path) -> None:
    """Epoch 3 after Kafka's 2; the clean stop is believed; partitions come back by their ELR and leave by it."""
    data = tmp_path / "data"
    shutil.copytree(golden / "logdir-clean", data)
    for path in [data, *data.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    properties = (golden / "logdir-clean.server.properties").read_text().replace("{DIR}", str(tmp_path))
    (tmp_path / "server.properties").write_text(properties)
    config = node_config(load(str(tmp_path / "server.properties")))
    asyncio.run(_live_and_leave(config, data))


async def _live_and_leave(config: BrokerConfig, data: Path) -> None:
    clock, rng = SystemClock(), SystemRng()
    logs = LogStore.open(SystemDisk(), clock, list(config.log_dirs), node_id=1, rng=rng)
    loader = MetadataLoader(MetadataImage(cluster_id=logs.cluster_id))
    quorum = Quorum(logs, config, clock, rng, SystemNetwork(), loader, on_fatal=print)
    controller = ControllerRole(quorum, config, clock, rng, on_fatal=print)
    lifecycle = BrokerLifecycle(
        controller,
        loader,
        config,
        rng,
        cluster_id=logs.cluster_id,
        directories=[each.id for each in logs.directories],
        previous_epoch=logs.previous_broker_epoch,
    )
    await controller.start()
    await quorum.start()
    await loader.loaded()
    try:
        await lifecycle.start()
        await lifecycle.unfence()
        served = loader.image
        assert (served.epoch, quorum.view.epoch) == (3, 3)
        assert all(
            partition.leader == 1 and partition.recovery_state == 0
            for topic in served.topics
            for partition in topic.partitions.values()
        )
        await quorum.snapshotting.write_snapshot()
        await lifecycle.leave()
        await lifecycle.stop()
        assert loader.image.brokers[1].fenced
        assert loader.image.partition("shapes", 0).elr == (1,)
    finally:
        await controller.stop()
        await quorum.stop()
        logs.close(broker_epoch=lifecycle.epoch)
    # Kafka's segment may be older than metadata.log.segment.ms, so the node may have begun a second one.
    log = b"".join(path.read_bytes() for path in sorted((data / "__cluster_metadata-0").glob("*.log")))
    (new,) = list((data / "__cluster_metadata-0").glob("*-0000000003.checkpoint"))
    snapshot_id, replayer = replay_snapshot(new)
    whole = replay_log(log, ImageReplayer(MetadataImage()), end=snapshot_id.end_offset).image
    assert (
        replayer.image
        == whole
        == replace(served, cluster_id="", offset=whole.offset, timestamp_ms=whole.timestamp_ms)
    )
    voters = [
        decode_control(record.key, record.value)
        for position, header in iter_batches(log)
        if header.is_control
        for record in read_records(log, position)
    ]
    assert sum(isinstance(control, VotersRecord) for control in voters) == 1
    state = json.loads((data / "__cluster_metadata-0" / "quorum-state").read_text())
    assert (state["leaderId"], state["leaderEpoch"], state["votedId"]) == (1, 3, -1)
