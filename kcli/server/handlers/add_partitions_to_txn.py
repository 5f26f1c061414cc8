"""AddPartitionsToTxn (key 24, versions 0-5): adds partitions to a transaction (KIP-98, KIP-890).

Up to version 3 a client names the partitions of its transaction. If one of them does not exist, none is added: this
partition gets UNKNOWN_TOPIC_OR_PARTITION, and the others OPERATION_NOT_ATTEMPTED. From version 4 on, partition leaders
send the request for several transactions, to add partitions (TV2) or only to verify them. In a verification, a
partition that is not part of the transaction gets TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from inspect import isawaitable

from kcli.coordinator.transaction.state import TV0
from kcli.errors import ErrorCode, KafkaError
from kcli.model.topic_names import is_internal
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, per_resource
from kcli.server.requests.answers import then
from kcli.server.requests.fenced import fenced_code

ACCESS = per_resource(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION)

_BATCHED_FROM = 4
_PRODUCER_FENCED_FROM = 2


def handle(
    context: BrokerContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if context.api_version >= _BATCHED_FROM:
        return _of_brokers(context, request)
    topics = request.v3_and_below_topics
    codes = _refused(context, topics, is_client=True)
    if any(code is not ErrorCode.NONE for code in codes.values()):
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes))

    def answered(code: ErrorCode) -> AddPartitionsToTxnResponse:
        same = dict.fromkeys(codes, fenced_code(context.api_version, _PRODUCER_FENCED_FROM, code))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, same))

    return then(_add(context, request, codes), answered)


def error_response(
    context: BrokerContext, request: AddPartitionsToTxnRequest, error: KafkaError
) -> AddPartitionsToTxnResponse:
    if context.api_version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=error.code)
    codes = dict.fromkeys(_partitions(request.v3_and_below_topics), error.code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(request.v3_and_below_topics, codes)
    )


def _add(
    context: BrokerContext, request: AddPartitionsToTxnRequest, partitions: Iterable[TopicPartition]
) -> ErrorCode | Awaitable[ErrorCode]:
    return context.ports.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        partitions,
        TV0,
    )


async def _of_brokers(
    context: BrokerContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=tuple([await _of_broker(context, each) for each in request.transactions])
    )


async def _of_broker(
    context: BrokerContext, transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult:
    codes: Mapping[TopicPartition, ErrorCode] = _refused(context, transaction.topics, is_client=False)
    if all(code is ErrorCode.NONE for code in codes.values()):
        answer = context.ports.transactions.verify_or_add(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            codes,
            add=not transaction.verify_only,
        )
        codes = await answer if isawaitable(answer) else answer
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id, topic_results=_results(transaction.topics, codes)
    )


def _refused(
    context: BrokerContext, topics: tuple[AddPartitionsToTxnTopic, ...], *, is_client: bool
) -> dict[TopicPartition, ErrorCode]:
    """The error code of each partition: NONE for all of them or, if one cannot be added, OPERATION_NOT_ATTEMPTED for
    the others."""
    codes = {key: _error_of(context, *key, is_client=is_client) for key in _partitions(topics)}
    if all(code is ErrorCode.NONE for code in codes.values()):
        return codes
    return {
        key: ErrorCode.OPERATION_NOT_ATTEMPTED if code is ErrorCode.NONE else code
        for key, code in codes.items()
    }


def _error_of(context: BrokerContext, topic: str, partition: int, *, is_client: bool) -> ErrorCode:
    if is_client and is_internal(topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if context.ports.metadata.partition(topic, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _partitions(topics: tuple[AddPartitionsToTxnTopic, ...]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions)


def _results(
    topics: tuple[AddPartitionsToTxnTopic, ...], codes: Mapping[TopicPartition, ErrorCode]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=codes[TopicPartition(topic.name, partition)],
                )
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )
