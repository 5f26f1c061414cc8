"""What a handler knows about a request besides its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.protocol.wire.api import ApiKey
from kcli.server.requests.quotas import RequestThrottle

ANONYMOUS = "User:ANONYMOUS"
"""The principal of every connection on a listener without authentication."""

P = TypeVar("P", covariant=True)


@dataclass(slots=True)
class RequestContext(Generic[P]):
    """One request as it came in. `listener` is the listener's name; `peer_host` the client's address as text.

    `ports` are what the handler may reach of the node. `throttle` is None unless any client has a quota.
    """

    ports: P
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: str
    peer_host: str
    principal: str = ANONYMOUS
    throttle: RequestThrottle | None = None
