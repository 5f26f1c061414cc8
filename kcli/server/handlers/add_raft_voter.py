"""AddRaftVoter (key 80, version 0): adds a controller to the quorum (KIP-853). This quorum always has one voter."""

from __future__ import annotations

from kcli.errors import (
    DuplicateVoterException,
    InconsistentClusterIdException,
    InvalidRequestException,
    KafkaError,
)
from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import ALTER_CLUSTER, whole_request

ACCESS = whole_request(ALTER_CLUSTER)


def handle(context: NodeContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    ports = context.ports
    if request.cluster_id not in (None, ports.metadata.cluster_id):
        raise InconsistentClusterIdException(
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{ports.metadata.cluster_id}"'
        )
    if request.voter_id in ports.quorum.voters.ids:
        raise DuplicateVoterException(
            f"The voter id for node {request.voter_id} is already part of the set of voters."
        )
    raise InvalidRequestException(
        f"Cannot add voter {request.voter_id}: node {ports.node_id} is the whole quorum and takes no other voters."
    )


def error_response(
    _context: NodeContext, _request: AddRaftVoterRequest, error: KafkaError
) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
