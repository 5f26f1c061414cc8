"""The metadata quorum on a disk: first start, restarts, crashes, snapshots, and a disk that fails."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kcli.controller.api import OWN_REQUEST, UNREGISTER_BROKER, UPDATE_FEATURES
from kcli.controller.bootstrap import encode_records
from kcli.errors import ErrorCode, NotControllerException, RecordBatchTooLargeException, StorageError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import LeaderRecoveryState, MetadataImage
from kcli.metadata.snapshot_file import SnapshotId, decode_snapshot
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches
from kcli.protocol.batches.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from kcli.protocol.messages import update_features as uf
from kcli.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from kcli.raft.messages import Flushed, Message, Ready
from kcli.runtime.disk import read_file, replace_file
from kcli.server.coordinators.topic_creation import TopicCreator
from kcli.server.quorum import snapshotting
from kcli.server.quorum.producer_ids import ProducerIdBlock, allocate_block
from rigs.logs import ManualClock
from rigs.loops import PATIENCE_S, until
from rigs.quorum import DATA, LOG, LOG_DIR, QuorumRig, batches, broker_config
from simulation.runtime.disk import SimDisk

RECOVERY_POINTS = f"{DATA}/recovery-point-offset-checkpoint"


def run(story: Callable[..., Any]) -> Any:
    return asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def kinds(disk: SimDisk) -> list[list[str]]:
    return [
        [type(record).__name__.removesuffix("Record") for record in records] for _, records in batches(disk)
    ]


def test_a_new_cluster_is_written_as_kafka_writes_it() -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            image = rig.loader.image
            assert image.config(CLUSTER_DEFAULT) == {"min.insync.replicas": "1"}
            assert not image.brokers[1].fenced
            assert rig.lifecycle.epoch == image.brokers[1].epoch
        assert kinds(rig.disk) == [
            ["LeaderChangeMessage", "KRaftVersion", "Voters"],
            [
                "BeginTransaction",
                "FeatureLevel",
                "FeatureLevel",
                "FeatureLevel",
                "FeatureLevel",
                "Config",
                "EndTransaction",
            ],
            ["RegisterController"],
            ["RegisterBroker"],
            ["BrokerRegistrationChange"],
            ["BrokerRegistrationChange"],
        ]

    run(story)


def test_each_start_begins_an_epoch_and_repeats_nothing() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        rig = await rig.again()
        assert rig.quorum.view.epoch == 2
        rig = await rig.again()
        state = json.loads(read_file(rig.disk, f"{LOG_DIR}/quorum-state"))
        assert (state["leaderId"], state["leaderEpoch"], state["votedId"]) == (1, 3, -1)
        await rig.stop()
        written = [record for _, records in batches(rig.disk) for record in records]
        for kind, count in (
            (LeaderChangeMessage, 3),
            (KRaftVersionRecord, 1),
            (VotersRecord, 1),
            (BeginTransactionRecord, 1),
            (RegisterControllerRecord, 3),
            (RegisterBrokerRecord, 3),
        ):
            assert sum(isinstance(record, kind) for record in written) == count

    run(story)


def test_static_voters_need_no_voters_in_the_log() -> None:
    async def story() -> None:
        async with QuorumRig(
            **{"controller.quorum.voters": "1@h:9093", "controller.quorum.bootstrap.servers": ""}
        ) as rig:
            await rig.create("t")
        assert kinds(rig.disk)[0] == ["LeaderChangeMessage"]
        state = json.loads(read_file(rig.disk, f"{LOG_DIR}/quorum-state"))
        assert (state["data_version"], state["currentVoters"]) == (0, [{"voterId": 1}])

    run(story)


def test_answers_come_after_the_listeners_and_the_image() -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            result = await rig.create("t", 3)
            assert result.error_code is ErrorCode.NONE
            delta, image = rig.seen[-1]
            assert image is rig.loader.image and "t" in image.topics
            assert [diff.partition for diff in delta.partitions_changed()] == [0, 1, 2]
            assert rig.quorum.view.high_watermark == rig.quorum.log.end_offset == image.offset + 1

    run(story)


def test_a_failing_listener_does_not_keep_others_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            heard = []

            def failing(_delta: MetadataDelta, _image: MetadataImage) -> None:
                raise ZeroDivisionError

            rig.loader.subscribe(failing)
            rig.loader.subscribe(lambda _delta, image: heard.append(image))
            await rig.create("t")
            assert "t" in heard[-1].topics

    run(story)
    assert "A listener failed" in caplog.text


def test_requests_together_share_flushes_and_all_are_answered() -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            results = await asyncio.gather(*(rig.create(f"t{nth}") for nth in range(50)), rig.create("t0"))
            codes = [result.error_code for result in results]
            assert codes == [ErrorCode.NONE] * 50 + [ErrorCode.TOPIC_ALREADY_EXISTS]
            assert len(rig.loader.image.topics) == 50

    run(story)


@pytest.mark.parametrize("seed", range(8))
def test_answered_changes_survive_a_crash(seed: int) -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("kept", 2, **{"retention.ms": "5"})
        last_epoch = rig.quorum.view.epoch
        rig = await rig.crash(seed)
        image = rig.loader.image
        assert image.topic_config("kept") == {"retention.ms": "5"}
        assert rig.quorum.view.epoch > last_epoch
        # It stopped without a word, so its replicas had to be taken on trust (KIP-966).
        partition = image.partition("kept", 1)
        assert (partition.leader, partition.isr) == (1, (1,))
        assert partition.recovery_state is LeaderRecoveryState.RECOVERING
        await rig.stop()

    run(story)


def test_a_clean_stop_is_believed() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t")
        rig = await rig.again()
        partition = rig.loader.image.partition("t", 0)
        assert (partition.leader, partition.leader_epoch) == (1, 2)
        assert partition.recovery_state is LeaderRecoveryState.RECOVERED
        await rig.stop()
        last = [records for _, records in batches(rig.disk)][-2:]
        assert (
            isinstance(last[0][0], BrokerRegistrationChangeRecord) and last[0][0].in_controlled_shutdown == 1
        )
        assert isinstance(last[1][0], BrokerRegistrationChangeRecord) and last[1][0].fenced == 1

    run(story)


def test_an_unfinished_transaction_is_aborted() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        records: list[MetadataRecord] = [BeginTransactionRecord(name="half"), TopicRecord(name="ghost")]
        values = encode_records(records, 27)
        await rig.stop()
        content = read_file(rig.disk, LOG)
        (_, last) = list(iter_batches(content))[-1]
        batch = encode_batch(
            [Record(value=value, timestamp_ms=1) for value in values],
            base_offset=last.next_offset,
            leader_epoch=last.partition_leader_epoch,
        )
        replace_file(rig.disk, LOG, content + batch)
        rig = await QuorumRig(rig.disk, rig.clock).start()
        assert "ghost" not in rig.loader.image.topics
        await rig.create("real")
        assert rig.loader.image.topics.names == ("real",)
        await rig.stop()
        assert any(
            isinstance(record, AbortTransactionRecord)
            for _, records in batches(rig.disk)
            for record in records
        )

    run(story)


def test_idle_records_keep_the_high_watermark_moving() -> None:
    async def story() -> None:
        async with QuorumRig(**{"metadata.max.idle.interval.ms": "10"}) as rig:
            before = rig.quorum.view.high_watermark
            await until(lambda: rig.quorum.view.high_watermark >= before + 3)
            heard = len(rig.seen)
            await asyncio.sleep(0.03)
            assert len(rig.seen) == heard, "nothing changed, so nobody is told"
        assert NoOpRecord in [type(records[0]) for _, records in batches(rig.disk)]

    run(story)


# Snapshots.


def test_a_snapshot_is_written_read_and_replaces_the_log_before_it() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t", 2, **{"retention.ms": "5"})
        image = rig.loader.image
        await rig.quorum.snapshotting.write_snapshot()
        name = SnapshotId(image.offset + 1, 1).file_name
        with pytest.raises(PermissionError):
            rig.disk.open(f"{LOG_DIR}/{name}")  # frozen, as Kafka's are
        snapshot = decode_snapshot(read_file(rig.disk, f"{LOG_DIR}/{name}"), name)
        assert (snapshot.kraft_version, len(snapshot.voters.voters)) == (1, 1)
        assert snapshot.last_contained_log_timestamp_ms == image.timestamp_ms
        await rig.quorum.snapshotting.write_snapshot()
        assert len(rig.quorum.log.snapshots.ids) == 2, "the same image makes no second snapshot"
        await rig.create("u")
        rig = await rig.again()
        assert rig.loader.image.topics.names == ("t", "u")
        assert rig.loader.image.topic_config("t") == {"retention.ms": "5"}
        await rig.stop()

    run(story)


def test_enough_records_make_a_snapshot_due() -> None:
    async def story() -> None:
        async with QuorumRig(**{"metadata.log.max.record.bytes.between.snapshots": "5000"}) as rig:
            assert not rig.quorum.snapshotting.wants_snapshot()
            for nth in range(30):
                await rig.create(f"t{nth}")
            assert rig.quorum.snapshotting.wants_snapshot()
            await rig.quorum.snapshotting.write_snapshot()
            assert not rig.quorum.snapshotting.wants_snapshot()

    run(story)


def test_a_clean_stop_takes_a_snapshot_if_the_log_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshotting, "LAST_SNAPSHOT_BYTES", 2000)

    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("a")
        before = len(rig.quorum.log.snapshots.ids)
        rig = await rig.again()
        assert len(rig.quorum.log.snapshots.ids) == before, "the log was short"
        for nth in range(30):
            await rig.create(f"t{nth}")
        await rig.quorum.snapshotting.stop(clean=False)
        assert len(rig.quorum.log.snapshots.ids) == before
        rig = await rig.again()
        assert len(rig.quorum.log.snapshots.ids) == before + 1
        assert len(rig.loader.image.topics.names) == 31
        await rig.stop()

    run(story)


def test_time_makes_a_snapshot_due() -> None:
    async def story() -> None:
        clock = ManualClock()
        async with QuorumRig(None, clock, **{"metadata.log.max.snapshot.interval.ms": "60000"}) as rig:
            assert not rig.quorum.snapshotting.wants_snapshot()
            clock.ms += 60_000
            assert rig.quorum.snapshotting.wants_snapshot()

    run(story)


def test_old_snapshots_and_the_log_before_them_go() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        for name in ("a", "b", "c"):
            await rig.create(name)
            await rig.quorum.snapshotting.write_snapshot()
            rig.quorum.log.log.roll()
        log = rig.quorum.log
        assert len(log.snapshots.ids) == 4
        log.clean(retention_bytes=-1, retention_ms=-1)
        assert len(log.snapshots.ids) == 4
        log.clean(retention_bytes=0, retention_ms=-1)
        (kept,) = log.snapshots.ids
        assert log.log.log_start_offset == kept.end_offset
        assert [name for name in rig.files() if name.endswith(".checkpoint")] == [kept.file_name]
        await rig.create("d")
        rig = await rig.again()
        assert rig.loader.image.topics.names == ("a", "b", "c", "d")
        assert rig.quorum.view.voters.ids == (1,)
        await rig.stop()

    run(story)


def test_snapshots_go_when_they_are_old_but_never_the_last() -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            await rig.create("a")
            await rig.quorum.snapshotting.write_snapshot()
            await rig.create("b")
            await rig.quorum.snapshotting.write_snapshot()
            rig.clock.ms += 1_000_000
            rig.quorum.log.clean(retention_bytes=-1, retention_ms=999_999)
            assert len(rig.quorum.log.snapshots.ids) == 1

    run(story)


def test_unfinished_files_of_a_crash_are_removed() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.stop()
        for name in ("x.checkpoint.part", f"{5:020d}-{1:010d}.checkpoint.deleted"):
            replace_file(rig.disk, f"{LOG_DIR}/{name}", b"?")
        rig = await QuorumRig(rig.disk, rig.clock).start()
        assert not [name for name in rig.files() if name.endswith((".part", ".deleted"))]
        await rig.stop()

    run(story)


def test_a_snapshot_beyond_the_log_is_what_counts() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t")
        await rig.quorum.snapshotting.write_snapshot()
        newest = rig.quorum.log.snapshots.newest
        await rig.stop()
        content = read_file(rig.disk, LOG)
        (position, _) = list(iter_batches(content))[2]
        replace_file(rig.disk, LOG, content[:position])
        rig.disk.remove(RECOVERY_POINTS)  # which would tell that records are lost
        rig = await QuorumRig(rig.disk, rig.clock).start()
        assert "t" in rig.loader.image.topics
        assert rig.quorum.log.log.log_start_offset == newest.end_offset
        await rig.stop()

    run(story)


def test_a_broken_snapshot_is_named() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t")
        await rig.quorum.snapshotting.write_snapshot()
        path = f"{LOG_DIR}/{rig.quorum.log.snapshots.newest.file_name}"
        await rig.stop()
        replace_file(rig.disk, path, read_file(rig.disk, path)[:-3])
        with pytest.raises(StorageError, match=r"\.checkpoint is cut short"):
            await QuorumRig(rig.disk, rig.clock).start()

    run(story)


# What goes wrong.


def test_a_disk_that_fails_ends_the_quorum() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        rig.disk.fail("sync", LOG_DIR)
        with pytest.raises(NotControllerException):
            await rig.create("t")
        assert len(rig.fatal) == 1
        with pytest.raises(NotControllerException, match="cannot use its metadata log any more"):
            await rig.create("u")
        assert "t" not in rig.loader.image.topics, "what was not committed is not shown"
        await rig.abandon()

    run(story)


def test_a_directory_without_voters_waits_for_a_quorum() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.stop()
        for name in rig.files():
            rig.disk.remove(f"{LOG_DIR}/{name}")
        with pytest.raises(StorageError, match="ends at offset 0, but everything before offset"):
            await QuorumRig(rig.disk, rig.clock).start()
        rig.disk.remove(RECOVERY_POINTS)
        rig = QuorumRig(rig.disk, rig.clock)
        start = asyncio.create_task(rig.start())
        await asyncio.sleep(0.1)
        assert (rig.quorum.view.state, rig.quorum.view.epoch, start.done()) == ("unattached", 0, False)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)

    run(story)


def test_after_stop_nothing_is_decided() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.stop()
        with pytest.raises(NotControllerException):
            await rig.create("t")

    run(story)


def test_topics_made_in_the_background_are_made_once() -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            creator = TopicCreator(rig.controller, broker_config(**{"default.replication.factor": "5"}))
            own = TopicCreator(rig.controller, broker_config())
            own.create_missing(["t"], OWN_REQUEST)
            own.create_missing(["t"], OWN_REQUEST)
            creator.create_missing(["bad"], OWN_REQUEST)
            await until(lambda: "t" in rig.loader.image.topics and not own._tasks and not creator._tasks)
        created = [
            record
            for _, records in batches(rig.disk)
            for record in records
            if isinstance(record, TopicRecord)
        ]
        assert [record.name for record in created] == ["t"]

    run(story)


def test_features_and_producer_ids_go_through_the_log() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        assert await allocate_block(rig.controller, rig.loader, 1) == ProducerIdBlock(0, 1000)
        update = uf.FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)
        response = await rig.controller.send(
            UPDATE_FEATURES, uf.UpdateFeaturesRequest(feature_updates=(update,))
        )
        assert response.error_code is ErrorCode.NONE
        rig = await rig.again()
        assert rig.loader.image.features["share.version"] == 1
        assert await allocate_block(rig.controller, rig.loader, 1) == ProducerIdBlock(1000, 1000)
        await rig.stop()

    run(story)


def test_a_broker_that_was_unregistered_does_not_come_back_and_stops_at_once() -> None:
    async def story() -> None:
        from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest

        async with QuorumRig(**{"broker.heartbeat.interval.ms": "10"}) as rig:
            await rig.controller.send(UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
            await asyncio.sleep(0.1)
            assert 1 not in rig.loader.image.brokers
            async with asyncio.timeout(1):
                await rig.lifecycle.leave()

    run(story)


def test_the_settings_of_the_controller_are_those_of_its_node() -> None:
    from kcli.server.quorum.controller_role import controller_settings

    settings = controller_settings(
        broker_config(**{"num.partitions": "7", "delete.topic.enable": "false"}), 1
    )
    assert (settings.num_partitions, settings.delete_topic_enable) == (7, False)
    assert settings.supported_features["metadata.version"].max_version == 27
    assert settings.static_config["num.partitions"] == "7"


def test_a_flipped_bit_in_the_log_is_named() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t")
        await rig.stop()
        content = bytearray(read_file(rig.disk, LOG))
        content[-1] ^= 1
        replace_file(rig.disk, LOG, bytes(content))
        with pytest.raises(StorageError, match="has a wrong checksum"):
            await QuorumRig(rig.disk, rig.clock).start()

    run(story)


def test_a_snapshot_that_cannot_be_written_takes_the_directory_offline() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t")
        rig.disk.fail("write", ".checkpoint.part")
        with pytest.raises(StorageError):
            await rig.quorum.snapshotting.write_snapshot()
        assert rig.logs.directories[0].error is not None
        await rig.abandon()

    run(story)


def test_an_event_with_many_partitions_is_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.controller.decision.PARTITIONS_PER_STEP", 4)

    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.create("t", 6)
        await rig.create("u", 3)
        rig = await rig.again()
        assert {rig.loader.image.partition(name, 2).leader for name in "tu"} == {1}
        await rig.stop()
        changes = [
            sum(isinstance(record, PartitionChangeRecord) for record in records)
            for _, records in batches(rig.disk)
        ]
        # Leaving, coming back, and leaving again: nine partitions each time.
        assert [count for count in changes if count] == [4, 4, 1] * 3

    run(story)


def test_an_operation_too_large_for_a_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with QuorumRig() as rig:
            with monkeypatch.context() as patch:
                patch.setattr("kcli.server.quorum.active_controller.MAX_BATCH_BYTES", 100)
                with pytest.raises(RecordBatchTooLargeException):
                    await rig.create("t", 3)
            assert "t" not in rig.loader.image.topics
            await rig.create("u", 3)

    run(story)


def test_a_start_that_fails_leaves_no_task_behind() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        await rig.stop()
        for name in rig.files():
            if name != f"{0:020d}-{0:010d}.checkpoint":
                rig.disk.remove(f"{LOG_DIR}/{name}")
        rig.disk.remove("/data/bootstrap.checkpoint")
        rig.disk.remove(RECOVERY_POINTS)
        with pytest.raises(StorageError, match="format the directory first"):
            await QuorumRig(rig.disk, rig.clock).start()
        assert len(asyncio.all_tasks()) == 1 + EXTRA_TASKS

    run(story)


# `wait_for` runs the story as a task of its own in some Pythons.
EXTRA_TASKS = 1 if sys.version_info < (3, 12) else 0


def test_a_mistake_in_committing_ends_the_quorum_instead_of_hanging() -> None:
    async def story() -> None:
        rig = await QuorumRig().start()
        step = rig.quorum.node.step

        def mistaken(message: Message, now: float) -> Ready:
            if isinstance(message, Flushed):
                raise ZeroDivisionError
            return step(message, now)

        rig.quorum.node.step = mistaken
        with pytest.raises(NotControllerException):
            await rig.create("t")
        assert isinstance(rig.fatal[0], ZeroDivisionError)

    run(story)
