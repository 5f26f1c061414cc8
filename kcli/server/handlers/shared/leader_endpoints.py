"""The endpoints of the leaders in a response to Produce or Fetch (KIP-951)."""

from __future__ import annotations

from typing import NamedTuple

from kcli.metadata.image import MetadataImage


class LeaderEndpoint(NamedTuple):
    """The address of one broker on one listener, and the broker's rack."""

    node_id: int
    host: str
    port: int
    rack: str | None


def leader_endpoints(metadata: MetadataImage, leaders: set[int], listener: str) -> list[LeaderEndpoint]:
    """The live brokers among `leaders` that have the listener, in the order of their ids."""
    endpoints = []
    for node_id in sorted(leaders):
        broker = metadata.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoints.get(listener)
        if broker is not None and endpoint is not None and not broker.fenced:
            endpoints.append(LeaderEndpoint(node_id, endpoint.host, endpoint.port, broker.rack))
    return endpoints
