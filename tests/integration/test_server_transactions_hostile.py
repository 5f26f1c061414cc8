"""Transactions and idempotent producers over real sockets, used as no well-behaved client would use them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import (
    MAX_SEQUENCE,
    Record,
    encode_batch,
    iter_batches,
    read_header,
    read_records,
)
from kcli.protocol.batches.control import decode_control
from kcli.protocol.messages import (
    add_partitions_to_txn,
    delete_records,
    delete_topics,
    describe_producers,
    end_txn,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_transactions,
    offset_fetch,
    produce,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from kcli.protocol.wire.api import ApiKey
from rigs.loops import until
from rigs.node import RunningNode, connect, crashing, create, offset_at, read, running, send, values
from rigs.transactions import ID, SETTINGS, Session, last_state, with_a_broker
from rigs.wire_client import Client

NOW_MS = int(time.time() * 1000)


def idempotent(
    sequence: int, count: int = 2, *, producer_id: int = 77, epoch: int = 0, text: str = "x"
) -> bytes:
    records = [Record(-1, NOW_MS, None, f"{text}{nth}".encode()) for nth in range(count)]
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def sent(client: Client, sequence: int, **about: Any) -> tuple[ErrorCode, int, int]:
    """Error, offset and log append time of one batch."""
    row = await send(client, "t", idempotent(sequence, **about))
    return row.error_code, row.base_offset, row.log_append_time_ms


async def init(client: Client, *, version: int = 5, **fields: Any) -> tuple[ErrorCode, int, int]:
    given: dict[str, Any] = {"transactional_id": ID, "transaction_timeout_ms": 60_000} | fields
    request = init_producer_id.InitProducerIdRequest(**given)
    response = await client.call(request, ApiKey.INIT_PRODUCER_ID, version)
    return response.error_code, response.producer_id, response.producer_epoch


NONE, GAP = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.PRODUCER_FENCED


@with_a_broker
async def test_five_batches_are_remembered_and_a_sixth_is_not(session: Session) -> None:
    client = session.client
    for nth in range(6):
        assert (await sent(client, nth * 2))[:2] == (NONE, nth * 2)
    for nth in range(1, 6):
        assert (await sent(client, nth * 2))[:2] == (NONE, nth * 2)
    assert (await sent(client, 0))[:2] == (GAP, -1)  # forgotten
    assert (await sent(client, 13))[0] is GAP
    assert (await sent(client, 10, count=1))[0] is GAP  # the same first, another last
    assert (await sent(client, 9, count=3))[0] is GAP
    assert (await offset_at(client, "t", -1)).offset == 12  # nothing of that was written
    assert (await sent(client, 0, epoch=1))[:2] == (NONE, 12)
    assert (await sent(client, 10))[0] is ErrorCode.INVALID_PRODUCER_EPOCH  # a duplicate of the epoch before
    assert (await sent(client, 2, epoch=2))[0] is GAP  # a new epoch begins at 0


@with_a_broker
async def test_a_duplicate_gets_the_append_time_of_the_first(session: Session) -> None:
    client = session.client
    await create(client, "stamped", message_timestamp_type="LogAppendTime")
    first = await send(client, "stamped", idempotent(0))
    await asyncio.sleep(0.01)
    second = await send(client, "stamped", idempotent(2))
    again = [await send(client, "stamped", idempotent(sequence)) for sequence in (0, 2)]
    assert [(row.base_offset, row.log_append_time_ms) for row in again] == [
        (first.base_offset, first.log_append_time_ms),
        (second.base_offset, second.log_append_time_ms),
    ]
    assert 0 < first.log_append_time_ms < second.log_append_time_ms


@with_a_broker
async def test_sequences_begin_again_after_the_largest(session: Session) -> None:
    client = session.client
    assert (await sent(client, MAX_SEQUENCE - 1, count=4))[0] is NONE  # unknown producers begin anywhere
    assert (await sent(client, MAX_SEQUENCE - 1, count=4))[:2] == (NONE, 0)
    assert (await sent(client, 2))[:2] == (NONE, 4)
    assert (await sent(client, 2, producer_id=78))[0] is NONE
    assert (await sent(client, MAX_SEQUENCE, count=1, producer_id=79))[0] is NONE
    assert (await sent(client, 0, producer_id=79))[0] is NONE
    assert (await sent(client, 1, producer_id=79))[0] is GAP


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(tmp_path: Path, clean: bool) -> None:
    async def main() -> None:
        async with (running if clean else crashing)(tmp_path) as node:
            client = await connect(node)
            await create(client, "t")
            for sequence in range(0, 8, 2):
                await sent(client, sequence)
            request = delete_records.DeleteRecordsRequest(
                topics=(
                    delete_records.DeleteRecordsTopic(
                        name="t",
                        partitions=(delete_records.DeleteRecordsPartition(partition_index=0, offset=8),),
                    ),
                ),
                timeout_ms=1000,
            )
            await client.call(request, ApiKey.DELETE_RECORDS, 2)
            assert (await sent(client, 6))[:2] == (NONE, 6)  # its records are deleted, its sequence is not
            assert (await sent(client, 8))[:2] == (NONE, 8)
        async with running(tmp_path) as node:
            client = await connect(node)
            assert (await sent(client, 8))[:2] == (NONE, 8)
            assert (await sent(client, 12))[0] is GAP
            assert (await sent(client, 10))[:2] == (NONE, 10)

    asyncio.run(main())


@with_a_broker(producer_id_expiration_ms="1", producer_id_expiration_check_interval_ms="20")
async def test_a_forgotten_producer_begins_anywhere(session: Session) -> None:
    client = session.client
    assert (await sent(client, 0))[0] is NONE
    await until(lambda: not len(session.node.broker.replicas.get("t", 0).log.producers.state))
    assert (await sent(client, 40))[:2] == (NONE, 2)
    # An open transaction keeps its producer, however old it is.
    await session.init()
    assert await session.send("a") is NONE
    await asyncio.sleep(0.1)
    assert await session.send("b", sequence=7) is GAP
    assert await session.send("b", sequence=1) is NONE


async def alter(client: Client, resource_type: int, name: str, **configs: Any) -> None:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=tuple(
            incremental_alter_configs.AlterableConfig(
                name=key.replace("_", "."), config_operation=0, value=value
            )
            for key, value in configs.items()
        ),
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))
    response = await client.call(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    assert [each.error_code for each in response.responses] == [NONE]


@pytest.mark.parametrize("topic", ["t", "later"])
def test_how_long_producers_are_remembered_may_change(tmp_path: Path, topic: str) -> None:
    """For logs that are there and for those to come; and the change outlives a restart."""

    async def main() -> None:
        settings = {"producer_id_expiration_check_interval_ms": "20"}
        async with running(tmp_path, **settings) as node:
            client = await connect(node)
            await create(client, "t")
            await alter(client, 4, "", producer_id_expiration_ms="1")
            if topic != "t":
                await create(client, topic)
            await send(client, topic, idempotent(0))
            await until(lambda: not len(node.broker.replicas.get(topic, 0).log.producers.state))
            assert (await send(client, topic, idempotent(40))).error_code is NONE
        async with running(tmp_path, **settings) as node:
            client = await connect(node)
            await until(lambda: not len(node.broker.replicas.get(topic, 0).log.producers.state))
            assert (await send(client, topic, idempotent(80))).error_code is NONE

    asyncio.run(main())


@with_a_broker
async def test_the_bounds_of_a_time_out(session: Session) -> None:
    await session.init()
    for timeout_ms, code in ((0, 50), (-1, 50), (900_001, 50), (900_000, 0), (1, 0)):
        assert (await init(session.client, transaction_timeout_ms=timeout_ms))[0] == code
    assert (await init(session.client, producer_id=5))[0] is ErrorCode.INVALID_REQUEST
    assert (await init(session.client, transactional_id=""))[0] is ErrorCode.INVALID_REQUEST
    code, producer_id, epoch = await init(session.client, transactional_id=None, transaction_timeout_ms=-5)
    assert (code, epoch) == (NONE, 0) and producer_id != session.producer_id


@with_a_broker
async def test_many_begin_at_once_and_one_is_left(session: Session) -> None:
    await session.init()
    clients = [await connect(session.node) for _ in range(8)]
    answers = await asyncio.gather(*(init(client) for client in clients))
    won = [(producer_id, epoch) for code, producer_id, epoch in answers if code is NONE]
    assert {code for code, *_ in answers} <= {NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
    assert len(set(won)) == len(won), "nobody shares an identity"
    newest = max(epoch for _, epoch in won)
    for session.epoch in range(newest + 1):
        code = await session.send("x", sequence=0)
        assert code is (NONE if session.epoch == newest else ErrorCode.INVALID_PRODUCER_EPOCH)


@with_a_broker
async def test_a_producer_that_sends_its_epoch_gets_the_next_epoch_and_may_repeat_the_request(
    session: Session,
) -> None:
    await session.init()
    mine = {"producer_id": session.producer_id}
    assert (await init(session.client, **mine, producer_epoch=0))[::2] == (NONE, 1)
    assert (await init(session.client, **mine, producer_epoch=0))[::2] == (NONE, 1)  # the answer was lost
    assert (await init(session.client, **mine, producer_epoch=1))[::2] == (NONE, 2)
    assert (await init(session.client, **mine, producer_epoch=0))[0] is FENCED
    assert (await init(session.client, **mine, producer_epoch=0, version=3))[0] == 47
    assert (await init(session.client, producer_id=4711, producer_epoch=2))[0] is FENCED
    assert (await init(session.client))[::2] == (NONE, 3)
    assert (await init(session.client, **mine, producer_epoch=2))[0] is FENCED


@with_a_broker
async def test_both_protocols_take_turns_on_one_id(session: Session) -> None:
    """TV1 and TV2 transactions, one after the other and mixed, under one transactional id."""
    await session.init()
    assert await session.add(0) == [NONE]
    assert await session.send("old", version=11) is NONE
    assert await session.end(True, version=4) is NONE
    await session.settle()
    assert session.epoch == 0 and last_state(session.node).client_transaction_version == 0
    assert await session.send("new", sequence=1) is NONE  # Produce 12 adds
    assert await session.end(True) is NONE
    await session.settle()
    assert session.epoch == 1 and last_state(session.node).client_transaction_version == 2
    # Begun by the second, ended by the first: the epoch stays, and the retry is the first's.
    assert await session.send("mixed") is NONE
    assert await session.end(False, version=4) is NONE
    await session.settle()
    assert await session.end(False, version=4) is NONE
    assert await session.end(True, version=4) is ErrorCode.INVALID_TXN_STATE
    state = last_state(session.node)
    assert (state.producer_epoch, state.transaction_status) == (1, 5)
    # Begun by the first, ended by the second.
    assert await session.add(0) == [NONE]
    assert await session.send("again", sequence=1, version=11) is NONE
    before = session.epoch
    assert await session.end(True) is NONE
    await session.settle()
    session.epoch, after = before, session.epoch
    assert after == before + 1
    assert await session.end(True) is NONE  # the retry of a lost answer
    assert session.epoch == after
    row = await session.committed()
    assert row.last_stable_offset == row.high_watermark == 8
    assert [each.first_offset for each in row.aborted_transactions] == [4]


@with_a_broker
async def test_a_deleted_topic_does_not_keep_a_transaction_open(session: Session) -> None:
    await session.init()
    await create(session.client, "gone")
    assert await session.add(0, topic="gone") == [NONE]
    assert await session.send("a") is NONE
    state = delete_topics.DeleteTopicState(name="gone")
    request = delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=5000)
    await session.client.call(request, ApiKey.DELETE_TOPICS, 6)
    assert await session.end(True) is NONE
    await session.settle()
    assert last_state(session.node).transaction_status == 4
    assert (await session.committed()).last_stable_offset == 2


@with_a_broker
async def test_a_committed_reader_stands_at_the_stable_offset(session: Session) -> None:
    client = session.client
    await session.init()
    await sent(client, 0)
    assert await session.send("a", "b") is NONE
    await sent(client, 2)
    row = await session.committed()
    assert (row.last_stable_offset, row.high_watermark, len(values(row))) == (2, 6, 2)
    for offset, count in ((2, 0), (4, 0), (6, 0)):
        wants = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = fetch.FetchRequest(
            max_wait_ms=0, isolation_level=1, topics=(fetch.FetchTopic(topic="t", partitions=(wants,)),)
        )
        (found,) = (await client.call(request, ApiKey.FETCH, 12)).responses[0].partitions
        assert (found.error_code, len(values(found)), found.aborted_transactions) == (NONE, count, ())
    assert len(values(await read(client, "t"))) == 6
    assert (await offset_at(client, "t", -1, isolation=1)).offset == 2
    assert (await offset_at(client, "t", -1)).offset == 6
    assert (await offset_at(client, "t", NOW_MS, isolation=1)).offset == 0
    assert await session.end(False) is NONE
    await session.settle()
    assert (await offset_at(client, "t", -1, isolation=1)).offset == 7
    # The log start moves into what was an open transaction: nothing is unstable there.
    assert await session.send("c", "d") is NONE
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=8)
    topic = delete_records.DeleteRecordsTopic(name="t", partitions=(partition,))
    await client.call(
        delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=1000), ApiKey.DELETE_RECORDS, 2
    )
    assert (await session.committed()).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await offset_at(client, "t", -1, isolation=1)).offset == 8
    assert await session.end(True) is NONE
    await session.settle()
    assert (await offset_at(client, "t", -1, isolation=1)).offset == 10


async def asked_of_broker(
    session: Session, *transactions: tuple[str, bool, dict[str, tuple[int, ...]]], version: int = 5
) -> dict[str, dict[tuple[str, int], ErrorCode]]:
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactions=tuple(
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=session.producer_id,
                producer_epoch=session.epoch,
                verify_only=verify_only,
                topics=tuple(
                    add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=partitions)
                    for topic, partitions in topics.items()
                ),
            )
            for name, verify_only, topics in transactions
        )
    )
    response = await session.client.call(request, ApiKey.ADD_PARTITIONS_TO_TXN, version)
    return {
        result.transactional_id: {
            (topic.name, each.partition_index): each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


@with_a_broker
async def test_a_broker_asks_for_several_transactions_at_once(session: Session) -> None:
    await session.init()
    assert await session.add(0) == [NONE]
    answers = await asked_of_broker(
        session, (ID, True, {"t": (0, 1)}), ("nobody", True, {"t": (0,)}), version=4
    )
    assert answers == {
        ID: {("t", 0): NONE, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE},
        "nobody": {("t", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }
    answers = await asked_of_broker(session, (ID, False, {"t": (1, 9), "missing": (0,)}))
    assert answers[ID] == {
        ("t", 1): ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    answers = await asked_of_broker(session, (ID, False, {"t": (1,), "__consumer_offsets": (0,)}))
    assert set(answers[ID].values()) == {NONE}
    answers = await asked_of_broker(session, (ID, True, {"t": (1,), "__consumer_offsets": (0,)}))
    assert set(answers[ID].values()) == {NONE}


@with_a_broker(
    transactional_id_expiration_ms="100",
    transaction_remove_expired_transaction_cleanup_interval_ms="20",
)
async def test_an_idle_id_expires_and_starts_again(session: Session) -> None:
    await session.init()
    await session.send("a")
    await session.end(True)
    first = session.producer_id
    request = list_transactions.ListTransactionsRequest()

    async def is_forgotten() -> bool:
        return not (await session.client.call(request, ApiKey.LIST_TRANSACTIONS, 2)).transaction_states

    await until(is_forgotten)
    assert await session.send("b") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await session.end(True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await init(session.client, producer_id=first, producer_epoch=1))[::2] == (NONE, 0)
    await session.init()
    assert session.producer_id != first


@with_a_broker
async def test_ends_that_come_twice_or_too_late(session: Session) -> None:
    await session.init()
    assert await session.end(True) is ErrorCode.INVALID_TXN_STATE  # nothing was begun
    assert await session.end(False, version=4) is ErrorCode.INVALID_TXN_STATE
    assert await session.end(False) is NONE  # TV2 moves the epoch on
    assert session.epoch == 1
    await session.send("a")
    stale = end_txn.EndTxnRequest(
        transactional_id=ID, producer_id=session.producer_id, producer_epoch=0, committed=True
    )
    for version, code in ((5, FENCED), (4, FENCED), (1, ErrorCode.INVALID_PRODUCER_EPOCH)):
        assert (await session.client.call(stale, ApiKey.END_TXN, version)).error_code is code
    other = end_txn.EndTxnRequest(
        transactional_id=ID, producer_id=session.producer_id + 1, producer_epoch=1, committed=True
    )
    answer = await session.client.call(other, ApiKey.END_TXN, 5)
    assert answer.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await session.end(False) is NONE
    assert session.epoch == 2


@with_a_broker
async def test_a_cluster_that_falls_back_to_the_first_generation(session: Session) -> None:
    """transaction.version 2 -> 1 -> 0: old records are written, and what was open can be ended."""
    await session.init()
    await session.send("a")
    for level in (1, 0):
        update = update_features.FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=2
        )
        request = update_features.UpdateFeaturesRequest(timeout_ms=5000, feature_updates=(update,))
        response = await session.client.call(request, ApiKey.UPDATE_FEATURES, 1)
        assert response.error_code is NONE, response
        assert await session.end(level == 1) is NONE
        await session.settle()
        await session.send("b")
    assert session.epoch == 2
    assert last_state(session.node).client_transaction_version == 0  # the old record has no room for it
    assert await session.end(True, version=4) is NONE
    await session.settle()
    row = await session.committed()
    assert row.last_stable_offset == row.high_watermark
    assert [each.first_offset for each in row.aborted_transactions] == [2]


@with_a_broker
async def test_a_pipeline_waits_for_the_markers_of_the_transaction_before(session: Session) -> None:
    """TV2's client continues as soon as its commit is decided; its batches wait in the broker, in their order."""
    await session.init()
    assert await session.send("a") is NONE
    write = session.node.broker.markers.write

    async def late(*where: Any) -> ErrorCode:
        await asyncio.sleep(0.03)
        code = write(*where)
        return code if isinstance(code, ErrorCode) else await code

    session.node.broker.markers.write = late  # type: ignore[assignment]
    assert await session.end(True) is NONE
    for sequence in range(4):
        records = encode_batch(
            [Record(-1, NOW_MS, None, b"next%d" % sequence)],
            producer_id=session.producer_id,
            producer_epoch=session.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = produce.PartitionProduceData(index=0, records=records)
        request = produce.ProduceRequest(
            transactional_id=ID,
            acks=-1,
            timeout_ms=60_000,
            topic_data=(produce.TopicProduceData(name="t", partition_data=(data,)),),
        )
        session.client.post(request, ApiKey.PRODUCE, 12)
        if sequence == 2:
            await asyncio.sleep(0.035)  # the last comes when the markers are there, but not yet its turn
    for sequence in range(4):
        _, response = await session.client.receive(ApiKey.PRODUCE, 12)
        row = response.responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (NONE, 2 + sequence)
    assert session.node.broker.verifier._running == {}
    assert values(await read(session.client, "t", 2)) == [b"next0", b"next1", b"next2", b"next3"]


@with_a_broker
async def test_describe_producers_shows_epoch_sequence_and_open_transaction(session: Session) -> None:
    await session.init()
    await sent(session.client, 0)
    await session.send("a", "b")

    async def described() -> dict[int, tuple[int, ...]]:
        topic = describe_producers.TopicRequest(name="t", partition_indexes=(0,))
        request = describe_producers.DescribeProducersRequest(topics=(topic,))
        response = await session.client.call(request, ApiKey.DESCRIBE_PRODUCERS, 0)
        return {
            each.producer_id: (
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in response.topics[0].partitions[0].active_producers
        }

    assert await described() == {77: (0, 1, -1, -1), session.producer_id: (0, 1, -1, 2)}
    await session.end(True)
    await session.settle()
    assert (await described())[session.producer_id] == (1, -1, 0, -1)


def test_every_decided_transaction_is_carried_out_after_a_crash(tmp_path: Path) -> None:
    """The broker dies between the decision and its markers; the next one writes them."""

    async def refuse(end: object, topic: str, partition: int) -> ErrorCode:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def main() -> None:
        async with crashing(tmp_path, **SETTINGS) as node:
            session = Session(node, await connect(node))
            await create(session.client, "t", 2)
            await session.init()
            await session.send("a")
            await session.send("a", partition=1)
            node.broker.markers.write = refuse
            assert await session.end(True) is NONE
            assert last_state(node).transaction_status == 2
            # The session already has the epoch of its next transaction. Until the markers are written, it must wait.
            assert await session.end(True) is ErrorCode.CONCURRENT_TRANSACTIONS
            assert await session.end(False) is ErrorCode.CONCURRENT_TRANSACTIONS
            assert await session.send("b", epoch=1) is ErrorCode.CONCURRENT_TRANSACTIONS
            assert (await init(session.client))[0] is ErrorCode.CONCURRENT_TRANSACTIONS
        async with running(tmp_path, **SETTINGS) as node:
            again = Session(node, await connect(node))
            await until(again.is_stable)
            assert values(await read(again.client, "t"))[0] == b"a"
            assert last_state(node).transaction_status == 4

    asyncio.run(main())


@with_a_broker
async def test_offsets_and_records_hear_differently_of_a_coordinator_that_is_elsewhere(
    session: Session,
) -> None:
    await session.init()
    assert await session.commit_offset(1) is NONE
    session.node.broker.transactions.shards._give_up(0)
    # The partition of the group is already in the transaction.
    assert await session.commit_offset(2, version=3) is NONE
    session.epoch += 1
    assert await session.commit_offset(2, version=3) is ErrorCode.NOT_COORDINATOR
    assert await session.commit_offset(2, version=5) is ErrorCode.NOT_COORDINATOR
    assert await session.send("x", version=9) is ErrorCode.NOT_ENOUGH_REPLICAS


@with_a_broker
async def test_offsets_of_an_unknown_member_or_an_old_epoch_are_refused_in_a_transaction(
    session: Session,
) -> None:
    """KIP-447: a member of the group commits as such, and is refused when the group knows better."""
    await session.init()

    async def committed(version: int = 4, **about: Any) -> list[ErrorCode]:
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)
        missing = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=7, committed_offset=9)
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=session.producer_id,
            producer_epoch=session.epoch,
            topics=(
                txn_offset_commit.TxnOffsetCommitRequestTopic(name="t", partitions=(partition, missing)),
            ),
            **about,
        )
        response = await session.client.call(request, ApiKey.TXN_OFFSET_COMMIT, version)
        return [each.error_code for each in response.topics[0].partitions]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await committed(version=5) == [NONE, unknown]  # no member
    # The group is there now, and empty: its members are gone.
    member: dict[str, Any] = {"member_id": "me", "generation_id": 3}
    assert await committed(**member) == [ErrorCode.UNKNOWN_MEMBER_ID, unknown]
    assert await session.end(False) is NONE
    await session.settle()
    assert await session.offset() == -1
    assert await committed() == [ErrorCode.TRANSACTION_ABORTABLE, unknown]
    session.epoch -= 1
    assert await committed(version=5) == [ErrorCode.INVALID_PRODUCER_EPOCH, unknown]


@with_a_broker
async def test_aborted_ranges_reach_over_segments(session: Session) -> None:
    """Transactions that end in other segments than they began in, read from every offset."""
    await session.init()
    large = "x" * 400_000
    await alter(session.client, 2, "t", segment_bytes="1048576")
    expected = {}
    for committed in (False, True, False):
        first = len(expected)
        for nth in range(4):
            assert await session.send(f"{first} {nth} {large}", sequence=nth) is NONE
            expected[first + nth] = committed
        assert await session.end(committed) is NONE
        await session.settle()
        expected[first + 4] = False  # the marker
    log = session.node.broker.replicas.get("t", 0).log
    assert len(log.segments) > 3
    for begin in range(len(expected)):
        wants = fetch.FetchPartition(partition=0, fetch_offset=begin, partition_max_bytes=1 << 24)
        request = fetch.FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 24,
            isolation_level=1,
            topics=(fetch.FetchTopic(topic="t", partitions=(wants,)),),
        )
        (row,) = (await session.client.call(request, ApiKey.FETCH, 12)).responses[0].partitions
        assert row.last_stable_offset == len(expected)
        seen = committed_offsets(row)
        assert seen == [offset for offset in seen if expected[offset]]
        through = [at for at, header in iter_batches(row.records)][-1]
        last = read_header(row.records, through).last_offset
        assert seen == [offset for offset, is_seen in expected.items() if is_seen and begin <= offset <= last]


def committed_offsets(row: fetch.PartitionData) -> list[int]:
    """What Java's consumer hands out of a fetched partition."""
    to_come = sorted((each.first_offset, each.producer_id) for each in row.aborted_transactions)
    aborted, seen = set(), []
    for at, header in iter_batches(row.records):
        while to_come and to_come[0][0] <= header.last_offset:
            aborted.add(to_come.pop(0)[1])
        if header.is_control:
            (record,) = read_records(row.records, at)
            if not decode_control(record.key, record.value).committed:
                aborted.discard(header.producer_id)
        elif header.producer_id not in aborted:
            seen += [record.offset for record in read_records(row.records, at)]
    return seen


def test_a_coordinator_that_was_found_serves_the_next_request(tmp_path: Path) -> None:
    """Its topic is new, and others ask while it begins; a client that is refused comes back only after seconds."""

    async def ask(node: RunningNode) -> tuple[ErrorCode, ...]:
        client = await connect(node)
        for key_type in (1, 0):
            wanted = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(ID, "x"))
            found = await client.call(wanted, ApiKey.FIND_COORDINATOR, 4)
            assert {each.error_code for each in found.coordinators} == {NONE}
        fetched = await client.call(
            offset_fetch.OffsetFetchRequest(groups=(offset_fetch.OffsetFetchRequestGroup(group_id="x"),)),
            ApiKey.OFFSET_FETCH,
            8,
        )
        return (await init(client))[0], fetched.groups[0].error_code

    async def main() -> None:
        settings = {"transaction_state_log_replication_factor": "1", "offsets_topic_replication_factor": "1"}
        async with running(tmp_path, **settings) as node:
            answers = await asyncio.gather(*(ask(node) for _ in range(6)))
        assert {group for _, group in answers} == {NONE}
        assert {code for code, _ in answers} <= {NONE, ErrorCode.CONCURRENT_TRANSACTIONS}

    asyncio.run(main())


def test_a_marker_in_the_coordinators_own_log_stops_no_load_of_it(tmp_path: Path) -> None:
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        topics=(
            write_txn_markers.WritableTxnMarkerTopic(name="__transaction_state", partition_indexes=(0,)),
        ),
    )

    async def main() -> None:
        async with running(tmp_path, **SETTINGS) as node:
            session = Session(node, await connect(node))
            await session.init()
            request = write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))
            response = await session.client.call(request, ApiKey.WRITE_TXN_MARKERS, 1)
            assert response.markers[0].topics[0].partitions[0].error_code is NONE
            await session.init()
        async with running(tmp_path, **SETTINGS) as node:
            again = Session(node, await connect(node))
            await again.init()
            assert (again.producer_id, again.epoch) == (session.producer_id, session.epoch + 1)

    asyncio.run(main())
