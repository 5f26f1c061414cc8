"""AddRaftVoter (key 80, version 0): a controller joins the quorum (KIP-853). This quorum has one voter and keeps it."""

from __future__ import annotations

from kcli.errors import DuplicateVoterException, ErrorCode, InvalidRequestException, KafkaError
from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(ALTER_CLUSTER)


def handle(context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    broker = context.broker
    if request.cluster_id not in (None, broker.cluster_id):
        return AddRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    if request.voter_id in broker.quorum.raft.voters.ids:
        raise DuplicateVoterException(
            f"The voter id for node {request.voter_id} is already part of the set of voters."
        )
    raise InvalidRequestException(
        f"Cannot add voter {request.voter_id}: node {broker.node_id} is the whole quorum and takes no other voters."
    )


def error_response(
    _context: RequestContext, _request: AddRaftVoterRequest, error: KafkaError
) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)
