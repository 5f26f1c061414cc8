"""Fetch (key 1, versions 4-18) on a controller: another node replicates the metadata log (KIP-595).

A broker listener has another handler (fetch.py). The leader of the quorum answers when it has new records, when its
high watermark has changed, or when max_wait_ms has passed. Version 17 adds directory ids. Version 18 adds the high
watermark that the other node already has (KIP-1166).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import InvalidRequestException, KafkaError
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.raft import requests
from kcli.server.handlers.shared.raft_requests import check_cluster_id
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import PARTITION, TOPIC_ID
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.raft_client_wire import FETCH_MAX_BYTES
from kcli.server.quorum.raft_server_wire import fetch_request, fetch_response
from kcli.server.quorum.view import QuorumView
from kcli.server.requests.context import RequestContext

TOPIC_IDS_SINCE = 13


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader
    quorum: QuorumView
    raft: Quorum


Context = RequestContext[Ports]


async def handle(context: Context, request: FetchRequest) -> FetchResponse:
    if context.throttle is not None:
        context.throttle.exempt()  # a delayed node would delay the commits of the quorum
    check_cluster_id(context.ports.loader, request.cluster_id)
    _check_partition(context, request)
    ports = context.ports
    max_bytes = min(request.max_bytes, FETCH_MAX_BYTES)
    answer = await ports.raft.driver.ask(fetch_request(request), max_bytes)
    assert isinstance(answer.response, requests.FetchResponse)
    return fetch_response(answer.response, answer.records, ports.quorum.log_start_offset, context.listener)


def _check_partition(context: Context, request: FetchRequest) -> None:
    """Raises InvalidRequestException if the request has any partition except the metadata partition."""
    with_ids = context.api_version >= TOPIC_IDS_SINCE
    topics = [
        (topic.topic_id if with_ids else topic.topic, [part.partition for part in topic.partitions])
        for topic in request.topics
    ]
    if topics != [(TOPIC_ID if with_ids else CLUSTER_METADATA_TOPIC, [PARTITION])]:
        raise InvalidRequestException(f"A controller serves Fetch of {CLUSTER_METADATA_TOPIC}-0 and no other")


async def error_response(
    _context: Context, _request: FetchRequest | None, error: KafkaError
) -> FetchResponse:
    return FetchResponse(error_code=error.code)
