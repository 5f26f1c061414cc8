"""Checks the requests of quorum members, and passes them to the raft node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kcli.errors import (
    ErrorCode,
    InconsistentClusterIdException,
    InvalidRequestException,
    error_for,
)
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.raft.requests import QuorumResponse, RaftRequest, VoterChangeResponse
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import PARTITION
from kcli.server.quorum.quorum import Quorum

R = TypeVar("R", bound=QuorumResponse)


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


class _Topic(Protocol):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[_Partition]: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a handler that passes the requests of quorum members to the raft node."""

    loader: MetadataLoader
    raft: Quorum


def check_cluster_id(loader: MetadataLoader, cluster_id: str | None) -> None:
    """Raises InconsistentClusterIdException if the request has another cluster id. A request without a cluster id is
    accepted.
    """
    own = loader.image.cluster_id
    if cluster_id not in (None, own):
        raise InconsistentClusterIdException(
            f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'
        )


def check_partition(topics: Sequence[_Topic]) -> None:
    """Raises InvalidRequestException if the request has any partition except the metadata partition."""
    if not names_metadata_log(topics):
        raise InvalidRequestException(f"The quorum has the partition {CLUSTER_METADATA_TOPIC}-0 and no other")


def names_metadata_log(topics: Sequence[_Topic]) -> bool:
    """Whether the request names the metadata partition and no other partition."""
    return (
        len(topics) == 1
        and topics[0].topic_name == CLUSTER_METADATA_TOPIC
        and len(topics[0].partitions) == 1
        and topics[0].partitions[0].partition_index == PARTITION
    )


async def ask_raft(raft: Quorum, request: RaftRequest, kind: type[R]) -> R:
    """Returns the raft node's response. Raises BrokerNotAvailableException while the node stops."""
    response = (await raft.driver.ask(request)).response
    assert isinstance(response, kind)
    return response


def change_message(response: VoterChangeResponse) -> str | None:
    """Returns the error message for an operator who changes the voters: the raft node's message, or the default message
    of the error.
    """
    if response.error is ErrorCode.NONE or response.message is not None:
        return response.message
    return error_for(response.error).message
