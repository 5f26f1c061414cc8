"""Tables in topics of a real broker: loading, writing, transactions, other writers, and a broker that restarts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.configs import AlterConfig
from kcli.client.admin.topics import NewTopic
from kcli.client.config import ClientConfig
from kcli.client.topic_table import table as table_module
from kcli.client.topic_table.changes import Change
from kcli.client.topic_table.reader import TableClosed
from kcli.client.topic_table.table import Fenced, TopicTable
from kcli.client.topic_table.topic import NotCompacted, TableTopic
from kcli.client.topic_table.writers import Batches, IdempotentWriter, Producer, TransactionalWriter, Writer
from kcli.errors import ProducerFencedException
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.request_values import UpgradeType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from kcli.protocol.wire.api import ApiKey
from rigs import node
from rigs.loops import on_a_loop, some_turns, until

TOPIC = TableTopic(name="table", configs={"segment.bytes": "1048576"})
PARTITION = TopicPartition("table", 0)
TRANSACTIONS = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}


class World:
    """The clients of one broker. `close` of the world closes all of them."""

    def __init__(self, port: int, stack: contextlib.AsyncExitStack) -> None:
        self._port = port
        self._stack = stack

    async def client(self, requests: list[ApiKey] | None = None) -> AdminClient:
        """A client that adds the APIs of its answered requests to `requests`."""
        config = ClientConfig(
            servers=(Address("127.0.0.1", self._port),), retry_backoff_ms=5, retry_backoff_max_ms=50
        )
        keys = [] if requests is None else requests
        client = AdminClient(config, on_answer=lambda key, _request, _answer: keys.append(key))
        return await self._stack.enter_async_context(client)

    async def table(
        self,
        topic: TableTopic = TOPIC,
        *,
        transactional_id: str | None = None,
        on_change: Callable[[Change], None] | None = None,
        may_write: Callable[[], bool] | None = None,
    ) -> TopicTable:
        client = await self.client()
        writer: Writer = IdempotentWriter(client)
        if transactional_id is not None:
            writer = TransactionalWriter(client, transactional_id)
        table = TopicTable(
            topic,
            client,
            fetching=await self.client(),
            writer=writer,
            on_change=on_change,
            read_committed=transactional_id is not None,
            may_write=may_write,
        )
        return await self._stack.enter_async_context(table)


@contextlib.asynccontextmanager
async def world(directory: Path, port: int = 0) -> AsyncIterator[World]:
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"
    async with (
        node.running(directory, listeners=listeners, **TRANSACTIONS) as running,
        contextlib.AsyncExitStack() as stack,
    ):
        yield World(running.port(), stack)


async def set_policy(client: AdminClient, policy: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, "table")
    change = AlterConfig(name="cleanup.policy", value=policy)
    assert await client.incremental_alter_configs({resource: [change]}) == {resource: None}


def values(table: TopicTable) -> dict[bytes, bytes | None]:
    return {key: change.value for key, change in table.entries.items()}


@on_a_loop
async def test_a_table_has_what_was_put_and_what_others_put(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        changes: list[Change] = []
        first = await it.table(on_change=changes.append)
        await first.put(b"a", b"1")
        await first.put(b"b", b"2")
        await first.put(b"a", b"3")
        assert values(first) == {b"a": b"3", b"b": b"2"}
        await first.delete(b"b")
        assert (first.get(b"a"), first.get(b"b")) == (b"3", None)
        assert [(each.offset, each.key, each.value) for each in changes] == [
            (0, b"a", b"1"),
            (1, b"b", b"2"),
            (2, b"a", b"3"),
            (3, b"b", None),
        ]
        assert first.entries[b"a"].timestamp_ms > 0
        second = await it.table()
        assert values(second) == {b"a": b"3"}, "loaded when the block begins"
        await second.put(b"c", b"4")
        await first.read_to_end()
        assert first.get(b"c") == b"4"


@on_a_loop
async def test_a_missing_topic_is_created_as_wanted(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        topic = TableTopic(name="offsets", partitions=3, configs={"min.insync.replicas": "1"})
        table = await it.table(topic)
        assert [str(each) for each in table.partitions] == ["offsets-0", "offsets-1", "offsets-2"]
        resource = ConfigResource(ConfigResourceType.TOPIC, "offsets")
        settings = (await (await it.client()).describe_configs([resource]))[resource]
        assert isinstance(settings, tuple)
        assert {each.name: each.value for each in settings}["cleanup.policy"] == "compact"


@on_a_loop
async def test_a_topic_that_is_not_compacted_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        topic = NewTopic(name="table", partitions=1, configs={"cleanup.policy": "delete"})
        assert await (await it.client()).create_topics([topic]) == {"table": None}
        with pytest.raises(NotCompacted, match=r"topic table has cleanup\.policy=delete: expected compact"):
            await it.table()


@on_a_loop
async def test_an_error_that_ends_the_reading_is_logged_and_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(change: Change) -> None:
        raise ValueError(f"no use for {change.key!r}")

    async with world(tmp_path) as it:
        table = await it.table(on_change=refuse)
        with pytest.raises(ValueError, match="no use for b'a'"):
            await table.put(b"a", b"1")
        assert isinstance(table.error, ValueError)
        assert "The topic table is not read any more: ValueError" in caplog.text


@on_a_loop
async def test_keys_are_spread_over_the_partitions_as_by_java(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        table = await it.table(TableTopic(name="offsets", partitions=25))
        keys = [b"key-%d" % number for number in range(200)]
        await asyncio.gather(*(table.put(key, key) for key in keys))
        assert values(table) == {key: key for key in keys}
        assert len({change.partition for change in table.entries.values()}) == 25
        loaded = await it.table(TableTopic(name="offsets", partitions=25))
        assert {key: each.partition for key, each in loaded.entries.items()} == {
            key: each.partition for key, each in table.entries.items()
        }


@on_a_loop
async def test_a_put_waits_for_a_broker_that_restarts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with contextlib.AsyncExitStack() as clients:
        async with world(tmp_path, port):
            it = World(port, clients)
            table = await it.table()
            await table.put(b"a", b"1")
        put = asyncio.create_task(table.put(b"b", b"2"))
        deletion = asyncio.create_task(table.delete(b"a"))
        await asyncio.sleep(0)
        async with world(tmp_path, port):
            await asyncio.gather(put, deletion)
            assert values(table) == {b"b": b"2"}
            assert table.error is None
            await clients.aclose()


@on_a_loop
async def test_the_last_process_that_claims_a_table_is_its_only_writer(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        first = await it.table(transactional_id="leader")
        await first.claim()
        await first.put(b"a", b"1")
        await first.put(b"a", b"2")
        second = await it.table(transactional_id="leader")
        await second.claim()
        assert second.get(b"a") == b"2"
        for _ in range(2):
            with pytest.raises(ProducerFencedException):
                await first.put(b"a", b"3")
        await second.put(b"b", b"4")
        await first.read_to_end()
        assert values(first) == values(second) == {b"a": b"2", b"b": b"4"}
        await first.claim()
        await first.put(b"a", b"5")
        with pytest.raises(ProducerFencedException):
            await second.put(b"a", b"6")


@on_a_loop
async def test_a_table_does_not_have_the_records_of_aborted_transactions(tmp_path: Path) -> None:
    class Crash(TransactionalWriter):
        """A writer whose process crashes before the end of its transaction."""

        async def _end(self, *, committed: bool) -> None:
            raise ConnectionResetError

    async with world(tmp_path) as it:
        table = await it.table(transactional_id="leader")
        await table.put(b"a", b"1")
        with pytest.raises(ConnectionResetError):
            await Crash(await it.client(), "leader").write({PARTITION: [Record(-1, 1, b"a", b"lost")]})
        successor = await it.table(transactional_id="leader")
        await successor.claim()
        await successor.put_all([(b"b", b"2"), (b"c", b"3"), (b"b", b"4")])
        await table.read_to_end()
        assert values(table) == values(successor) == {b"a": b"1", b"b": b"4", b"c": b"3"}


@on_a_loop
async def test_a_transaction_that_failed_is_aborted_before_the_next_one(tmp_path: Path) -> None:
    class FailsOnce(TransactionalWriter):
        failures = 1

        async def _end(self, *, committed: bool) -> None:
            if self.failures:
                self.failures = 0
                raise ConnectionResetError
            await super()._end(committed=committed)

    async with world(tmp_path) as it:
        table = await it.table(transactional_id="leader")
        writer = FailsOnce(await it.client(), "leader")
        with pytest.raises(ConnectionResetError):
            await writer.write({PARTITION: [Record(-1, 1, b"a", b"lost")]})
        await writer.write({PARTITION: [Record(-1, 1, b"b", b"2")]})
        await table.read_to_end()
        assert values(table) == {b"b": b"2"}


async def set_transaction_version(
    it: World, level: int, how: UpgradeType = UpgradeType.UNSAFE_DOWNGRADE
) -> None:
    client = await it.client()
    assert await client.update_features({"transaction.version": level}, how) == {"transaction.version": None}

    async def is_set() -> bool:
        features = await client.describe_features()
        return {feature.name: feature.finalized for feature in features}["transaction.version"] == level

    await until(is_set)


@pytest.mark.parametrize("level", [0, 1])
def test_transactions_before_version_2_keep_the_epoch_and_add_their_partitions(
    tmp_path: Path, level: int
) -> None:
    async def main() -> None:
        async with world(tmp_path) as it:
            table = await it.table(TableTopic(name="table", partitions=2), transactional_id="leader")
            await set_transaction_version(it, level)
            requests: list[ApiKey] = []
            writer = TransactionalWriter(await it.client(requests), "leader")
            await writer.claim()
            await table.put_all([])
            producer = writer._producer
            other = TopicPartition("table", 1)
            for number in range(3):
                value = b"%d" % number
                records = {PARTITION: [Record(-1, 1, b"a", value), Record(-1, 1, b"b", value)]}
                await writer.write(records | ({other: [Record(-1, 1, b"c", value)]} if number == 1 else {}))
            assert writer._producer == producer, "without a new epoch"
            assert writer._sequences == {PARTITION: 6, other: 1}
            assert requests.count(ApiKey.ADD_PARTITIONS_TO_TXN) >= 3
            await table.read_to_end()
            assert values(table) == {b"a": b"2", b"b": b"2", b"c": b"1"}

    asyncio.run(main())


@pytest.mark.parametrize("level", [0, 1])
def test_a_claim_fences_and_aborts_also_before_transaction_version_2(tmp_path: Path, level: int) -> None:
    class Crash(TransactionalWriter):
        failures = 1

        async def _end(self, *, committed: bool) -> None:
            if self.failures:
                self.failures = 0
                raise ConnectionResetError
            await super()._end(committed=committed)

    async def main() -> None:
        async with world(tmp_path) as it:
            table = await it.table(transactional_id="leader")
            await set_transaction_version(it, level)
            await table.claim()
            await table.put(b"a", b"1")
            crashes = Crash(await it.client(), "leader")
            with pytest.raises(ConnectionResetError):
                await crashes.write({PARTITION: [Record(-1, 1, b"a", b"lost")]})
            with pytest.raises(ProducerFencedException):
                await table.put(b"a", b"2")
            await crashes.write({PARTITION: [Record(-1, 1, b"b", b"3")]})
            await table.claim()
            assert values(table) == {b"a": b"1", b"b": b"3"}
            with pytest.raises(ProducerFencedException):
                await crashes.write({PARTITION: [Record(-1, 1, b"b", b"4")]})

    asyncio.run(main())


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_writer_continues_after_a_commit_whose_answer_was_lost(tmp_path: Path, level: int) -> None:
    class LosesAnswer(TransactionalWriter):
        losses = 1

        async def _at_coordinator(self, name, ask):  # type: ignore[no-untyped-def]
            answer = await super()._at_coordinator(name, ask)
            if name == "commitTransaction" and self.losses:
                self.losses = 0
                raise ConnectionResetError
            return answer

    async def main() -> None:
        async with world(tmp_path) as it:
            table = await it.table(transactional_id="leader")
            if level < 2:
                await set_transaction_version(it, level)
            writer = LosesAnswer(await it.client(), "leader")
            with pytest.raises(ConnectionResetError):
                await writer.write({PARTITION: [Record(-1, 1, b"a", b"1")]})
            await writer.write({PARTITION: [Record(-1, 1, b"b", b"2")]})
            await table.read_to_end()
            assert values(table) == {b"a": b"1", b"b": b"2"}

    asyncio.run(main())


@on_a_loop
async def test_a_writer_that_its_coordinator_has_forgotten_begins_again(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        table = await it.table(transactional_id="leader")
        writer = TransactionalWriter(await it.client(), "unused for a long time")
        writer._producer = Producer(7, 3)
        await writer.write({PARTITION: [Record(-1, 1, b"a", b"1")]})
        await table.read_to_end()
        assert values(table) == {b"a": b"1"}


@on_a_loop
async def test_a_writer_follows_an_upgrade_of_transaction_version(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        table = await it.table(transactional_id="leader")
        await set_transaction_version(it, 1)
        requests: list[ApiKey] = []
        writer = TransactionalWriter(await it.client(requests), "leader")
        await writer.write({PARTITION: [Record(-1, 1, b"a", b"1")]})
        await set_transaction_version(it, 2, UpgradeType.UPGRADE)
        await writer.write({PARTITION: [Record(-1, 1, b"a", b"2")]})
        epoch = writer._producer.epoch
        await writer.claim()
        del requests[:]
        await writer.write({PARTITION: [Record(-1, 1, b"a", b"3")]})
        assert ApiKey.ADD_PARTITIONS_TO_TXN not in requests
        assert writer._producer.epoch > epoch
        await table.read_to_end()
        assert values(table) == {b"a": b"3"}


@on_a_loop
async def test_a_process_that_may_not_write_is_fenced(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        leads = True
        table = await it.table(may_write=lambda: leads)
        await table.put(b"a", b"1")
        leads = False
        with pytest.raises(Fenced, match="this process may no longer write to topic table"):
            await table.put(b"a", b"2")
        assert values(table) == {b"a": b"1"}


@on_a_loop
async def test_puts_on_their_way_use_limited_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "IN_FLIGHT_BYTES_MAX", 1_000)
    in_flight = []

    class Watched(IdempotentWriter):
        async def write(self, records):  # type: ignore[no-untyped-def]
            in_flight.append(sum(len(each.value) for part in records.values() for each in part))
            return await super().write(records)

    async with world(tmp_path) as it:
        client = await it.client()
        async with TopicTable(TOPIC, client, fetching=await it.client(), writer=Watched(client)) as table:
            await asyncio.gather(*(table.put(b"%d" % number, bytes(100)) for number in range(50)))
            assert len(table.entries) == 50
            await table.put(b"large", bytes(5_000))
    assert max(in_flight[:-1]) <= 1_000
    assert in_flight[-1] == 5_000, "a put that is larger than the limit goes alone"


@on_a_loop
async def test_a_table_reads_on_where_old_records_were_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        table = await it.table()
        client = await it.client()
        for number in range(4):
            await table.put(b"%d" % number, b"")
        await set_policy(client, "delete")  # a broker deletes no records of a compacted topic
        assert await client.delete_records({PARTITION: 3}) == {PARTITION: 3}
        await set_policy(client, "compact")
        late = await it.table()
        assert list(late.entries) == [b"3"]
        await table.put(b"4", b"")
        assert len(table.entries) == 5


@on_a_loop
async def test_entries_whose_records_are_lost_are_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        changes: list[Change] = []
        table = await it.table(on_change=changes.append)
        client = await it.client()
        for key in (b"a", b"b", b"c", b"d"):
            await table.put(key, b"1")
        await set_policy(client, "delete")
        assert await client.delete_records({PARTITION: 2}) == {PARTITION: 2}
        await set_policy(client, "compact")
        lost = table.entries[b"a"]
        # As after an unclean election, the table has read more records than there are.
        assert table._reader is not None
        table._reader.positions[PARTITION] = 1_000
        other = await it.table()
        await other.put(b"c", b"2")
        await until(lambda: set(values(table)) == {b"c", b"d"})
        assert values(table) == values(other) == {b"c": b"2", b"d": b"1"}
        read_again, dropped = changes[-5:-2], changes[-2:]
        assert [(each.offset, each.key) for each in read_again] == [(2, b"c"), (3, b"d"), (4, b"c")]
        assert dropped[0] == replace(lost, value=None)
        assert [each.key for each in dropped] == [b"a", b"b"]


@on_a_loop
async def test_a_put_of_a_table_that_closes_raises(tmp_path: Path) -> None:
    writing = asyncio.Event()

    class Never(IdempotentWriter):
        async def write(self, records):  # type: ignore[no-untyped-def]
            writing.set()
            await asyncio.Event().wait()

    async with world(tmp_path) as it:
        client = await it.client()
        async with TopicTable(TOPIC, client, fetching=await it.client(), writer=Never(client)) as table:
            first = asyncio.create_task(table.put(b"a", b"1"))
            await writing.wait()
            second = asyncio.create_task(table.put(b"b", b"1"))
            await some_turns()
        for put in (first, second):
            with pytest.raises(TableClosed):
                await put


@on_a_loop
async def test_a_put_that_waits_for_room_while_the_table_closes_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_module, "IN_FLIGHT_BYTES_MAX", 1)
    async with world(tmp_path) as it:
        client = await it.client()
        async with TopicTable(TOPIC, client, fetching=await it.client(), writer=Stuck(client)) as table:
            puts = [asyncio.create_task(table.put(b"%d" % number, b"1")) for number in range(3)]
            await some_turns()
        async with asyncio.timeout(5):
            for put in puts:
                with pytest.raises(TableClosed):
                    await put


class Stuck(IdempotentWriter):
    async def write(self, records: Batches) -> dict[TopicPartition, int]:
        await asyncio.Event().wait()
        return {}
