"""TxnOffsetCommit (key 28, versions 0-5): stores offsets of a group as part of a transaction (KIP-98).

The group checks the member (KIP-447). The group's partition of `__consumer_offsets` must belong to the transaction.
From version 5 on, this request adds the partition to the transaction (KIP-890). The offsets are written to the
partition as records of the producer's transaction. They take effect when the commit marker of the transaction is
written.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.runtime import Producer
from kcli.errors import ErrorCode, KafkaError
from kcli.model.pace import nested
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kcli.server.coordinators.group_ids import PARTITION_COST, require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.transaction_verification import TransactionalClient, TransactionVerifier
from kcli.server.handlers.offset_commit import commit_allowed
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import READ_GROUP, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.context import REFUSAL_COST, RequestContext

_LOADING_FROM = 2
_ABORTABLE_FROM = 4
_TV2_FROM = 5
_FIRST_SEQUENCE = 0
"""The base sequence of a batch of transactional offsets, as in Kafka. The log does not check the sequences of batches
that a coordinator writes."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator
    loader: MetadataLoader
    verifier: TransactionVerifier


Context = RequestContext[Ports]


async def handle(context: Context, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Stores the offsets. First refuses partitions that do not exist, so that the group and the transaction get only
    existing partitions.
    """
    context.rights.require_on(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    context.rights.require_on(READ_GROUP, request.group_id)
    commit = await _as_commit(context, request)
    response = await commit_allowed(context, commit, lambda known: _commit(context, request, known))
    topics = await nested(
        context.pace,
        PARTITION_COST,
        response.topics,
        lambda topic: topic.partitions,
        lambda _, part: TxnOffsetCommitResponsePartition(
            partition_index=part.partition_index, error_code=_known(context, part.error_code)
        ),
        lambda topic, parts: TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts),
    )
    return TxnOffsetCommitResponse(topics=topics)


async def error_response(
    context: Context, request: TxnOffsetCommitRequest, error: KafkaError
) -> TxnOffsetCommitResponse:
    """The response with the error in every partition, because the response has no top-level error field."""
    code = _known(context, error.code)
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: TxnOffsetCommitResponsePartition(
            partition_index=part.partition_index, error_code=code
        ),
        lambda topic, parts: TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts),
    )
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(
    context: Context, request: TxnOffsetCommitRequest, known: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Verifies the transaction, and stores the offsets of existing partitions."""
    require_group_id(request.group_id)
    runner = context.ports.groups.shards.runner(request.group_id)
    verdicts = await context.ports.verifier.verify(
        TransactionalClient(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            adds=context.api_version >= _TV2_FROM,
            knows_abortable=context.api_version >= _ABORTABLE_FROM,
            knows_coordinators=True,
        ),
        [(runner.partition, _FIRST_SEQUENCE)],
        context.pace,
    )
    (verdict,) = verdicts.values()
    if isinstance(verdict, KafkaError):
        raise verdict
    producer = Producer(request.producer_id, request.producer_epoch)
    return await context.ports.groups.shards.runner(known.group_id).call(
        lambda shard, token, now_ms: shard.commit_offsets_in_transaction(known, producer, token, now_ms),
        verification=verdict,
    )


async def _as_commit(context: Context, request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    topics = await nested(
        context.pace,
        PARTITION_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: OffsetCommitRequestPartition(
            partition_index=part.partition_index,
            committed_offset=part.committed_offset,
            committed_leader_epoch=part.committed_leader_epoch,
            committed_metadata=part.committed_metadata,
        ),
        lambda topic, parts: OffsetCommitRequestTopic(name=topic.name, partitions=parts),
    )
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )


def _known(context: Context, code: ErrorCode) -> ErrorCode:
    """Returns the error code for the client. If clients of this version cannot handle the code, it is replaced by
    another code.
    """
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < _LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
