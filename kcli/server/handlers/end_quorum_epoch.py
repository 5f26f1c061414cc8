"""EndQuorumEpoch (key 54, versions 0-1): a leader informs the voters before it stops (KIP-595, KIP-853)."""

from __future__ import annotations

from kcli.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from kcli.raft.requests import EndEpochResponse
from kcli.server.handlers.shared.raft_requests import Ports, ask_raft, check_cluster_id, check_partition
from kcli.server.quorum.raft_server_wire import end_epoch_request, end_epoch_response
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    check_cluster_id(context.ports.loader, request.cluster_id)
    check_partition(request.topics)
    response = await ask_raft(context.ports.raft, end_epoch_request(request), EndEpochResponse)
    return end_epoch_response(response, context.listener)
