"""Several registries in one group: the election, forwarded changes, and leaders that end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.group.member import Member
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.local_cluster.ports import free_port
from kcli.model.addresses import Address
from kcli.registry.decisions import schemas
from kcli.registry.decisions.leadership import (
    Assignment,
    Identity,
    decode_assignment,
    encode_assignment,
    encode_identity,
)
from kcli.runtime.rng import SystemRng
from rigs import node
from rigs.loops import on_a_loop, until
from rigs.registry_programs import Program, registry
from rigs.small_schemas import small_language

A = '{"a":1}'
GROUP = "schema-registry"
SESSION_MS = 6_000
SESSION = {"kafkagroup.session.timeout.ms": "6000", "kafkagroup.heartbeat.interval.ms": "100"}


@pytest.fixture(autouse=True)
def small_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "language_of", small_language)


@asynccontextmanager
async def two(port: int, properties: Mapping[str, str] | None = None) -> AsyncIterator[Sequence[Program]]:
    """Two registries. The first one has the smaller URL, so it leads."""
    ports = sorted((free_port(), free_port()), key=str)
    async with AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(
                registry(port, SESSION | {"listeners": f"http://127.0.0.1:{own}"} | dict(properties or {}))
            )
            for own in ports
        ]
        first, second = programs
        await until(lambda: settled(first, second))
        yield programs


async def settled(leader: Program, follower: Program) -> bool:
    election = follower.server.registry.election
    assert election is not None
    return leader.leads and election.leader is not None and election.leader.port == leader.port


@on_a_loop
async def test_a_follower_forwards_changes_and_reads_them_at_once(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, two(broker.port()) as (leader, follower):
        assert not follower.leads
        for number, (path, answer) in enumerate(
            [("/subjects/s/versions", 200), ("/subjects/a%2Fb/versions?normalize=true", 200)], 1
        ):
            body = {"schema": f'{{"f{number}":1}}'}
            status, registered = await follower.json("POST", path, body)
            assert isinstance(registered, dict)
            assert (status, registered["id"]) == (answer, number)
            assert (await follower.json("GET", f"/schemas/ids/{number}"))[0] == 200
        # Errors and deletions come from the leader, too.
        assert (await follower.json("POST", "/subjects/s/versions", {"schema": '{"z":null}'}))[0] == 409
        assert await follower.json("PUT", "/config", {"compatibility": "NONE"}) == (
            200,
            {"compatibility": "NONE"},
        )
        assert await follower.json("GET", "/config") == (200, {"compatibilityLevel": "NONE"})
        assert await follower.json("DELETE", "/subjects/s") == (200, [1])
        assert await follower.json("GET", "/subjects") == (200, ["a/b"])
        assert await leader.json("GET", "/subjects") == (200, ["a/b"])
        assert (await follower.request("GET", "/health")).body == (
            f'{{"status":"healthy","message":"The leader is http://127.0.0.1:{leader.port}."}}'.encode()
        )


@on_a_loop
async def test_a_known_schema_needs_no_leader(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, two(broker.port()) as (leader, follower):
        assert (await leader.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        forwarder = follower.server.registry._forwarder

        async def fail(*_: object) -> None:
            raise AssertionError("the request was forwarded")

        forwarder.forward = fail  # type: ignore[assignment]
        await until(lambda: has_subject(follower))
        assert (await follower.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200


async def has_subject(it: Program) -> bool:
    return await it.json("GET", "/subjects") == (200, ["s"])


@on_a_loop
async def test_a_forwarded_request_is_not_forwarded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node.running(tmp_path) as broker, two(broker.port()) as (_, follower):
        headers = {"X-Forward": "true"}
        answer = await follower.json("POST", "/subjects/s/versions", {"schema": A}, headers=headers)
        assert answer == (500, {"error_code": 50004, "message": "Leader not known."})
        assert await follower.json("PUT", "/config", {"compatibility": "NONE"}, headers=headers) == (
            500,
            {"error_code": 50004, "message": "Failed to update compatibility level"},
        )


@on_a_loop
async def test_the_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, two(broker.port()) as (leader, follower):
        assert (await leader.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        stopping = asyncio.create_task(leader.server.stop())
        await until(lambda: not leader.leads)
        status, body = await follower.json("POST", "/subjects/t/versions", {"schema": '{"b":1}'})
        await stopping
        assert isinstance(body, dict)
        assert (status, body["id"]) == (200, 2)
        assert follower.leads


@on_a_loop
async def test_a_leader_that_does_not_answer_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member with the smallest URL is a client whose port is closed."""
    monkeypatch.setattr("kcli.registry.registry.LEADER_WAIT_SECONDS", 0.05)
    async with node.running(tmp_path) as broker:
        stranger = Stranger(broker.port(), Identity(host="127.0.0.1", port=1))
        async with registry(broker.port(), SESSION) as it:
            await until(lambda: follows(it, 1))
            for (method, path, body), code, message in (
                (
                    ("POST", "/subjects/s/versions", {"schema": A}),
                    50003,
                    "Error while forwarding register schema request to the leader",
                ),
                (
                    ("PUT", "/mode", {"mode": "READONLY"}),
                    50003,
                    "Error while forwarding update mode request to the leader",
                ),
            ):
                answer = await it.json(method, path, body)
                assert answer == (500, {"error_code": code, "message": message})
            assert (await it.json("GET", "/subjects"))[0] == 200, "reads need no leader"
        await stranger.stop()


async def follows(it: Program, port: int) -> bool:
    election = it.server.registry.election
    return election is not None and election.leader is not None and election.leader.port == port


class Stranger:
    """A member of the group that is another program, such as a registry in Java."""

    protocol_type = "sr"

    def __init__(self, port: int, identity: Identity | bytes, assignment: Assignment | None = None) -> None:
        self._metadata = identity if isinstance(identity, bytes) else encode_identity(identity)
        self._made = assignment
        self.assignments: list[Assignment] = []
        self.client = Client(ClientConfig(servers=(Address("127.0.0.1", port),), retry_backoff_ms=5))
        settings = GroupSettings(group_id=GROUP, session_timeout_ms=6_000, heartbeat_interval_ms=100)
        self.member = Member(self.client, settings, self, SystemRng(3))
        self.task = asyncio.create_task(self.member.run())

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [("v0", self._metadata)]

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        """Java's rule for two members: the one that is not eligible never leads."""
        own = next(member for member in members if member.member_id == leader.member_id)
        other = next((member for member in members if member is not own), own)
        chosen = own if self._made is None else other
        members_json = json.loads(chosen.metadata)
        identity = Identity(host=members_json["host"], port=members_json["port"])
        assignment = encode_assignment(Assignment(chosen.member_id, identity))
        return {member.member_id: assignment for member in members}

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        self.assignments.append(decode_assignment(assignment))
        return False

    async def revoked(self, *, everything: bool) -> None: ...

    async def lost(self) -> None: ...

    async def stop(self) -> None:
        await self.member.leave()
        await self.task
        await self.client.close()


@on_a_loop
async def test_a_registry_leads_if_another_program_has_made_it_the_leader(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker:
        reader = Identity(host="127.0.0.1", port=1, is_eligible=False)
        stranger = Stranger(broker.port(), reader, Assignment())
        async with registry(broker.port(), SESSION) as it:
            await until(lambda: leads(it))
            assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
            assert stranger.assignments[-1].identity == Identity(host="127.0.0.1", port=it.port)
        await stranger.stop()


async def leads(it: Program) -> bool:
    return it.leads


@on_a_loop
async def test_a_member_with_bad_metadata_stops_no_registry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port(), SESSION) as it:
        await until(lambda: leads(it))
        stranger = Stranger(broker.port(), b"\xff{")
        await until(lambda: heard(stranger, 1))
        await until(lambda: leads(it))
        assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        assert "cannot lead" in caplog.text
        await stranger.stop()


async def heard(stranger: Stranger, count: int) -> bool:
    return len(stranger.assignments) >= count


@on_a_loop
async def test_two_members_with_one_url_leave_the_group_without_a_leader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port(), SESSION) as it:
        await until(lambda: leads(it))
        stranger = Stranger(broker.port(), Identity(host="127.0.0.1", port=it.port))
        await until(lambda: heard(stranger, 1))
        assert stranger.assignments[-1].error == 1
        assert not it.leads
        assert "several members that advertise the same URL" in caplog.text
        await stranger.stop()
        await until(lambda: leads(it))


@on_a_loop
async def test_only_eligible_registries_lead_and_reads_need_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        node.running(tmp_path) as broker,
        registry(broker.port(), SESSION | {"leader.eligibility": "false"}) as it,
    ):
        assert not it.leads
        assert await it.json("GET", "/subjects") == (200, [])
        assert "No leader eligible schema registry instances joined" in caplog.text


@on_a_loop
async def test_a_sticky_leader_stays_when_a_smaller_url_joins(tmp_path: Path) -> None:
    small, large = sorted((free_port(), free_port()), key=str)
    sticky = SESSION | {"leader.election.sticky": "true"}
    async with (
        node.running(tmp_path) as broker,
        registry(broker.port(), sticky | {"listeners": f"http://127.0.0.1:{large}"}) as old,
    ):
        await until(lambda: leads(old))
        async with registry(broker.port(), sticky | {"listeners": f"http://127.0.0.1:{small}"}) as new:
            await until(lambda: settled(old, new))
            assert (await new.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        await until(lambda: leads(old))


@on_a_loop
async def test_a_leader_writes_nothing_near_the_end_of_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = SESSION | {"kafkagroup.heartbeat.interval.ms": "5000"}
    async with node.running(tmp_path) as broker, registry(broker.port(), rare) as it:
        await until(lambda: leads(it))
        election = it.server.registry.election
        assert election is not None and election._member is not None
        membership = election._member._membership
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        lease_ms = it.server.registry.config.election.lease_ms
        # The session ends in the future, but the coordinator was silent for the whole lease.
        assert lease_ms < SESSION_MS
        membership._silent_since_ms = now_ms - lease_ms
        assert not it.leads
        monkeypatch.setattr("kcli.registry.registry.LEADER_WAIT_SECONDS", 0.01)
        status, body = await it.json("POST", "/subjects/s/versions", {"schema": A})
        assert (status, body) == (500, {"error_code": 50004, "message": "Leader not known."})


@on_a_loop
async def test_the_election_may_come_after_the_start(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker:
        stranger = Stranger(broker.port(), Identity(host="0", port=1, is_eligible=False), Assignment())
        async with registry(broker.port(), SESSION | {"leader.election.delay": "true"}) as it:
            assert await it.json("GET", "/subjects") == (200, [])
            # A change waits for the election.
            assert (await it.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        await stranger.stop()


@on_a_loop
async def test_a_follower_finds_the_schema_that_was_just_registered(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, two(broker.port()) as (leader, follower):
        follower.server.registry.decider._is_frozen = True  # so that the follower is late
        assert (await leader.json("POST", "/subjects/s/versions", {"schema": A}))[0] == 200
        asking = asyncio.create_task(follower.json("GET", "/schemas/ids/1"))
        decider = follower.server.registry.decider
        await until(lambda: len(decider._deferred) > 0 and follower.server.registry._refreshed_s > 0)
        assert not asking.done()
        await decider._decide_in_thread(lambda _: None)
        assert (await asking)[0] == 200


@on_a_loop
async def test_a_leader_that_never_answers_is_given_up(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, node.running(tmp_path) as broker:
        stranger = Stranger(broker.port(), Identity(host="127.0.0.1", port=port))
        properties = SESSION | {"leader.read.timeout.ms": "50", "host.name": "zz"}
        async with registry(broker.port(), properties) as it:
            await until(lambda: follows(it, port))
            status, body = await it.json("POST", "/subjects/s/versions", {"schema": A})
            assert isinstance(body, dict)
            assert (status, body["error_code"]) == (500, 50003)
            assert asked.is_set()
        await stranger.stop()


@on_a_loop
async def test_headers_are_forwarded_if_they_are_listed(tmp_path: Path) -> None:
    """The leader is a program that answers each request with its headers."""
    received: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        received.append(head)
        body = b'{"id":42}'
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, node.running(tmp_path) as broker:
        stranger = Stranger(broker.port(), Identity(host="127.0.0.1", port=port))
        properties = SESSION | {"inter.instance.headers.whitelist": "X-Tenant", "host.name": "zz"}
        async with registry(broker.port(), properties) as it:
            await until(lambda: follows(it, port))
            headers = {"Authorization": "Basic YTpi", "X-Tenant": "t", "X-Other": "o", "X-Request-ID": "r"}
            path = "/subjects/a%2Fb%20c/versions?normalize=True&force=x%26y"
            assert await it.json("POST", path, {"schema": A}, headers=headers) == (200, {"id": 42})
        await stranger.stop()
    assert received[0].startswith("POST /subjects/a%2Fb%20c/versions?normalize=True&force=x%26y HTTP/1.1")
    for line in ("X-Forward: true", "Authorization: Basic YTpi", "X-Tenant: t", "X-Request-ID: r"):
        assert line in received[0]
    assert "X-Other" not in received[0]
