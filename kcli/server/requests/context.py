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

_EVERY_RIGHT = Rights(ALLOW_ALL, Asker(ANONYMOUS_SESSION.principal, "", ""))
"""The permissions without an authorizer. They do not depend on the client, so all requests share them."""


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
    """Whether the handler has called `wait_only`."""
    on_wait: Callable[[], None] | None = None
    """Called by `wait_only`, if the handler has suspended before."""
    asker: Asker | None = field(default=None, init=False)
    """The facts about the client that the authorizer gets. This object is made when a handler first checks a
    permission."""

    def wait_only(self) -> None:
        """Notes that the work of the handler is done, and that it only waits for an event, such as the commit of
        appended records. The handler must not read the bytes of the request afterwards.

        The buffer of the request is given back, because a client chooses how long a commit may take. The next Produce
        request of the connection may then be served, and the wait ends if the client disconnects."""
        self.only_waits = True
        if self.on_wait is not None:
            on_wait, self.on_wait = self.on_wait, None  # the error of a cancelled wait refers to this context
            on_wait()

    @property
    def rights(self) -> Rights:
        """The permissions of the client of this request."""
        if self.authorizer is ALLOW_ALL:
            return _EVERY_RIGHT
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
