"""A session of a transactional producer that sends single requests to its own node."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.messages import (
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from kcli.protocol.records.transaction_state import TransactionLogValue, decode_key, decode_value
from kcli.protocol.wire.api import ApiKey
from rigs.loops import until
from rigs.node import RunningNode, connect, create, running
from rigs.wire_client import Client

ID = "tx"
SETTINGS = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}


class Session:
    """A client, and the ids and epochs of its producer."""

    def __init__(self, node: RunningNode, client: Client) -> None:
        self.node = node
        self.client = client
        self.producer_id = self.epoch = -1

    async def init(self, version: int = 5, timeout_ms: int = 60_000) -> None:
        for key, key_type in ((ID, 1), ("g", 0)):
            request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
            found = await self.client.call(request, ApiKey.FIND_COORDINATOR, 4)
            assert found.coordinators[0].error_code is ErrorCode.NONE
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=ID, transaction_timeout_ms=timeout_ms
        )
        while True:
            response = await self.client.call(request, ApiKey.INIT_PRODUCER_ID, version)
            if response.error_code not in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.CONCURRENT_TRANSACTIONS,
            ):
                break
            await asyncio.sleep(0.01)
        assert response.error_code is ErrorCode.NONE
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    async def add(self, *partitions: int, topic: str = "t", version: int = 3) -> list[ErrorCode]:
        topics = (add_partitions_to_txn.AddPartitionsToTxnTopic(name=topic, partitions=partitions),)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        response = await self.client.call(request, ApiKey.ADD_PARTITIONS_TO_TXN, version)
        (result,) = response.results_by_topic_v3_and_below
        return [each.partition_error_code for each in result.results_by_partition]

    async def send(
        self, *texts: str, sequence: int = 0, version: int = 12, partition: int = 0, epoch: int | None = None
    ) -> ErrorCode:
        records = encode_batch(
            [Record(-1, int(time.time() * 1000), None, text.encode()) for text in texts],
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = produce.PartitionProduceData(index=partition, records=records)
        request = produce.ProduceRequest(
            transactional_id=ID,
            acks=-1,
            timeout_ms=60_000,
            topic_data=(produce.TopicProduceData(name="t", partition_data=(data,)),),
        )
        response = await self.client.call(request, ApiKey.PRODUCE, version)
        return response.responses[0].partition_responses[0].error_code

    async def end(self, committed: bool, version: int = 5) -> ErrorCode:
        request = end_txn.EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        response = await self.client.call(request, ApiKey.END_TXN, version)
        if response.error_code is ErrorCode.NONE and version >= 5:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return response.error_code

    async def settle(self) -> None:
        """Waits until the markers of the last transaction are written and the coordinator knows this, because EndTxn
        does not wait."""
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=(ID,))

        async def is_complete() -> bool:
            response = await self.client.call(request, ApiKey.DESCRIBE_TRANSACTIONS, 0)
            return not response.transaction_states[0].transaction_state.startswith("Prepare")

        await until(is_complete)

    async def is_stable(self) -> bool:
        row = await self.committed()
        return row.last_stable_offset == row.high_watermark

    async def committed(self) -> fetch.PartitionData:
        wants = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
        request = fetch.FetchRequest(
            max_wait_ms=0, isolation_level=1, topics=(fetch.FetchTopic(topic="t", partitions=(wants,)),)
        )
        response = await self.client.call(request, ApiKey.FETCH, 12)
        return response.responses[0].partitions[0]

    async def commit_offset(self, offset: int, version: int = 5) -> ErrorCode:
        partition = txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(txn_offset_commit.TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )
        response = await self.client.call(request, ApiKey.TXN_OFFSET_COMMIT, version)
        return response.topics[0].partitions[0].error_code

    async def offset(self, require_stable: bool = True) -> ErrorCode | int:
        topic = offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=(0,))
        group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=(topic,))
        request = offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=require_stable)
        response = await self.client.call(request, ApiKey.OFFSET_FETCH, 8)
        found = response.groups[0].topics[0].partitions[0]
        return found.error_code if found.error_code is not ErrorCode.NONE else found.committed_offset


def with_a_broker(test: Callable[..., Any] | None = None, **settings: Any) -> Callable[..., Any]:
    """Runs a coroutine test with a session on a new broker with the topic t."""
    if test is None:
        return functools.partial(with_a_broker, **settings)

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            async with running(tmp_path, **(SETTINGS | settings)) as node:
                client = await connect(node)
                await create(client, "t", 2)
                await test(Session(node, client))

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


def last_state(node: RunningNode) -> TransactionLogValue:
    log = node.broker.replicas.get("__transaction_state", 0).log
    raw = log.read(0, 1 << 20, end_offset=log.log_end_offset).read()
    position, _ = list(iter_batches(raw))[-1]
    (record,) = read_records(raw, position)
    return decode_value(decode_key(record.key), record.value)[0]
