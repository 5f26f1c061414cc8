"""BeginQuorumEpoch (key 53, versions 0-1): a new leader reports itself to the voters (KIP-595, KIP-853)."""

from __future__ import annotations

from kcli.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kcli.raft.requests import BeginEpochResponse
from kcli.server.handlers.shared.raft_requests import Ports, ask_raft, check_cluster_id, check_partition
from kcli.server.quorum.raft_server_wire import begin_epoch_request, begin_epoch_response
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: BeginQuorumEpochRequest
) -> BeginQuorumEpochResponse:
    check_cluster_id(context.ports.loader, request.cluster_id)
    check_partition(request.topics)
    response = await ask_raft(context.ports.raft, begin_epoch_request(request), BeginEpochResponse)
    return begin_epoch_response(response, context.listener)
