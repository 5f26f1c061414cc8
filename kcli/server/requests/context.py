"""What a handler knows about a request besides its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.security.principal import ANONYMOUS_SESSION, Session

if TYPE_CHECKING:
    from kcli.protocol.wire.api import ApiKey
    from kcli.server.broker import Broker
    from kcli.server.requests.quotas import RequestThrottle


@dataclass(slots=True)
class RequestContext:
    """One request as it came in. `listener` is the listener's name; `peer_host` the client's address as text.

    `session` is that of the connection when the request came. `throttle` is set if any client has a quota.
    """

    broker: Broker
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: str
    peer_host: str
    session: Session = ANONYMOUS_SESSION
    throttle: RequestThrottle | None = None
