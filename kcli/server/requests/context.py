"""What a handler knows about a request besides its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.protocol.wire.api import ApiKey
from kcli.security.principal import ANONYMOUS_SESSION, Session
from kcli.server.requests.quotas import RequestThrottle

P = TypeVar("P", covariant=True)


@dataclass(slots=True)
class RequestContext(Generic[P]):
    """One request as it came in. `listener` is the listener's name; `peer_host` the client's address as text.

    `ports` are what the handler may reach of the node. `session` is that of the connection when the
    request came. `throttle` is set if any client has a quota.
    """

    ports: P
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: str
    peer_host: str
    session: Session = ANONYMOUS_SESSION
    throttle: RequestThrottle | None = None
