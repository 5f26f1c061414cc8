"""UnregisterBroker (key 64, version 0): strikes a broker that is gone for good off the metadata (KIP-500)."""

from __future__ import annotations

from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(ALTER_CLUSTER)


async def handle(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    return await context.broker.quorum.unregister_broker(request, context)
