"""AllocateProducerIds (key 67, version 0): a broker asks for a block of producer ids (KIP-730).

The rules are in controller/producer_ids.py.
"""

from __future__ import annotations

from kcli.controller.api import ALLOCATE_PRODUCER_IDS
from kcli.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    return await ask_controller(context, ALLOCATE_PRODUCER_IDS, request)
