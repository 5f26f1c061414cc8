"""One request at a time for each server, and a pause after a failure."""

from __future__ import annotations

import pytest

from kcli.raft.connections import Connections
from kcli.raft.messages import Peer
from kcli.raft.requests import ProbeRequest
from rigs.raft import address_of

PEER = Peer(2, address_of(2))


def test_a_server_gets_one_request_at_a_time() -> None:
    connections = Connections(0.02)
    outgoing = connections.send(PEER, ProbeRequest())
    assert not connections.is_ready(2, 0.0) and not connections.is_idle and connections.is_ready(3, 0.0)
    with pytest.raises(AssertionError, match="one request at a time"):
        connections.send(PEER, ProbeRequest())
    assert connections.ended(outgoing.request_id) == outgoing
    assert connections.is_ready(2, 0.0) and connections.is_idle
    assert connections.ended(outgoing.request_id) is None, "a second response to the same request"


def test_a_failure_is_followed_by_a_pause() -> None:
    connections = Connections(0.02)
    connections.pause(2, 5.0)
    assert connections.is_paused(2, 5.01) and not connections.is_ready(2, 5.01)
    assert connections.next_end_of_pause(5.01) == 5.02
    assert connections.is_ready(2, 5.02) and connections.next_end_of_pause(5.02) is None


def test_a_late_response_to_a_forgotten_request_does_not_count() -> None:
    connections = Connections(0.02)
    old = connections.send(PEER, ProbeRequest())
    connections.pause(3, 0.0)
    connections.forget()
    new = connections.send(PEER, ProbeRequest())
    assert connections.ended(old.request_id) is None
    assert connections.ended(new.request_id) == new
    assert connections.is_ready(3, 0.0)
