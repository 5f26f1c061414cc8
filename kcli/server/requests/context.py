"""What a handler is told about a request besides its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.protocol.wire.api import ApiKey
    from kcli.server.broker import Broker
    from kcli.server.requests.quotas import RequestThrottle

ANONYMOUS = "User:ANONYMOUS"
"""The principal of every connection on a listener without authentication."""


@dataclass(slots=True)
class RequestContext:
    """One request as it came in. `listener` is the listener's name; `peer_host` the client's address as text.

    `throttle` is there where any client has a quota.
    """

    broker: Broker
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: str
    peer_host: str
    principal: str = ANONYMOUS
    throttle: RequestThrottle | None = None
