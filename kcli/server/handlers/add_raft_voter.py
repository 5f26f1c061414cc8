"""AddRaftVoter (key 80, version 0): an operator adds a controller to the quorum (KIP-853).

The leader asks the new controller for its range of kraft.version, and answers when the new set of voters is committed.
"""

from __future__ import annotations

from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kcli.raft.requests import VoterChangeResponse
from kcli.server.handlers.shared.raft_requests import Ports, ask_raft, change_message, check_cluster_id
from kcli.server.quorum.raft_server_wire import add_voter_request
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    check_cluster_id(context.ports.loader, request.cluster_id)
    response = await ask_raft(context.ports.raft, add_voter_request(request), VoterChangeResponse)
    return AddRaftVoterResponse(error_code=response.error, error_message=change_message(response))
