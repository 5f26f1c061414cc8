"""AlterPartition (key 56, versions 2-3): a leader changes its ISR (KIP-497, KIP-903).

The rules are in controller/replicas.py.
"""

from __future__ import annotations

from kcli.controller.api import ALTER_PARTITION
from kcli.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: AlterPartitionRequest) -> AlterPartitionResponse:
    if not request.topics:
        return AlterPartitionResponse()  # as in Kafka, an empty request is not checked
    return await ask_controller(context, ALTER_PARTITION, request)
