"""RemoveRaftVoter (key 81, version 0): removes a controller from the quorum (KIP-853).

This quorum has one voter. This voter cannot be removed, and other ids are not voters. So every request is refused.
"""

from __future__ import annotations

from kcli.errors import (
    InconsistentClusterIdException,
    InvalidRequestException,
    KafkaError,
    VoterNotFoundException,
)
from kcli.model.ids import ZERO_ID, BrokerId
from kcli.model.uuids import uuid_to_text
from kcli.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kcli.raft.voters import ReplicaKey
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import ALTER_CLUSTER, whole_request

ACCESS = whole_request(ALTER_CLUSTER)


def handle(context: NodeContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    ports = context.ports
    if request.cluster_id not in (None, ports.metadata.cluster_id):
        raise InconsistentClusterIdException(
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{ports.metadata.cluster_id}"'
        )
    voters = ports.quorum.voters
    key = ReplicaKey(BrokerId(request.voter_id), request.voter_directory_id or ZERO_ID)
    if all(voter.key != key for voter in voters.voters):
        shown = ", ".join(_shown(voter.key) for voter in voters.voters)
        raise VoterNotFoundException(f"Cannot remove voter {_shown(key)} from the set of voters [{shown}]")
    raise InvalidRequestException(
        f"Cannot remove voter {_shown(key)}: it is the only one. Add another controller first."
    )


def error_response(
    _context: NodeContext, _request: RemoveRaftVoterRequest, error: KafkaError
) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


def _shown(key: ReplicaKey) -> str:
    return f"ReplicaKey(id={key.id}, directoryId={uuid_to_text(key.directory_id)})"
