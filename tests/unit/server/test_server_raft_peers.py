"""The connections to other members: one result for each request, and pauses between failed connections."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from kcli.client.connection import Connection
from kcli.errors import ErrorCode, NetworkException, UnsupportedVersionException
from kcli.model.addresses import Address
from kcli.protocol.messages import vote as vo
from kcli.protocol.wire.api import ApiKey
from kcli.raft.messages import Answered, Message, Outgoing, Peer, Unanswered, Unsupported
from kcli.raft.requests import EpochEnd, VoteRequest, VoteResponse
from kcli.raft.voters import ReplicaKey
from kcli.runtime.clock import SystemClock
from kcli.runtime.network import SystemNetwork
from kcli.server.quorum import raft_peers
from kcli.server.quorum.raft_peers import RaftPeers
from rigs.loops import on_a_loop, until

VOTE = VoteRequest(epoch=3, candidate=ReplicaKey(1), voter=None, last=EpochEnd(2, 5), pre_vote=True)
GRANTED = vo.VoteResponse(
    topics=(
        vo.ResponseTopicData(
            partitions=(vo.ResponsePartitionData(leader_id=-1, leader_epoch=3, vote_granted=True),)
        ),
    )
)
HOME, AWAY = Address("home", 1), Address("away", 2)


class Server:
    """Stands in for `Connection`: opens and answers as the test wants, and remembers both."""

    def __init__(self) -> None:
        self.opened: list[tuple[Address, str | None]] = []
        self.closed: list[Address] = []
        self.refuses = False
        self.delay_s = 0.0
        self.version = 2
        self.answer: Any = GRANTED

    async def open(
        self, _network: Any, address: Address, client_id: str | None, _timeout: float, _security: Any
    ) -> Any:
        self.opened.append((address, client_id))
        await asyncio.sleep(self.delay_s)
        if self.refuses:
            raise ConnectionRefusedError
        return Opened(self, address)


class Opened:
    is_closed = False
    is_stale = False

    def __init__(self, server: Server, address: Address) -> None:
        self._server, self._address = server, address

    def version_for(self, key: ApiKey, *, at_least: int = 0) -> int:
        if self._server.version < at_least:
            raise UnsupportedVersionException
        return self._server.version

    async def request(self, message: vo.VoteRequest, key: ApiKey, *, version: int, timeout: float) -> Any:
        assert (key, message.cluster_id) == (ApiKey.VOTE, "c")
        if isinstance(self._server.answer, Exception):
            raise self._server.answer
        return self._server.answer

    def retire(self) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True
        self._server.closed.append(self._address)


class PeersRig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout_s: float = 60.0) -> None:
        self.server = Server()
        monkeypatch.setattr(Connection, "open", self.server.open)
        self.results: list[Message] = []
        self.peers = RaftPeers(
            SystemNetwork(),
            node_id=7,
            cluster_id="c",
            listener="CONTROLLER",
            request_timeout_s=timeout_s,
            post=self.results.append,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.peers.stop()

    async def send(self, request_id: int, address: Address = HOME) -> Message:
        self.peers.send(Outgoing(request_id, Peer(2, address), VOTE))
        await until(lambda: len(self.results) == request_id)
        return self.results[-1]


@on_a_loop
async def test_an_answer_is_reported_and_the_connection_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PeersRig(monkeypatch) as rig:
        assert await rig.send(1) == Answered(1, VoteResponse(epoch=3, granted=True))
        await rig.send(2)
        assert rig.server.opened == [(HOME, "raft-client-7")]
    assert rig.server.closed == [HOME]


@on_a_loop
async def test_a_server_that_is_too_old_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PeersRig(monkeypatch) as rig:
        rig.server.version = 1
        assert await rig.send(1) == Unsupported(1)


@on_a_loop
async def test_a_refused_connection_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_peers, "RECONNECT_BACKOFF_S", 0.02)
    async with PeersRig(monkeypatch) as rig:
        rig.server.refuses = True
        began = SystemClock().monotonic()
        assert await rig.send(1) == Unanswered(1)
        rig.server.refuses = False
        assert isinstance(await rig.send(2), Answered)
        assert SystemClock().monotonic() - began >= 0.02


@on_a_loop
async def test_two_requests_that_need_a_connection_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new state of the raft node sends a request while one of the old state still waits for the connection."""
    async with PeersRig(monkeypatch) as rig:
        rig.server.delay_s = 0.02
        for request_id in (1, 2):
            rig.peers.send(Outgoing(request_id, Peer(2, HOME), VOTE))
        await until(lambda: len(rig.results) == 2)
        assert len(rig.server.opened) == 1
    assert rig.server.closed == [HOME]


@on_a_loop
async def test_a_connection_to_an_address_that_was_replaced_meanwhile_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with PeersRig(monkeypatch) as rig:
        rig.server.delay_s = 0.02
        for request_id, address in ((1, HOME), (2, AWAY)):
            rig.peers.send(Outgoing(request_id, Peer(2, address), VOTE))
            await asyncio.sleep(0.005)
        await until(lambda: len(rig.results) == 2)
        assert rig.server.closed == [HOME]
    assert rig.server.closed == [HOME, AWAY]


@on_a_loop
async def test_the_log_says_once_why_a_server_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kcli.server.RaftManager")
    monkeypatch.setattr(raft_peers, "RECONNECT_BACKOFF_S", 0.001)
    async with PeersRig(monkeypatch) as rig:
        rig.server.refuses = True
        await rig.send(1)
        await rig.send(2)
        rig.server.refuses = False
        await rig.send(3)
        await rig.send(4)
        rig.server.answer = vo.VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        await rig.send(5)
        await rig.send(6)
    assert caplog.messages == [
        "The server at home:1 does not answer: ConnectionRefusedError",
        "The server at home:1 answers again",
        "The server at home:1 refuses this node, because its cluster is not c",
    ]


@pytest.mark.parametrize("failure", [NetworkException("gone"), TimeoutError(), vo.VoteResponse()])
def test_a_request_without_a_valid_answer_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, failure: Any
) -> None:
    async def story() -> None:
        async with PeersRig(monkeypatch) as rig:
            rig.server.answer = failure
            assert await rig.send(1) == Unanswered(1)
            assert rig.server.closed == [HOME]
            rig.server.answer = GRANTED
            assert isinstance(await rig.send(2), Answered)

    asyncio.run(story())


@on_a_loop
async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PeersRig(monkeypatch, timeout_s=0.02) as rig:

        async def never(*_arguments: Any) -> Any:
            await asyncio.sleep(60)

        monkeypatch.setattr(Connection, "open", never)
        assert await rig.send(1) == Unanswered(1)


@on_a_loop
async def test_a_new_address_of_a_node_gets_a_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PeersRig(monkeypatch) as rig:
        await rig.send(1)
        await rig.send(2, AWAY)
        assert [address for address, _ in rig.server.opened] == [HOME, AWAY]
        assert rig.server.closed == [HOME]


@on_a_loop
async def test_after_the_stop_no_result_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with PeersRig(monkeypatch) as rig:
        rig.peers.send(Outgoing(1, Peer(2, HOME), VOTE))
        await rig.peers.stop()
        assert rig.results == []
