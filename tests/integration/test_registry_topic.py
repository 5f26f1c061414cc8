"""The topic of the schemas: its creation and its checks, records of other writers, and writes that fail."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kcli.client.admin.configs import describe_configs
from kcli.client.admin.topics import NewTopic, create_topics
from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.table import TopicTable
from kcli.client.topic_table.topic import TableTopic
from kcli.client.topic_table.writers import Batches, IdempotentWriter
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition
from kcli.registry.decisions import schemas
from kcli.registry.store import CannotStart
from rigs import node
from rigs.loops import on_a_loop, until
from rigs.registry_programs import registry
from rigs.small_schemas import small_language

TOPIC = "_schemas"
A = '{"a":1}'
SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


@pytest.fixture(autouse=True)
def small_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "language_of", small_language)


def config(port: int) -> ClientConfig:
    return ClientConfig(servers=(Address("127.0.0.1", port),), retry_backoff_ms=5)


@asynccontextmanager
async def writing(port: int) -> AsyncIterator[tuple[TopicTable, list[Change]]]:
    """Another writer of the topic, and all records that it reads."""
    records: list[Change] = []
    async with Client(config(port)) as client, Client(config(port)) as fetching:
        table = TopicTable(
            TableTopic(name=TOPIC),
            client,
            fetching=fetching,
            writer=IdempotentWriter(client),
            on_change=records.append,
        )
        async with table:
            yield table, records


async def settings(port: int) -> Mapping[str, str | None]:
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    async with Client(config(port)) as client:
        entries = (await describe_configs(client, [resource]))[resource]
    assert not isinstance(entries, Exception)
    return {entry.name: entry.value for entry in entries}


@on_a_loop
async def test_the_topic_is_created_and_its_records_are_those_of_java(tmp_path: Path) -> None:
    properties = {"kafkastore.topic.config.segment.ms": "1234567", "kafkastore.topic": TOPIC}
    async with node.running(tmp_path) as broker:
        async with registry(broker.port(), properties) as it:
            assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
            assert (await it.json("PUT", "/config", {"compatibility": "full"}))[0] == 200
            assert (await it.json("DELETE", "/subjects/s"))[0] == 200
        found = await settings(broker.port())
        assert (found["cleanup.policy"], found["segment.ms"]) == ("compact", "1234567")
        async with writing(broker.port()) as (_, records):
            assert [(record.key, record.value) for record in records] == [
                (b'{"keytype":"NOOP","magic":0}', None),
                (
                    SCHEMA_KEY,
                    b'{"subject":"s","version":1,"id":1,"schemaType":"AVRO","schema":"{\\"a\\":1}","deleted":false}',
                ),
                (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
                (
                    b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
                    b'{"subject":"s","version":1}',
                ),
            ]


@on_a_loop
async def test_a_registry_continues_where_the_last_one_has_ended(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker:
        async with registry(broker.port()) as it:
            assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        async with registry(broker.port()) as it:
            status, body = await it.json("POST", "/subjects/s/versions?force=true", {"schema": '{"b":1}'})
            assert isinstance(body, dict)
            assert (status, body["id"], body["version"]) == (200, 2, 2)


@on_a_loop
async def test_records_of_other_writers_are_read_and_garbage_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old_java = b'{"subject":"s","version":1,"id":7,"schema":"{\\"a\\":1}","deleted":false}'
    karapace_key = b'{"keytype":"CONFIG","subject":null,"magic":0}'
    async with node.running(tmp_path) as broker, writing(broker.port()) as (table, _):
        await table.put(b"\xff\xfe", b"garbage")
        await table.put(b'{"keytype":"SCHEMA"', b"{}")
        await table.put(b'{"keytype":"SCHEMA","subject":"x","version":1,"magic":1}', b"{}")
        await table.put(b'{"keytype":"SOMETHING","magic":9}', b"{}")
        await table.put(b'{"version":1,"magic":0,"keytype":"SCHEMA","subject":"s"}', old_java)
        await table.put(karapace_key, b'{"compatibilityLevel":"NONE"}')
        async with registry(broker.port()) as it:
            assert await it.json("GET", "/subjects") == (200, ["s"])
            assert await it.json("GET", "/config") == (200, {"compatibilityLevel": "NONE"})
            # Another writer is followed while the registry runs.
            await table.put(karapace_key, b'{"compatibilityLevel":"FULL"}')

            async def has_level() -> bool:
                return await it.json("GET", "/config") == (200, {"compatibilityLevel": "FULL"})

            await until(has_level)
            status, body = await it.json("POST", "/subjects/s/versions", {"schema": '{"a":1,"c":1}'})
            assert isinstance(body, dict)
            assert (status, body["id"], body["version"]) == (200, 8, 2)
    assert "A record of the topic has no effect" in caplog.text


@on_a_loop
async def test_a_conflicting_record_of_a_deposed_leader_is_undone(tmp_path: Path) -> None:
    value = '{{"subject":"{0}","version":1,"id":1,"schema":"{{}}","deleted":false}}'
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        async with writing(broker.port()) as (table, _):
            stranger = SCHEMA_KEY.replace(b'"s"', b'"t"')
            await table.put(stranger, value.format("t").encode())
            await table.put(SCHEMA_KEY, value.format("s").encode())

            async def is_undone() -> bool:
                own = table.get(SCHEMA_KEY)
                return table.get(stranger) is None and own is not None and json.loads(own)["schema"] == A

            await until(is_undone)
        assert await it.json("GET", "/subjects") == (200, ["s"])
        status, body = await it.json("GET", "/schemas/ids/1")
        assert isinstance(body, dict)
        assert (status, body["schema"]) == (200, A)


@on_a_loop
async def test_a_topic_that_loses_schemas_is_refused_with_the_way_to_repair_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running(tmp_path) as broker:
        client = await node.connect(broker)
        await node.create(client, TOPIC, cleanup_policy="delete")
        with pytest.raises(CannotStart) as error:
            async with registry(broker.port()):
                pass
        assert str(error.value) == (
            "The retention policy of the schema topic _schemas is incorrect. Expected cleanup.policy to be 'compact' "
            f"but it is delete. To repair the topic, run: kcli configs --bootstrap-server 127.0.0.1:{broker.port()} "
            "--alter --entity-type topics --entity-name _schemas --add-config cleanup.policy=compact"
        )
        assert "to avoid Kafka deleting your schemas after a week" in caplog.text
        # The user may vouch for the topic.
        async with registry(broker.port(), {"kafkastore.topic.skip.validation": "true"}) as it:
            assert await it.json("GET", "/subjects") == (200, [])


@on_a_loop
async def test_a_topic_of_several_partitions_is_refused(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker:
        client = await node.connect(broker)
        await node.create(client, TOPIC, partitions=2, cleanup_policy="compact")
        with pytest.raises(CannotStart, match="should have only 1 partition but has 2"):
            async with registry(broker.port()):
                pass


@on_a_loop
async def test_a_low_replication_factor_is_only_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running(tmp_path) as broker:
        async with Client(config(broker.port())) as client:
            topic = NewTopic(
                name=TOPIC, partitions=1, replication_factor=1, configs={"cleanup.policy": "compact"}
            )
            assert (await create_topics(client, [topic]))[TOPIC] is None
        with caplog.at_level(logging.WARNING):
            async with registry(broker.port()):
                pass
    assert (
        "The replication factor of the schema topic _schemas is less than the desired one of 3" in caplog.text
    )


@on_a_loop
async def test_a_missing_topic_is_an_error_if_it_must_not_be_created(tmp_path: Path) -> None:
    properties = {"kafkastore.topic.skip.validation": "true", "kafkastore.init.timeout.ms": "300"}
    async with node.running(tmp_path, auto_create_topics_enable="false") as broker:
        with pytest.raises(CannotStart, match="was not read in 300 ms"):
            async with registry(broker.port(), properties):
                pass


@on_a_loop
async def test_a_schema_above_the_limit_of_the_topic_is_refused(tmp_path: Path) -> None:
    properties = {"kafkastore.topic.config.max.message.bytes": "20000"}
    async with node.running(tmp_path) as broker, registry(broker.port(), properties) as it:
        long = {"schema": json.dumps({"f": "x" * 30_000})}
        status, body = await it.json("POST", "/subjects/s/versions", long)
        assert (status, body) == (
            422,
            {"error_code": 42209, "message": "Register operation failed because schema is too large"},
        )
        # The next change has the next id, because nothing was written.
        status, body = await it.json("POST", "/subjects/s/versions", {"schema": A})
        assert isinstance(body, dict)
        assert (status, body["id"]) == (200, 1)


@on_a_loop
async def test_a_write_that_is_not_read_again_in_time_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        node.running(tmp_path) as broker,
        registry(broker.port(), {"kafkastore.timeout.ms": "200"}) as it,
    ):
        table = it.server.registry.store._table
        assert table is not None and table._writer is not None
        writer = table._writer
        may_write, write = asyncio.Event(), writer.write

        async def slow(records: Batches) -> Mapping[TopicPartition, int]:
            await may_write.wait()
            return await write(records)

        monkeypatch.setattr(writer, "write", slow)
        for operation, message in (
            (("POST", "/subjects/s/versions", {"schema": A}), "Register operation timed out"),
            (("PUT", "/mode", {"mode": "READONLY"}), "Update mode operation timed out"),
        ):
            status, body = await it.json(*operation)
            assert (status, body) == (500, {"error_code": 50002, "message": message})
        may_write.set()

        async def is_registered() -> bool:
            status, body = await it.json("POST", "/subjects/s/versions", {"schema": A})
            assert body is not None
            return status == 200 and isinstance(body, dict) and body["id"] == 1

        await until(is_registered)
        # No id is doubled, because the registry has read the late records first.
        status, body = await it.json("POST", "/subjects/t/versions", {"schema": '{"b":1}'})
        assert isinstance(body, dict)
        assert (status, body["id"]) == (200, 2)
