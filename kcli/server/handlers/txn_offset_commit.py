"""TxnOffsetCommit (key 28, versions 0-5): stores offsets of a group as part of a transaction (KIP-98).

The group checks the member (KIP-447). The transaction must contain the group's partition, and from version 5 on the
partition is added here (KIP-890). The producer writes the offsets into `__consumer_offsets`, and they count when its
commit marker is written.
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
from kcli.server.handlers.offset_commit import commit_existing
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID, per_resource
from kcli.server.requests.answers import then

ACCESS = per_resource(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC)

_LOADING_FROM = 2
_ABORTABLE_FROM = 4
_TV2_FROM = 5
_FIRST_SEQUENCE = 0
"""The base sequence of Kafka's batches of transactional offsets: sequences of coordinators are not checked."""


def handle(
    context: BrokerContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    require_group_id(request.group_id)
    runner = context.ports.groups.runner(request.group_id)
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
    return then(verdicts, lambda found: then(_commit(context, request, found), _lowered))


def _commit(
    context: BrokerContext, request: TxnOffsetCommitRequest, verdicts: VerificationResults
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    (verdict,) = verdicts.values()
    if isinstance(verdict, KafkaError):
        raise verdict
    producer = Producer(request.producer_id, request.producer_epoch)
    return commit_existing(
        context,
        _as_commit(request),
        lambda known: context.ports.groups.call(
            known.group_id,
            lambda shard, token, now_ms: shard.commit_offsets_in_transaction(known, producer, token, now_ms),
            verification=verdict,
        ),
    )


def error_response(
    context: BrokerContext, request: TxnOffsetCommitRequest, error: KafkaError
) -> TxnOffsetCommitResponse:
    """The response with the error in every partition, because it has no other field for it."""
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < _LOADING_FROM:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _as_commit(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        committed_metadata=each.committed_metadata,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _lowered(response: OffsetCommitResponse) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=each.error_code
                    )
                    for each in topic.partitions
                ),
            )
            for topic in response.topics
        )
    )
