"""AddOffsetsToTxn (key 25, versions 0-4): adds a group's partition of `__consumer_offsets` to a transaction (KIP-98).

Clients of the second transaction protocol (TV2) do not send this request, because their TxnOffsetCommit adds the
partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.transaction.state import TV0
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.internal_topics import GROUP_TOPIC
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.requests.access import READ_GROUP, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.context import RequestContext
from kcli.server.requests.fenced import fenced_code

_PRODUCER_FENCED_FROM = 2


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    context.rights.require_on(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    context.rights.require_on(READ_GROUP, request.group_id)
    number = context.ports.groups.shards.partition_of(request.group_id)
    code = await context.ports.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (TopicPartition(GROUP_TOPIC.name, number),),
        TV0,
    )
    return AddOffsetsToTxnResponse(error_code=fenced_code(context.api_version, _PRODUCER_FENCED_FROM, code))
