"""The requests of a fetcher on the wire: Fetch 13-18 and ListOffsets 7-10.

The finalized metadata.version, and not the ApiVersions response of the leader, decides which versions a fetcher uses.
So a rolling upgrade changes the versions only when the upgrade is finalized.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from kcli.client.records.fetch import FetchLimits, fetch_request
from kcli.client.records.fetch_plan import PlannedFetch
from kcli.config.broker import BrokerConfig
from kcli.config.features import metadata_version_of_release
from kcli.errors import ErrorCode, ProtocolError
from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.fetch import FetchResponse, ReplicaState
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import decode_response, encode_request
from kcli.protocol.wire.fetch_response import decode_fetch_response

_REPLICA_STATE_FROM = 15
_FETCH_VERSIONS = {"4.1-IV1": 18, "3.9-IV0": 17, "3.7-IV4": 16, "3.5-IV1": 15, "3.5-IV0": 14}
_FETCH_OLDEST = 13
_LIST_OFFSETS_VERSIONS = {"4.0-IV3": 10, "3.9-IV0": 9, "3.5-IV0": 8}
_LIST_OFFSETS_OLDEST = 7


def fetch_version(metadata_version: int) -> int:
    """The version of Fetch between brokers at this level of metadata.version."""
    return _version(metadata_version, _FETCH_VERSIONS, _FETCH_OLDEST)


def list_offsets_version(metadata_version: int) -> int:
    """The version of ListOffsets between brokers at this level of metadata.version."""
    return _version(metadata_version, _LIST_OFFSETS_VERSIONS, _LIST_OFFSETS_OLDEST)


def _version(metadata_version: int, versions: Mapping[str, int], oldest: int) -> int:
    for name, version in versions.items():
        if metadata_version >= metadata_version_of_release(name).level:
            return version
    return oldest


def limits_of(config: BrokerConfig) -> FetchLimits:
    """The limits of each Fetch request."""
    return FetchLimits(
        max_wait_ms=config.integer("replica.fetch.wait.max.ms"),
        min_bytes=config.integer("replica.fetch.min.bytes"),
        max_bytes=config.integer("replica.fetch.response.max.bytes"),
        partition_max_bytes=config.integer("replica.fetch.max.bytes"),
    )


@dataclass(frozen=True, slots=True)
class Sender:
    """The follower that sends a request, and the version of the request."""

    node_id: BrokerId
    broker_epoch: int
    client_id: str
    version: int


def encode_fetch(planned: PlannedFetch, limits: FetchLimits, sender: Sender, correlation_id: int) -> bytes:
    """The frame of a Fetch request."""
    request = fetch_request(planned, limits)
    if sender.version >= _REPLICA_STATE_FROM:
        replica_state = ReplicaState(replica_id=sender.node_id, replica_epoch=sender.broker_epoch)
        request = replace(request, replica_state=replica_state)
    else:
        request = replace(request, replica_id=sender.node_id)
    return encode_request(request, ApiKey.FETCH, sender.version, correlation_id, sender.client_id)


def decode_fetch(frame: memoryview, version: int, correlation_id: int) -> FetchResponse:
    """The response to a Fetch request. Raises ProtocolError."""
    answered_id, response = decode_fetch_response(version, frame)
    _check_correlation(answered_id, correlation_id)
    return response


def encode_list_offsets(
    partitions: Iterable[tuple[TopicPartition, LeaderEpoch]],
    timestamp: int,
    sender: Sender,
    correlation_id: int,
) -> bytes:
    """The frame of a ListOffsets request for the start or the end of the leader's logs."""
    request = ListOffsetsRequest(
        replica_id=sender.node_id,
        topics=tuple(
            ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=key.partition, current_leader_epoch=epoch, timestamp=timestamp
                    )
                    for key, epoch in of_topic
                ),
            )
            for name, of_topic in groupby(partitions, lambda entry: entry[0].topic)
        ),
    )
    return encode_request(request, ApiKey.LIST_OFFSETS, sender.version, correlation_id, sender.client_id)


def decode_list_offsets(
    frame: memoryview, version: int, correlation_id: int
) -> dict[TopicPartition, tuple[ErrorCode, Offset]]:
    """The error and the offset of each partition. Raises ProtocolError."""
    answered_id, response = decode_response(ApiKey.LIST_OFFSETS, version, bytes(frame))
    _check_correlation(answered_id, correlation_id)
    assert isinstance(response, ListOffsetsResponse), "the decoder returns the response of the API"
    return {
        TopicPartition(topic.name, partition.partition_index): (
            partition.error_code,
            Offset(partition.offset),
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def _check_correlation(answered_id: int, expected: int) -> None:
    if answered_id != expected:
        raise ProtocolError(f"A leader answered request {answered_id}, expected {expected}")
