"""The context of a request: the values that a handler gets besides the message."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from kcli.protocol.wire.api import API, ApiKey
from kcli.runtime.turns import Turn
from kcli.security.authorizer import ALLOW_ALL, Asker, AuditedLines, Authorizer
from kcli.security.principal import ANONYMOUS_SESSION, Session
from kcli.server.network.request_facts import RequestFacts
from kcli.server.requests.quotas import RequestThrottle
from kcli.server.requests.rights import EVERY_NAME, Need, Rights

if TYPE_CHECKING:
    from kcli.server.requests.request_trace import RequestTrace

P = TypeVar("P", covariant=True)

REFUSAL_COST = 2
"""The cost of a part of a refused request that gets its error, in microseconds."""


@dataclass(slots=True)
class RequestContext(Generic[P]):
    """The context of one request. `listener` is the name of its listener, and `peer_host` is the address of its client
    as text.

    `ports` are the parts of the node that the handler may use. `session` is the session of the connection when the
    request was received. `throttle` is set if any client has a quota. `is_forwarded` is True if a broker has sent the
    client's request in an Envelope. `authorizer` decides which operations the client may do. `facts` are the
    connection's facts for the metrics. `trace` is set if the broker makes spans of requests.
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
    is_forwarded: bool = False
    authorizer: Authorizer = ALLOW_ALL
    trace: RequestTrace | None = None
    facts: RequestFacts = field(default_factory=RequestFacts)
    pace: Turn = field(default_factory=Turn)
    """Lets other clients be served while the request has long work: `await context.pace(cost)`."""
    only_waits: bool = False
    """A handler sets this attribute before it suspends, if its work is done and it only waits for an event, such as
    the commit of appended records. It must not read the bytes of the request afterwards. The next Produce request of
    the connection may then be served, and the wait ends if the client disconnects."""
    on_read: Callable[[], None] | None = None
    """Called when the handler no longer reads the bytes of the request, if it has suspended before."""
    asker: Asker | None = field(default=None, init=False)
    """The facts about the client that the authorizer gets. This object is made when a handler first checks a
    permission."""

    def wait_only(self) -> None:
        """Sets `only_waits`, and gives back the buffer of the request. A client chooses how long a commit may take, so
        a request must not keep a large buffer meanwhile."""
        self.only_waits = True
        if self.on_read is not None:
            self.on_read()

    @property
    def rights(self) -> Rights:
        """The permissions of the client of this request."""
        if self.asker is None:
            audited = None if self.authorizer.is_open else AuditedLines()
            self.asker = Asker(self.session.principal, self.peer_host, API[self.api_key].name, audited)
        return Rights(self.authorizer, self.asker)

    async def allowed(self, need: Need, names: Iterable[str], *, traced: bool = False) -> Container[str]:
        """Returns the names on which the client may do the operation. Checks each name once."""
        return (
            EVERY_NAME
            if self.authorizer.is_open is True
            else await self.rights.checked(need, names, self.pace, traced=traced)
        )
