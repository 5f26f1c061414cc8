"""Transactions over real sockets with hand-made requests: both protocols, their errors, and what operators ask."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcli.errors import ErrorCode, UnknownTopicOrPartitionException
from kcli.protocol.batches.batch import iter_batches
from kcli.protocol.messages import (
    add_offsets_to_txn,
    describe_producers,
    describe_transactions,
    list_transactions,
    write_txn_markers,
)
from kcli.protocol.wire.api import ApiKey
from rigs.loops import until
from rigs.node import connect, crashing, create, read, running, values
from rigs.transactions import ID, SETTINGS, Session, last_state, with_a_broker


@with_a_broker
async def test_the_second_protocol_adds_partitions_and_moves_the_epoch(session: Session) -> None:
    await session.init()
    assert await session.send("a", "b") is ErrorCode.NONE
    assert (await session.committed()).last_stable_offset == 0
    assert await session.end(True) is ErrorCode.NONE
    assert session.epoch == 1
    await session.settle()
    row = await session.committed()
    assert (row.last_stable_offset, row.high_watermark) == (3, 3)
    (_, data), (_, marker) = iter_batches(row.records)
    assert (data.producer_epoch, marker.producer_epoch) == (0, 1)
    assert await session.send("late", sequence=2, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await session.send("c", sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await session.send("c") is ErrorCode.NONE
    assert await session.end(False) is ErrorCode.NONE
    await session.settle()
    row = await session.committed()
    assert [(each.producer_id, each.first_offset) for each in row.aborted_transactions] == [
        (session.producer_id, 3)
    ]
    state = last_state(session.node)
    assert (state.transaction_status, state.producer_epoch, state.client_transaction_version) == (5, 2, 2)


@with_a_broker
async def test_a_partition_that_was_not_added_is_refused(session: Session) -> None:
    await session.init()
    assert await session.send("x", version=9) is ErrorCode.INVALID_TXN_STATE
    assert await session.send("x", version=11) is ErrorCode.TRANSACTION_ABORTABLE
    assert await session.add(0, 7) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await session.add(0, topic="__consumer_offsets") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert await session.add(0) == [ErrorCode.NONE]
    assert await session.send("x", version=9) is ErrorCode.NONE
    assert await session.end(True, version=3) is ErrorCode.NONE
    await session.settle()
    assert values(await read(session.client, "t"))[0] == b"x"
    assert (await session.committed()).last_stable_offset == 2


@with_a_broker
async def test_old_clients_hear_of_an_invalid_epoch_when_they_are_fenced(session: Session) -> None:
    await session.init(version=3)
    session.epoch = 9
    assert await session.add(0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await session.add(0, version=2) == [ErrorCode.PRODUCER_FENCED]
    assert await session.end(True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await session.end(True, version=2) is ErrorCode.PRODUCER_FENCED
    assert await session.send("x", version=9) is ErrorCode.INVALID_PRODUCER_EPOCH


@with_a_broker
async def test_offsets_are_unstable_until_the_end(session: Session) -> None:
    await session.init()
    assert await session.commit_offset(5, version=3) is ErrorCode.INVALID_TXN_STATE
    assert await session.commit_offset(5, version=4) is ErrorCode.TRANSACTION_ABORTABLE
    assert await session.commit_offset(5) is ErrorCode.NONE
    assert await session.offset() is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await session.offset(require_stable=False) == -1
    assert await session.end(True) is ErrorCode.NONE
    await session.settle()
    assert await session.offset() == 5
    request = add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=session.producer_id, producer_epoch=session.epoch, group_id="g"
    )
    response = await session.client.call(request, ApiKey.ADD_OFFSETS_TO_TXN, 3)
    assert response.error_code is ErrorCode.NONE
    # The group id is checked only when offsets are committed.
    request = replace(request, group_id="")
    response = await session.client.call(request, ApiKey.ADD_OFFSETS_TO_TXN, 3)
    assert response.error_code is ErrorCode.NONE
    assert await session.commit_offset(6, version=3) is ErrorCode.NONE
    assert await session.end(False) is ErrorCode.NONE
    await session.settle()
    assert await session.offset() == 5


@with_a_broker(transaction_partition_verification_enable="false")
async def test_a_hanging_transaction_is_found_and_ended(session: Session) -> None:
    await session.init()
    assert await session.send("hangs", version=9) is ErrorCode.NONE  # without AddPartitionsToTxn
    topic = describe_producers.TopicRequest(name="t", partition_indexes=(0, 5))
    misnamed = describe_producers.TopicRequest(name="no name", partition_indexes=(0,))
    unknown = describe_producers.TopicRequest(name="none", partition_indexes=(0,))
    request = describe_producers.DescribeProducersRequest(topics=(topic, misnamed, unknown))
    response = await session.client.call(request, ApiKey.DESCRIBE_PRODUCERS, 0)
    here, missing = response.topics[0].partitions
    assert response.topics[1].partitions[0].error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert missing.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert missing.error_message is None, "Kafka gives a text only if the topic is unknown"
    assert response.topics[2].partitions[0].error_message == UnknownTopicOrPartitionException().message
    (producer,) = here.active_producers
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (0, -1)
    assert await session.end(True) is ErrorCode.INVALID_TXN_STATE
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=session.producer_id,
        producer_epoch=session.epoch,
        transaction_result=False,
        topics=(write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=(0, 5)),),
    )
    request = write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))
    response = await session.client.call(request, ApiKey.WRITE_TXN_MARKERS, 1)
    codes = [each.error_code for each in response.markers[0].topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    row = await session.committed()
    assert (row.last_stable_offset, len(row.aborted_transactions)) == (2, 1)


@with_a_broker
async def test_transactions_and_producers_are_listed_and_described(session: Session) -> None:
    await session.init()
    await session.send("a")
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=(ID, "nobody", ""))
    response = await session.client.call(request, ApiKey.DESCRIBE_TRANSACTIONS, 0)
    known, nobody, empty = response.transaction_states
    assert (known.transaction_state, known.topics[0].topic) == ("Ongoing", "t")
    assert nobody.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code is ErrorCode.INVALID_REQUEST

    async def listed(**filters: Any) -> list_transactions.ListTransactionsResponse:
        request = list_transactions.ListTransactionsRequest(**filters)
        return await session.client.call(request, ApiKey.LIST_TRANSACTIONS, 2)

    assert [each.transactional_id for each in (await listed()).transaction_states] == [ID]
    found = await listed(state_filters=("Empty", "Nonsense"))
    assert (found.unknown_state_filters, found.transaction_states) == (("Nonsense",), ())
    assert (await listed(transactional_id_pattern="t.")).transaction_states
    assert not (await listed(transactional_id_pattern="t")).transaction_states
    found = await listed(transactional_id_pattern="[")
    assert found.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    found = await listed(transactional_id_pattern="(t+)+x", state_filters=("Ongoing", "PrepareEpochFence"))
    assert (found.unknown_state_filters, len(found.transaction_states)) == ((), 1)


def test_an_open_transaction_is_aborted_after_a_restart(tmp_path: Path) -> None:
    settings = SETTINGS | {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}

    async def main() -> None:
        async with crashing(tmp_path, **settings) as node:
            session = Session(node, await connect(node))
            await create(session.client, "t")
            await session.init(timeout_ms=300)
            await session.send("lost")
        async with running(tmp_path, **settings) as node:
            again = Session(node, await connect(node))
            again.producer_id, again.epoch = session.producer_id, session.epoch
            await until(again.is_stable)
            row = await again.committed()
            assert (row.last_stable_offset, len(row.aborted_transactions)) == (2, 1)
            assert await again.send("zombie", sequence=1) is ErrorCode.INVALID_PRODUCER_EPOCH

    asyncio.run(main())
