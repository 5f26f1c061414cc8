"""Vote (key 52, versions 0-2): another controller asks this voter for its vote (KIP-595).

Version 1 has directory ids and the leader's address (KIP-853), version 2 the pre-vote (KIP-996).
"""

from __future__ import annotations

from kcli.protocol.messages.vote import VoteRequest, VoteResponse
from kcli.raft import requests
from kcli.server.handlers.shared.raft_requests import Ports, ask_raft, check_cluster_id, check_partition
from kcli.server.quorum.raft_server_wire import vote_request, vote_response
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: VoteRequest) -> VoteResponse:
    check_cluster_id(context.ports.loader, request.cluster_id)
    check_partition(request.topics)
    response = await ask_raft(context.ports.raft, vote_request(request), requests.VoteResponse)
    return vote_response(response, context.listener)
