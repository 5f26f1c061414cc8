"""Requests that a broker forwards to the active controller in an Envelope (KIP-590).

If the active controller runs in another process, the dispatch sends the frame of such a request to that process, which
runs the handler. If the active controller runs in this process, the handler runs here. So a handler always runs in the
process of the active controller.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Protocol

from kcli.security.principal import Principal, Session
from kcli.server.network.request_facts import RequestFacts


class Caller(Protocol):
    """The sender of a request: a connection, or the client of a forwarded request."""

    listener: str
    peer_host: str
    session: Session
    facts: RequestFacts
    is_forwarded: bool

    def mute(self, seconds: float) -> None:
        """Stops serving requests of the client for some seconds, because a quota is exceeded (KIP-219)."""
        ...


@dataclass(slots=True)
class ForwardedCaller:
    """The client of a request that a broker has forwarded. The broker mutes the client. The controller does not mute
    anything."""

    listener: str
    peer_host: str
    session: Session
    is_forwarded: bool = True
    facts: RequestFacts = field(default_factory=RequestFacts)

    def mute(self, seconds: float) -> None:
        """Does nothing, because the broker reads the throttle time from the response."""


class Forwarder(Protocol):
    """Sends the frames of clients to the active controller in another process."""

    @property
    def is_local(self) -> bool:
        """Whether the active controller runs in this process, so that no request is forwarded."""
        ...

    def forward(self, frame: bytes, principal: Principal, host: str) -> Awaitable[bytes]:
        """Returns the response frame, without size prefix. Raises KafkaError if the controller cannot be reached or
        refuses the Envelope."""
        ...
