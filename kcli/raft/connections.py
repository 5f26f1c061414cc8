"""The requests that wait for a response, at most one for each server. After a failure, a server gets no request for a
short time."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.ids import BrokerId
from kcli.raft.messages import Outgoing, Peer
from kcli.raft.requests import RaftRequest


@dataclass(slots=True)
class Connections:
    """The requests in flight, by server. `backoff_s` is the pause after a failed request to a server. As in Kafka, the
    pause does not grow."""

    backoff_s: float
    _in_flight: dict[BrokerId, Outgoing] = field(default_factory=dict)
    _paused_until: dict[BrokerId, float] = field(default_factory=dict)
    _last_id: int = 0

    def send(self, peer: Peer, request: RaftRequest) -> Outgoing:
        assert peer.id not in self._in_flight, "a server gets one request at a time"
        self._last_id += 1
        outgoing = Outgoing(self._last_id, peer, request)
        self._in_flight[peer.id] = outgoing
        return outgoing

    def ended(self, request_id: int) -> Outgoing | None:
        """Removes and returns the request that has ended, or returns None if `forget` has already removed the
        request."""
        for peer_id, outgoing in self._in_flight.items():
            if outgoing.request_id == request_id:
                del self._in_flight[peer_id]
                return outgoing
        return None

    def pause(self, peer_id: BrokerId, now: float) -> None:
        self._paused_until[peer_id] = now + self.backoff_s

    def forget(self) -> None:
        """Removes all requests, because the state of the node has changed. Their late responses will be ignored."""
        self._in_flight.clear()
        self._paused_until.clear()

    @property
    def is_idle(self) -> bool:
        return not self._in_flight

    def is_paused(self, peer_id: BrokerId, now: float) -> bool:
        return self._paused_until.get(peer_id, now) > now

    def is_ready(self, peer_id: BrokerId, now: float) -> bool:
        return peer_id not in self._in_flight and not self.is_paused(peer_id, now)

    def next_end_of_pause(self, now: float) -> float | None:
        return min((until for until in self._paused_until.values() if until > now), default=None)
