"""UpdateRaftVoter (key 82, version 0): a voter reports its addresses and its range of kraft.version (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import InconsistentClusterIdException
from kcli.model.addresses import Address
from kcli.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from kcli.raft.requests import VoterChangeResponse
from kcli.server.handlers.shared.raft_requests import ask_raft, check_cluster_id
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.raft_server_wire import update_voter_request, update_voter_response
from kcli.server.quorum.view import QuorumView
from kcli.server.requests.context import RequestContext


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader
    quorum: QuorumView
    raft: Quorum


async def handle(context: RequestContext[Ports], request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    try:
        check_cluster_id(context.ports.loader, request.cluster_id)
    except InconsistentClusterIdException as error:
        # As in Kafka, a voter of another cluster still learns the leader.
        quorum = context.ports.quorum
        address = quorum.leader_address or Address("", 0)
        leader = CurrentLeader(
            leader_id=quorum.leader_id, leader_epoch=quorum.epoch, host=address.host, port=address.port
        )
        return UpdateRaftVoterResponse(error_code=error.code, current_leader=leader)
    response = await ask_raft(context.ports.raft, update_voter_request(request), VoterChangeResponse)
    return update_voter_response(response, context.listener)
