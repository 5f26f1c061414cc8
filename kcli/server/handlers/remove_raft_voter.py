"""RemoveRaftVoter (key 81, version 0): an operator removes a controller from the quorum (KIP-853).

The leader answers when the new set of voters is committed. If the leader has removed itself, it then gives up the
leadership.
"""

from __future__ import annotations

from kcli.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kcli.raft.requests import VoterChangeResponse
from kcli.server.handlers.shared.raft_requests import Ports, ask_raft, change_message, check_cluster_id
from kcli.server.quorum.raft_server_wire import remove_voter_request
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    check_cluster_id(context.ports.loader, request.cluster_id)
    response = await ask_raft(context.ports.raft, remove_voter_request(request), VoterChangeResponse)
    return RemoveRaftVoterResponse(error_code=response.error, error_message=change_message(response))
