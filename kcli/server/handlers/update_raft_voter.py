"""UpdateRaftVoter (key 82, version 0): a voter reports its addresses and its range of kraft.version (KIP-853)."""

from __future__ import annotations

from kcli.errors import InconsistentClusterIdException
from kcli.model.addresses import Address
from kcli.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from kcli.raft.requests import VoterChangeResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.raft_requests import ask_raft, check_cluster_id
from kcli.server.quorum.raft_server_wire import update_voter_request, update_voter_response


async def handle(context: NodeContext, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    try:
        check_cluster_id(context, request.cluster_id)
    except InconsistentClusterIdException as error:
        # As in Kafka, a voter of another cluster still learns the leader.
        quorum = context.ports.quorum
        address = quorum.leader_address or Address("", 0)
        leader = CurrentLeader(
            leader_id=quorum.leader_id, leader_epoch=quorum.epoch, host=address.host, port=address.port
        )
        return UpdateRaftVoterResponse(error_code=error.code, current_leader=leader)
    response = await ask_raft(context, update_voter_request(request), VoterChangeResponse)
    return update_voter_response(response, context.listener)
