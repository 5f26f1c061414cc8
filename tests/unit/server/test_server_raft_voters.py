"""AddRaftVoter and RemoveRaftVoter on a quorum of one: refused, and in which words."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.errors import (
    DuplicateVoterException,
    ErrorCode,
    InconsistentClusterIdException,
    InvalidRequestException,
    KafkaError,
    VoterNotFoundException,
)
from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kcli.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.server.handlers import add_raft_voter, remove_raft_voter

ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def context() -> Any:
    quorum = SimpleNamespace(voters=VoterSet((Voter(ReplicaKey(1, ONE), {}),)))
    metadata = SimpleNamespace(cluster_id="c")
    return SimpleNamespace(ports=SimpleNamespace(metadata=metadata, node_id=1, quorum=quorum))


def test_an_unknown_voter_cannot_be_removed(context: Any) -> None:
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=OTHER)
    with pytest.raises(VoterNotFoundException) as refused:
        remove_raft_voter.handle(context, request)
    assert refused.value.message == (
        "Cannot remove voter ReplicaKey(id=1, directoryId=AAAAAAAAAAAAAAAAAAAAAg) from the set of voters "
        "[ReplicaKey(id=1, directoryId=AAAAAAAAAAAAAAAAAAAAAQ)]"
    )
    response = remove_raft_voter.error_response(context, request, refused.value)
    assert (response.error_code, response.error_message) == (
        ErrorCode.VOTER_NOT_FOUND,
        refused.value.message,
    )


def test_the_only_voter_cannot_be_removed(context: Any) -> None:
    request = RemoveRaftVoterRequest(cluster_id="c", voter_id=1, voter_directory_id=ONE)
    with pytest.raises(InvalidRequestException, match="it is the only one"):
        remove_raft_voter.handle(context, request)


@pytest.mark.parametrize(("voter", "error"), [(1, DuplicateVoterException), (2, InvalidRequestException)])
def test_no_voter_is_added(context: Any, voter: int, error: type[KafkaError]) -> None:
    request = AddRaftVoterRequest(cluster_id="c", voter_id=voter, voter_directory_id=OTHER)
    with pytest.raises(error) as refused:
        add_raft_voter.handle(context, request)
    assert add_raft_voter.error_response(context, request, refused.value).error_code is error.code


def test_the_id_of_another_cluster_is_refused(context: Any) -> None:
    message = 'The given id "x" doesn\'t match the cluster id "c"'
    with pytest.raises(InconsistentClusterIdException, match=message):
        add_raft_voter.handle(context, AddRaftVoterRequest(cluster_id="x"))
    with pytest.raises(InconsistentClusterIdException, match=message):
        remove_raft_voter.handle(context, RemoveRaftVoterRequest(cluster_id="x"))
