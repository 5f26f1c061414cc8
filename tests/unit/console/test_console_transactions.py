"""The transactions on the console: the list, one transaction, those that hang, and their end."""

from __future__ import annotations

import asyncio
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages import describe_producers as producers
from kcli.protocol.messages import describe_transactions as describe
from kcli.protocol.messages import (
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    write_txn_markers,
)
from kcli.protocol.wire.api import ApiKey
from rigs.console import scripted
from rigs.scripted_cluster import ScriptedCluster

TRANSACTIONS = "/api/clusters/main/transactions"


class TransactionCluster(ScriptedCluster):
    """The transaction `pay` is open. In t-0, a transaction of producer 7 hangs since offset 60."""

    def __init__(self) -> None:
        super().__init__()
        self.server.script = {
            **self.server.script,
            ApiKey.FIND_COORDINATOR: self.find,
            ApiKey.LIST_TRANSACTIONS: self.list,
            ApiKey.DESCRIBE_TRANSACTIONS: self.describe_transactions,
            ApiKey.DESCRIBE_PRODUCERS: self.producers,
            ApiKey.WRITE_TXN_MARKERS: self.markers,
            ApiKey.INIT_PRODUCER_ID: lambda *_: init_producer_id.InitProducerIdResponse(),
            ApiKey.LIST_OFFSETS: self.held_back,
        }

    def find(self, request: Any, _version: int) -> find_coordinator.FindCoordinatorResponse:
        return find_coordinator.FindCoordinatorResponse(
            coordinators=tuple(
                find_coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.server.port)
                for key in request.coordinator_keys
            )
        )

    def list(self, request: Any, _version: int) -> list_transactions.ListTransactionsResponse:
        states = {"pay": ("Ongoing", 5), "done": ("CompleteCommit", 6)}
        return list_transactions.ListTransactionsResponse(
            transaction_states=tuple(
                list_transactions.TransactionState(
                    transactional_id=name, producer_id=number, transaction_state=state
                )
                for name, (state, number) in states.items()
                if not request.producer_id_filters or number in request.producer_id_filters
            )
        )

    def describe_transactions(self, request: Any, _version: int) -> describe.DescribeTransactionsResponse:
        def of(name: str) -> describe.TransactionState:
            if name not in ("pay", "done"):
                return describe.TransactionState(
                    error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name
                )
            return describe.TransactionState(
                transactional_id=name,
                transaction_state="Ongoing" if name == "pay" else "CompleteCommit",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=1000,
                producer_id=5,
                producer_epoch=2,
                topics=(describe.TopicData(topic="u", partitions=(0,)),),
            )

        return describe.DescribeTransactionsResponse(
            transaction_states=tuple(of(name) for name in request.transactional_ids)
        )

    def producers(self, request: Any, _version: int) -> producers.DescribeProducersResponse:
        state = producers.ProducerState(
            producer_id=7, producer_epoch=1, last_timestamp=1, current_txn_start_offset=60
        )
        return producers.DescribeProducersResponse(
            topics=tuple(
                producers.TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        producers.PartitionResponse(partition_index=number, active_producers=(state,))
                        for number in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    def markers(self, request: Any, _version: int) -> write_txn_markers.WriteTxnMarkersResponse:
        return write_txn_markers.WriteTxnMarkersResponse(
            markers=tuple(
                write_txn_markers.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        write_txn_markers.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=number)
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    def held_back(self, request: Any, _version: int) -> list_offsets.ListOffsetsResponse:
        def offset(topic: str, number: int) -> int:
            return 60 if request.isolation_level == 1 and (topic, number) == ("t", 0) else 100

        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index,
                            offset=offset(topic.name, partition.partition_index),
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


def test_transactions_are_listed() -> None:
    async def story() -> None:
        async with scripted(TransactionCluster()) as browser:
            rows = (await browser.get(TRANSACTIONS))["rows"]
            assert [(row["transactional_id"], row["state"], row["is_open"]) for row in rows] == [
                ("done", "CompleteCommit", False),
                ("pay", "Ongoing", True),
            ]
            (row,) = (await browser.get(f"{TRANSACTIONS}?open=1"))["rows"]
            assert row["transactional_id"] == "pay"

    asyncio.run(story())


def test_one_transaction_is_shown_with_its_partitions() -> None:
    async def story() -> None:
        async with scripted(TransactionCluster()) as browser:
            answer = await browser.get(f"{TRANSACTIONS}/by-id?id=pay")
            assert answer["partitions"] == [{"topic": "u", "partition": 0}]
            assert (answer["start_ms"], answer["timeout_ms"], answer["is_open"]) == (1000, 60_000, True)
            await browser.get(f"{TRANSACTIONS}/by-id?id=nobody")
            assert browser.status == 404
            await browser.get(f"{TRANSACTIONS}/by-id")
            assert browser.status == 400

    asyncio.run(story())


def test_a_hanging_transaction_is_found_and_aborted() -> None:
    async def story() -> None:
        cluster = TransactionCluster()
        async with scripted(cluster) as browser:
            (row,) = (await browser.get(f"{TRANSACTIONS}/hanging"))["rows"]
            assert (row["topic"], row["partition"], row["producer_id"], row["start_offset"]) == (
                "t",
                0,
                7,
                60,
            )
            body = {name: row[name] for name in ("topic", "partition", "start_offset")}
            preview = await browser.post(f"{TRANSACTIONS}/abort", {**body, "preview": True})
            assert not cluster.server.sent(ApiKey.WRITE_TXN_MARKERS)
            assert preview["command"].endswith("abort --topic t --partition 0 --start-offset 60")
            outcome = await browser.post(f"{TRANSACTIONS}/abort", body)
            assert outcome["summary"] == "Aborted the transaction of producer 7 in t-0 from offset 60."
            (sent,) = cluster.server.sent(ApiKey.WRITE_TXN_MARKERS)
            (marker,) = sent.markers
            assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 1, False)
            await browser.post(f"{TRANSACTIONS}/abort", {**body, "start_offset": 61})
            assert browser.status == 400

    asyncio.run(story())


def test_an_open_transaction_is_terminated_and_another_is_not() -> None:
    async def story() -> None:
        cluster = TransactionCluster()
        async with scripted(cluster) as browser:
            body = {"transactional_id": "pay"}
            preview = await browser.post(f"{TRANSACTIONS}/terminate", {**body, "preview": True})
            assert "Aborts the transaction of pay in 1 partition. " in preview["summary"]
            assert preview["command"].endswith("forceTerminateTransaction --transactionalId pay")
            assert not cluster.server.sent(ApiKey.INIT_PRODUCER_ID)
            await browser.post(f"{TRANSACTIONS}/terminate", body)
            assert browser.status == 200
            assert cluster.server.sent(ApiKey.INIT_PRODUCER_ID)
            await browser.post(f"{TRANSACTIONS}/terminate", {"transactional_id": "done"})
            assert browser.status == 400

    asyncio.run(story())
