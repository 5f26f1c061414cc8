"""AddPartitionsToTxn (key 24, versions 0-5): adds partitions to a transaction (KIP-98, KIP-890).

Up to version 3 a client sends the partitions of its transaction. If one of these partitions does not exist, no
partition is added. The missing partition gets UNKNOWN_TOPIC_OR_PARTITION, and each other partition gets
OPERATION_NOT_ATTEMPTED. From version 4 on, the leaders of partitions send this request, for several transactions. The
request adds partitions (TV2, the second transaction protocol), or only verifies that partitions belong to a
transaction. In a verification, a partition that is not part of the transaction gets TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable

from kcli.coordinator.transaction.state import TV0
from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.image import MetadataImage
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
from kcli.server.metrics.requests import VERIFICATION
from kcli.server.requests.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.answers import finished, then
from kcli.server.requests.fenced import fenced_code
from kcli.server.requests.rights import EVERY_NAME
from kcli.server.requests.turns import Steps, nested_steps, next_turn, run_in_turns

TRANSACTIONS_PER_TURN = 20
ANSWERS_PER_TURN = 100
_BATCHED_FROM = 4
_PRODUCER_FENCED_FROM = 2


Codes = dict[TopicPartition, ErrorCode]

PARTITIONS_PER_TURN = 500
"""Partitions that are checked or answered in one iteration of the event loop. A partition takes 1 to 2 µs. The
coordinator adds all partitions in one decision."""


def handle(
    context: BrokerContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    rights = context.rights
    if context.api_version >= _BATCHED_FROM:
        rights.require(CLUSTER_ACTION)
        return _of_brokers(context, request)
    rights.require_on(WRITE_TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics
    names = (topic.name for topic in topics if not is_internal(topic.name))

    def check(allowed: Container[str]) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
        refused = run_in_turns(_refused(context, topics, allowed, is_client=True), PARTITIONS_PER_TURN)
        return then(refused, lambda codes: _add_checked(context, request, codes))

    return then(rights.allowed_in_turns(WRITE_TOPIC, names), check)


def error_response(
    context: BrokerContext, request: AddPartitionsToTxnRequest, error: KafkaError
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if context.api_version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return _response(request, lambda _: error.code)


def _add_checked(
    context: BrokerContext, request: AddPartitionsToTxnRequest, codes: dict[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if any(code is not ErrorCode.NONE for code in codes.values()):
        return _response(request, codes.__getitem__)

    def answered(code: ErrorCode) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
        fenced = fenced_code(context.api_version, _PRODUCER_FENCED_FROM, code)
        return _response(request, lambda _: fenced)

    return then(_add(context, request, codes), answered)


def _response(
    request: AddPartitionsToTxnRequest, code_of: Callable[[TopicPartition], ErrorCode]
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    results = run_in_turns(_results(request.v3_and_below_topics, code_of), PARTITIONS_PER_TURN)
    return then(results, lambda topics: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))


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
    """Handles a request of a broker. Begins the work for all transactions before it waits for an answer, because each
    answer may wait for other replicas.
    """
    begun = []
    are_verified = True
    for at, transaction in enumerate(request.transactions, start=1):
        are_verified = are_verified and transaction.verify_only
        begun.append((transaction, await _begin(context, transaction)))
        if at % TRANSACTIONS_PER_TURN == 0:
            await next_turn()
    if are_verified:
        context.facts.is_of_kind(VERIFICATION)
    results = []
    for at, (transaction, answer) in enumerate(begun, start=1):
        if at % ANSWERS_PER_TURN == 0:
            await next_turn()
        codes = await finished(answer)
        topics = run_in_turns(_results(transaction.topics, codes.__getitem__), PARTITIONS_PER_TURN)
        result = AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id, topic_results=await finished(topics)
        )
        results.append(result)
    return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))


async def _begin(
    context: BrokerContext, transaction: AddPartitionsToTxnTransaction
) -> Codes | Awaitable[Codes]:
    """Returns the code of each partition. If the transaction must be written first, returns an awaitable of the
    codes."""
    refused = _refused(context, transaction.topics, EVERY_NAME, is_client=False)
    codes = await finished(run_in_turns(refused, PARTITIONS_PER_TURN))
    if any(code is not ErrorCode.NONE for code in codes.values()):
        return codes
    return context.ports.transactions.verify_or_add(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        codes,
        add=not transaction.verify_only,
    )


def _refused(
    context: BrokerContext,
    topics: tuple[AddPartitionsToTxnTopic, ...],
    allowed: Container[str],
    *,
    is_client: bool,
) -> Steps[dict[TopicPartition, ErrorCode]]:
    """Returns the error code of each partition. All codes are NONE if all partitions can be added. Otherwise a
    partition that cannot be added gets the code of its error, and each other partition gets OPERATION_NOT_ATTEMPTED."""
    image = context.ports.metadata  # one image for all turns
    codes: dict[TopicPartition, ErrorCode] = {}
    are_all = True
    for topic in topics:
        is_refused = topic.name not in allowed or (is_client and is_internal(topic.name))
        for partition in topic.partitions:
            code = (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if is_refused
                else _error_of(image, topic.name, partition)
            )
            codes[TopicPartition(topic.name, partition)] = code
            are_all = are_all and code is ErrorCode.NONE
            yield
        yield
    if are_all:
        return codes
    for key, code in codes.items():
        if code is ErrorCode.NONE:
            codes[key] = ErrorCode.OPERATION_NOT_ATTEMPTED
        yield
    return codes


def _error_of(image: MetadataImage, topic: str, partition: int) -> ErrorCode:
    if image.partition(topic, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _results(
    topics: tuple[AddPartitionsToTxnTopic, ...], code_of: Callable[[TopicPartition], ErrorCode]
) -> Steps[tuple[AddPartitionsToTxnTopicResult, ...]]:
    return (
        yield from nested_steps(
            topics,
            lambda topic: topic.partitions,
            lambda topic, partition: AddPartitionsToTxnPartitionResult(
                partition_index=partition,
                partition_error_code=code_of(TopicPartition(topic.name, partition)),
            ),
            lambda topic, parts: AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=parts),
        )
    )
