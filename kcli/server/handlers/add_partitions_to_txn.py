"""AddPartitionsToTxn (key 24, versions 0-5): adds partitions to a transaction (KIP-98, KIP-890).

Up to version 3 a client sends the partitions of its transaction. If one of these partitions does not exist, no
partition is added. The missing partition gets UNKNOWN_TOPIC_OR_PARTITION, and each other partition gets
OPERATION_NOT_ATTEMPTED. From version 4 on, the leaders of partitions send this request, for several transactions. The
request adds partitions (TV2, the second transaction protocol), or only verifies that partitions belong to a
transaction. In a verification, a partition that is not part of the transaction gets TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from kcli.coordinator.transaction.state import TV0
from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.image import MetadataImage
from kcli.model.pace import nested
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
from kcli.runtime.turns import started
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.metrics.requests import VERIFICATION
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.context import RequestContext
from kcli.server.requests.fenced import fenced_code
from kcli.server.requests.rights import EVERY_NAME

TRANSACTION_COST = 50
PARTITION_COST = 2
_BATCHED_FROM = 4
_PRODUCER_FENCED_FROM = 2

Codes = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if context.api_version >= _BATCHED_FROM:
        context.rights.require(CLUSTER_ACTION)
        return await _serve_broker(context, request)
    context.rights.require_on(WRITE_TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    topics = request.v3_and_below_topics
    names = (topic.name for topic in topics if not is_internal(topic.name))
    allowed = await context.allowed(WRITE_TOPIC, names)
    codes = await _checked(context, topics, allowed, is_client=True)
    if any(code is not ErrorCode.NONE for code in codes.values()):
        return await _response(context, request, codes.__getitem__)
    code = await context.ports.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        codes,
        TV0,
    )
    fenced = fenced_code(context.api_version, _PRODUCER_FENCED_FROM, code)
    return await _response(context, request, lambda _: fenced)


async def error_response(
    context: Context, request: AddPartitionsToTxnRequest, error: KafkaError
) -> AddPartitionsToTxnResponse:
    if context.api_version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=error.code)
    return await _response(context, request, lambda _: error.code)


async def _response(
    context: Context, request: AddPartitionsToTxnRequest, code_of: Callable[[TopicPartition], ErrorCode]
) -> AddPartitionsToTxnResponse:
    results = await _results(context, request.v3_and_below_topics, code_of)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


async def _serve_broker(context: Context, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Handles a request of a broker. Begins the work for all transactions before it waits for an answer, because each
    answer may wait for other replicas.
    """
    begun = []
    are_verified = True
    for transaction in request.transactions:
        await context.pace(TRANSACTION_COST)
        are_verified = are_verified and transaction.verify_only
        codes = await _checked(context, transaction.topics, EVERY_NAME, is_client=False)
        begun.append((transaction, started(_verify_or_add(context, transaction, codes))))
    if are_verified:
        context.facts.is_of_kind(VERIFICATION)
    results = []
    for transaction, answer in begun:
        await context.pace(TRANSACTION_COST)
        codes = await answer
        result = AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=await _results(context, transaction.topics, codes.__getitem__),
        )
        results.append(result)
    return AddPartitionsToTxnResponse(results_by_transaction=tuple(results))


async def _verify_or_add(context: Context, transaction: AddPartitionsToTxnTransaction, codes: Codes) -> Codes:
    """Returns the code of each partition. `codes` are the results of the checks."""
    if any(code is not ErrorCode.NONE for code in codes.values()):
        return codes
    return await context.ports.transactions.verify_or_add(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        codes,
        add=not transaction.verify_only,
    )


async def _checked(
    context: Context,
    topics: tuple[AddPartitionsToTxnTopic, ...],
    allowed: Container[str],
    *,
    is_client: bool,
) -> Codes:
    """Returns the error code of each partition. All codes are NONE if all partitions can be added. Otherwise a
    partition that cannot be added gets the code of its error, and each other partition gets OPERATION_NOT_ATTEMPTED."""
    image = context.ports.loader.image  # one image for all turns
    codes: Codes = {}
    are_all = True
    for topic in topics:
        await context.pace(PARTITION_COST)
        is_refused = topic.name not in allowed or (is_client and is_internal(topic.name))
        for partition in topic.partitions:
            await context.pace(PARTITION_COST)
            code = (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED
                if is_refused
                else _error_of(image, topic.name, partition)
            )
            codes[TopicPartition(topic.name, partition)] = code
            are_all = are_all and code is ErrorCode.NONE
    if are_all:
        return codes
    for key, code in codes.items():
        await context.pace(PARTITION_COST)
        if code is ErrorCode.NONE:
            codes[key] = ErrorCode.OPERATION_NOT_ATTEMPTED
    return codes


def _error_of(image: MetadataImage, topic: str, partition: int) -> ErrorCode:
    if image.partition(topic, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


async def _results(
    context: Context,
    topics: tuple[AddPartitionsToTxnTopic, ...],
    code_of: Callable[[TopicPartition], ErrorCode],
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    return await nested(
        context.pace,
        PARTITION_COST,
        topics,
        lambda topic: topic.partitions,
        lambda topic, partition: AddPartitionsToTxnPartitionResult(
            partition_index=partition,
            partition_error_code=code_of(TopicPartition(topic.name, partition)),
        ),
        lambda topic, parts: AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=parts),
    )
