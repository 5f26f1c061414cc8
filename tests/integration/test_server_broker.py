"""The whole broker in process: start, serve, follow the metadata, fail, stop, come back."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from kcli.config.listeners import Listener
from kcli.errors import ErrorCode, StorageError
from kcli.protocol.batches.batch import iter_batches
from kcli.protocol.messages import (
    api_versions,
    delete_records,
    delete_topics,
    describe_log_dirs,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.requests.apis import served_on_broker, served_on_controller
from rigs import wire_client
from rigs.data_path import batch
from rigs.loops import until
from rigs.node import connect, crashing, create, offset_at, read, running, send, values


def test_a_new_directory_is_formatted_and_survives_restarts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t", 2)
            assert (await send(client, "t", batch(b"one"))).base_offset == 0
            cluster_id = node.metadata.cluster_id
        assert (tmp_path / ".kafka_cleanshutdown").exists()
        async with crashing(tmp_path) as node:
            assert node.metadata.cluster_id == cluster_id
            assert not (tmp_path / ".kafka_cleanshutdown").exists()
            client = await connect(node)
            assert values(await read(client, "t")) == [b"one"]
            assert (await send(client, "t", batch(b"two"))).base_offset == 1
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        async with running(tmp_path) as node:
            client = await connect(node)
            row = await read(client, "t")
            assert values(row) == [b"one", b"two"]
            epochs = [header.partition_leader_epoch for _, header in iter_batches(row.records)]
            assert epochs[0] < epochs[1], "another start is another leader epoch"

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    assert "formatting them for a new cluster" in caplog.text
    assert "Kafka Server started" in caplog.text


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path):
            pass
        with pytest.raises(StorageError, match="node id"):
            async with running(tmp_path, node_id="2"):
                pass

    asyncio.run(main())


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path):
            with pytest.raises(StorageError, match="lock"):
                async with running(tmp_path):
                    pass

    asyncio.run(main())


def test_each_listener_lists_and_serves_its_own_apis(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            request = api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1")
            for listener, served in (
                ("PLAINTEXT", served_on_broker()),
                ("CONTROLLER", served_on_controller()),
            ):
                client = await connect(node, listener)
                response = await client.call(request, ApiKey.API_VERSIONS, 4)
                assert [row.api_key for row in response.api_keys] == [int(key) for key in served]
                finalized = {row.name: row.max_version_level for row in response.finalized_features}
                assert finalized["metadata.version"] > 20
                assert response.finalized_features_epoch > 0
            # What is not served on the controller's listener closes the connection there.
            client.post(produce.ProduceRequest(acks=1), ApiKey.PRODUCE, 9)
            assert await client.at_end()

    asyncio.run(main())


def test_metadata_names_the_port_that_was_bound(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            response = await client.call(metadata.MetadataRequest(topics=()), ApiKey.METADATA, 12)
            assert [(node.node_id, node.port) for node in response.brokers] == [
                (1, node.sockets.listeners["PLAINTEXT"].port)
            ]

    asyncio.run(main())


def test_topics_come_and_go_with_the_metadata(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "gone", 3)
            assert len(node.broker.replicas) == 3
            await send(client, "gone", batch(b"x"))
            request = delete_topics.DeleteTopicsRequest(
                topics=(delete_topics.DeleteTopicState(name="gone"),), timeout_ms=10_000
            )
            response = await client.call(request, ApiKey.DELETE_TOPICS, 6)
            assert response.responses[0].error_code is ErrorCode.NONE
            assert len(node.broker.replicas) == 0
            assert (
                await send(client, "gone", batch(b"y"))
            ).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert not [name for name in os.listdir(tmp_path) if name in ("gone-0", "gone-1", "gone-2")]
            await create(client, "gone", 1)
            assert (await send(client, "gone", batch(b"z"))).base_offset == 0, (
                "the same name is another topic"
            )

    asyncio.run(main())


def test_topic_and_broker_configs_take_effect(tmp_path: Path) -> None:
    async def alter(client: wire_client.Client, kind: int, name: str, key: str, value: str) -> None:
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=(
                        incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value),
                    ),
                ),
            )
        )
        response = await client.call(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
        assert response.responses[0].error_code is ErrorCode.NONE, response.responses[0].error_message

    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t", max_message_bytes="5000")
            assert (await send(client, "t", batch(bytes(6000)))).error_code is ErrorCode.MESSAGE_TOO_LARGE
            await alter(client, 2, "t", "max.message.bytes", "10000")
            assert (await send(client, "t", batch(bytes(6000)))).error_code is ErrorCode.NONE
            await create(client, "u")
            assert (await send(client, "u", batch(bytes(6000)))).error_code is ErrorCode.NONE
            await alter(client, 4, "", "message.max.bytes", "3000")
            assert (await send(client, "u", batch(bytes(6000)))).error_code is ErrorCode.MESSAGE_TOO_LARGE
            await alter(client, 4, "1", "message.max.bytes", "7000")
            assert (await send(client, "u", batch(bytes(6000)))).error_code is ErrorCode.NONE
            await alter(client, 4, "", "max.connections.per.ip", "1")
            late = await connect(node)
            assert await late.at_end()
        async with running(tmp_path) as node:
            client = await connect(node)
            assert (await send(client, "u", batch(bytes(6000)))).error_code is ErrorCode.NONE
            late = await connect(node)
            assert await late.at_end(), "the stored limit holds after a restart"

    asyncio.run(main())


def test_list_offsets_answers_times_and_kafkas_negative_timestamps(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t")
            empty = await offset_at(client, "t", -3)
            assert (empty.error_code, empty.offset) == (ErrorCode.NONE, -1)
            await send(client, "t", batch(b"a", b"b", timestamp_ms=1_000))
            await send(client, "t", batch(b"c", timestamp_ms=5_000))
            await send(client, "t", batch(b"d", timestamp_ms=3_000))
            epoch = node.broker.replicas.get("t", 0).leader_epoch
            for timestamp, offset, time in (
                (-1, 4, -1),
                (-2, 0, -1),
                (-3, 2, 5_000),
                (-4, 0, -1),
                (0, 0, 1_000),
                (1_001, 1, 1_001),
                (1_002, 2, 5_000),
                (5_001, -1, -1),
                (-5, -1, -1),
            ):
                row = await offset_at(client, "t", timestamp)
                assert (row.error_code, row.offset, row.timestamp) == (ErrorCode.NONE, offset, time), (
                    timestamp
                )
                assert row.leader_epoch == (epoch if offset >= 0 else -1)
            assert (await offset_at(client, "t", -6)).error_code is ErrorCode.UNSUPPORTED_VERSION
            assert (await offset_at(client, "t", -3, version=6)).error_code is ErrorCode.UNSUPPORTED_VERSION
            assert (await offset_at(client, "t", -1, partition=4)).error_code is (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
            twice = list_offsets.ListOffsetsRequest(
                replica_id=-1, topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(part, part)),)
            )
            response = await client.call(twice, ApiKey.LIST_OFFSETS, 5)
            assert {row.error_code for row in response.topics[0].partitions} == {ErrorCode.INVALID_REQUEST}

    asyncio.run(main())


def test_delete_records_moves_the_log_start_offset(tmp_path: Path) -> None:
    async def delete(client: wire_client.Client, topic: str, offset: int) -> tuple[ErrorCode, int]:
        part = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = delete_records.DeleteRecordsRequest(
            topics=(delete_records.DeleteRecordsTopic(name=topic, partitions=(part,)),), timeout_ms=1000
        )
        response = await client.call(request, ApiKey.DELETE_RECORDS, 2)
        row = response.topics[0].partitions[0]
        return row.error_code, row.low_watermark

    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t")
            await create(client, "compacted", cleanup_policy="compact")
            await send(client, "t", batch(b"a", b"b", b"c"))
            assert await delete(client, "t", 2) == (ErrorCode.NONE, 2)
            assert await delete(client, "t", 1) == (ErrorCode.NONE, 2)
            assert (await read(client, "t", 1)).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await offset_at(client, "t", -2)).offset == 2
            assert await delete(client, "t", 4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await delete(client, "t", -1) == (ErrorCode.NONE, 3)
            assert await delete(client, "compacted", 0) == (ErrorCode.POLICY_VIOLATION, -1)
            assert await delete(client, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
            assert await delete(client, "nope", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    asyncio.run(main())


def test_offset_for_leader_epoch(tmp_path: Path) -> None:
    async def ask(
        client: wire_client.Client, topic: str, epoch: int, current: int = -1
    ) -> tuple[ErrorCode, int, int]:
        part = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=0, leader_epoch=epoch, current_leader_epoch=current
        )
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=(offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=(part,)),),
        )
        response = await client.call(request, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
        row = response.topics[0].partitions[0]
        return row.error_code, row.leader_epoch, row.end_offset

    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t")
            await send(client, "t", batch(b"a", b"b"))
            assert await ask(client, "t", 0) == (ErrorCode.NONE, 0, 2)
        async with running(tmp_path) as node:
            client = await connect(node)
            await send(client, "t", batch(b"c"))
            epoch = node.broker.replicas.get("t", 0).leader_epoch
            assert await ask(client, "t", 0) == (ErrorCode.NONE, 0, 2)
            assert await ask(client, "t", epoch, epoch) == (ErrorCode.NONE, epoch, 3)
            assert await ask(client, "t", epoch + 1) == (ErrorCode.NONE, -1, -1)
            assert (await ask(client, "t", 0, epoch - 1))[0] is ErrorCode.FENCED_LEADER_EPOCH
            assert (await ask(client, "t", 0, epoch + 1))[0] is ErrorCode.UNKNOWN_LEADER_EPOCH
            assert (await ask(client, "u", 0))[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(main())


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    async def main() -> None:
        given = []
        for _ in range(2):
            async with running(tmp_path) as node:
                client = await connect(node)
                for _ in range(1100):
                    request = init_producer_id.InitProducerIdRequest(transactional_id=None)
                    response = await client.call(request, ApiKey.INIT_PRODUCER_ID, 4)
                    assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
                    given.append(response.producer_id)
                half = init_producer_id.InitProducerIdRequest(transactional_id=None, producer_id=5)
                assert (await client.call(half, ApiKey.INIT_PRODUCER_ID, 4)).error_code is (
                    ErrorCode.INVALID_REQUEST
                )
                transactional = init_producer_id.InitProducerIdRequest(transactional_id="tx")
                assert (await client.call(transactional, ApiKey.INIT_PRODUCER_ID, 4)).error_code is (
                    ErrorCode.NOT_COORDINATOR
                )
        assert len(set(given)) == len(given)

    asyncio.run(main())


def test_describe_log_dirs(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t", 2)
            await send(client, "t", batch(b"a"))
            every = describe_log_dirs.DescribeLogDirsRequest(topics=None)
            for version in range(1, 5):
                response = await client.call(every, ApiKey.DESCRIBE_LOG_DIRS, version)
                (row,) = response.results
                assert (row.error_code, row.log_dir) == (ErrorCode.NONE, str(tmp_path))
                (topic,) = row.topics
                sizes = {part.partition_index: part.partition_size for part in topic.partitions}
                assert sizes == {0: len(batch(b"a")), 1: 0}
                assert (row.total_bytes > row.usable_bytes > 0) == (version >= 4)
            some = describe_log_dirs.DescribeLogDirsRequest(
                topics=(describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=(1, 7)),)
            )
            (row,) = (await client.call(some, ApiKey.DESCRIBE_LOG_DIRS, 4)).results
            assert [part.partition_index for part in row.topics[0].partitions] == [1]

    asyncio.run(main())


def test_one_directory_of_two_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        first, second = tmp_path / "a", tmp_path / "b"
        async with running(f"{first},{second}", metadata_log_dir=str(first)) as node:
            client = await connect(node)
            await create(client, "t", 6)
            await asyncio.sleep(0)
            on_second = [each for each in node.broker.replicas if each.log.directory.path == str(second)]
            on_first = [each for each in node.broker.replicas if each.log.directory.path == str(first)]
            assert on_first
            assert on_second
            on_second[0].log.directory.failed(OSError(5, "Input/output error"))

            async def is_refused() -> bool:
                row = await send(client, "t", batch(b"x"), on_second[0].partition)
                return row.error_code is ErrorCode.KAFKA_STORAGE_ERROR

            await until(is_refused)
            assert (await send(client, "t", batch(b"x"), on_first[0].partition)).error_code is ErrorCode.NONE
            (healthy, broken) = sorted(
                (await client.call(
                    describe_log_dirs.DescribeLogDirsRequest(topics=None), ApiKey.DESCRIBE_LOG_DIRS, 4
                )).results, key=lambda row: row.log_dir)  # fmt: skip
            assert (healthy.error_code, broken.error_code) == (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
            assert not node.halted.done()

    asyncio.run(main())


def test_the_last_directory_fails_and_the_broker_halts(tmp_path: Path) -> None:
    async def main() -> None:
        async with crashing(tmp_path) as node:
            node.logs.directories[0].failed(OSError(28, "No space left on device"))
            reason = await asyncio.wait_for(node.halted, 60)
            assert "No space left on device" in reason

    asyncio.run(main())


def test_clients_that_come_too_early_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is open before the broker is ready, and no client gets metadata without brokers."""

    async def main() -> None:
        from kcli.server.quorum.broker_lifecycle import BrokerLifecycle

        answers = []
        started = BrokerLifecycle.start

        async def slow_start(self: Any, listeners: list[Listener] | None = None) -> None:
            port = listeners[0].port
            client = await wire_client.connect(port)
            asking = asyncio.ensure_future(
                client.call(metadata.MetadataRequest(topics=()), ApiKey.METADATA, 12)
            )
            await asyncio.sleep(0.05)
            assert not asking.done()
            answers.append((client, asking))
            await started(self, listeners)

        monkeypatch.setattr(BrokerLifecycle, "start", slow_start)
        async with running(tmp_path):
            client, asking = answers[0]
            response = await asyncio.wait_for(asking, 60)
            assert [node.node_id for node in response.brokers] == [1]
            client.close()

    asyncio.run(main())


def test_a_node_that_stops_answers_waiting_fetches(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            client = await connect(node)
            await create(client, "t")
            wants = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
            client.post(
                fetch.FetchRequest(
                    max_wait_ms=60_000,
                    min_bytes=1,
                    topics=(fetch.FetchTopic(topic="t", partitions=(wants,)),),
                ),
                ApiKey.FETCH,
                12,
            )
            await asyncio.sleep(0.02)
            waiting = client
            node.clients.remove(client)
        _, response = await waiting.receive(ApiKey.FETCH, 12)
        # The broker has become a follower without a leader, and a consumer may read from a follower (KIP-392).
        (row,) = response.responses[0].partitions
        assert (row.error_code, row.records) == (ErrorCode.NONE, b"")
        assert await waiting.at_end()
        waiting.close()

    asyncio.run(main())
