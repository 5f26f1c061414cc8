"""Facts about the present request that a connection and its handlers record for the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""The software name and version of a client that sends neither of them. Kafka uses the same words."""


class Sent(Protocol):
    """Receives the time that the connection needed to send a large answer."""

    def sent(self, seconds: float) -> None: ...


@dataclass(slots=True)
class RequestFacts:
    """The facts about the present request of one connection. `has_news` is True if a fact was recorded after the
    metrics last read the facts.

    `kind` is the name of the kind of the present request, such as FetchConsumer, if the metrics distinguish several
    kinds of requests of this API. `queued_seconds` is the time in the queue of requests (request_line.py).
    `throttled_seconds` is the time for which a quota mutes the client. `software` is the name and the version of the
    client (KIP-511). `answering` receives the time that the connection needs to send the next answer.
    """

    has_news: bool = False
    kind: str = ""
    queued_seconds: float = 0.0
    throttled_seconds: float = 0.0
    software: tuple[str, str] = UNKNOWN_SOFTWARE
    answering: Sent | None = None

    def is_of_kind(self, kind: str) -> None:
        self.kind = kind
        self.has_news = True

    def queued(self, seconds: float) -> None:
        self.queued_seconds = seconds
        self.has_news = True

    def throttled(self, seconds: float) -> None:
        self.throttled_seconds = seconds
        self.has_news = True
