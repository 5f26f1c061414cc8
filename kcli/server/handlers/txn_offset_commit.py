"""TxnOffsetCommit (key 28, versions 0-5): stores offsets of a group as part of a transaction (KIP-98).

The group checks the member (KIP-447). The group's partition of `__consumer_offsets` must belong to the transaction.
From version 5 on, this request adds the partition to the transaction (KIP-890). The offsets are written to the
partition as records of the producer's transaction. They take effect when the commit marker of the transaction is
written.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.coordinator.runtime import Producer
from kcli.errors import ErrorCode, KafkaError
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
from kcli.server.coordinators.group_ids import require_group_id
from kcli.server.coordinators.transaction_verification import TransactionalClient, VerificationResults
from kcli.server.handlers.offset_commit import PARTITIONS_PER_TURN, commit_allowed
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns

_LOADING_FROM = 2
_ABORTABLE_FROM = 4
_TV2_FROM = 5
_FIRST_SEQUENCE = 0
"""The base sequence of a batch of transactional offsets, as in Kafka. The log does not check the sequences of batches
that a coordinator writes."""


def handle(
    context: BrokerContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Stores the offsets. First refuses partitions that do not exist, so that the group and the transaction get only
    existing partitions.
    """
    context.rights.require_on(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    context.rights.require_on(READ_GROUP, request.group_id)
    asked = run_in_turns(_as_commit(request), PARTITIONS_PER_TURN)
    committed = then(
        asked,
        lambda commit: commit_allowed(context, commit, lambda known: _verify(context, request, known)),
    )
    return then(committed, lambda response: run_in_turns(_lowered(context, response), PARTITIONS_PER_TURN))


def _verify(
    context: BrokerContext, request: TxnOffsetCommitRequest, known: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    require_group_id(request.group_id)
    runner = context.ports.groups.shards.runner(request.group_id)
    verdicts = context.ports.verifier.verify(
        TransactionalClient(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            adds=context.api_version >= _TV2_FROM,
            knows_abortable=context.api_version >= _ABORTABLE_FROM,
            knows_coordinators=True,
        ),
        [(runner.partition, _FIRST_SEQUENCE)],
    )
    return then(verdicts, lambda found: _commit(context, request, known, found))


def _commit(
    context: BrokerContext,
    request: TxnOffsetCommitRequest,
    known: OffsetCommitRequest,
    verdicts: VerificationResults,
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    (verdict,) = verdicts.values()
    if isinstance(verdict, KafkaError):
        raise verdict
    producer = Producer(request.producer_id, request.producer_epoch)
    return context.ports.groups.shards.runner(known.group_id).call(
        lambda shard, token, now_ms: shard.commit_offsets_in_transaction(known, producer, token, now_ms),
        verification=verdict,
    )


def error_response(
    context: BrokerContext, request: TxnOffsetCommitRequest, error: KafkaError
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """The response with the error in every partition, because the response has no top-level error field."""
    code = _known(context, error.code)
    topics = nested_steps(
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: TxnOffsetCommitResponsePartition(
            partition_index=part.partition_index, error_code=code
        ),
        lambda topic, parts: TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts),
    )
    return then(
        run_in_turns(topics, REFUSALS_PER_TURN), lambda failed: TxnOffsetCommitResponse(topics=failed)
    )


def _as_commit(request: TxnOffsetCommitRequest) -> Steps[OffsetCommitRequest]:
    topics = yield from nested_steps(
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


def _known(context: BrokerContext, code: ErrorCode) -> ErrorCode:
    """Returns the error code for the client. If clients of this version cannot handle the code, it is replaced by
    another code.
    """
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < _LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _lowered(context: BrokerContext, response: OffsetCommitResponse) -> Steps[TxnOffsetCommitResponse]:
    topics = yield from nested_steps(
        response.topics,
        lambda topic: topic.partitions,
        lambda _, part: TxnOffsetCommitResponsePartition(
            partition_index=part.partition_index, error_code=_known(context, part.error_code)
        ),
        lambda topic, parts: TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts),
    )
    return TxnOffsetCommitResponse(topics=topics)
