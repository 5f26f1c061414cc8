"""Hostile clients of the REST API of a Connect worker: odd names, huge configurations, and floods of connections."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kcli.connect.rest.server import CONNECTIONS_MAX
from kcli.http.connect_rest import ConnectRest, Refused, connector_path
from kcli.http.rest import application
from rigs import node
from rigs.connect_programs import Program, distributed, standalone
from rigs.loops import on_a_loop, until
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

FILE = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": "t"}
REACHABLE = ("größe 日本 😀", "x" * 10_000, "ä" * 2_500, "..", "a;b?c#d", "*\"'<>&")
UNREACHABLE = ("a/b", "50%", "back\\slash")
"""Jetty refuses these characters in a path, although connectors may have them in their names."""


async def create(it: Program, name: str, **config: str) -> tuple[int, bytes]:
    body = json.dumps({"name": name, "config": FILE | config}).encode()
    answer = await it.request("POST", "/connectors", body)
    return answer.status, answer.body


@on_a_loop
async def test_connectors_with_odd_names_live_and_end_as_others_do(tmp_path: Path) -> None:
    async with node.running(tmp_path / "data") as broker, distributed(broker.port()) as it:
        for name in (*REACHABLE, *UNREACHABLE):
            assert (await create(it, name))[0] == 201
        status, body = await create(it, "line\nbreak")
        assert status == 400
        assert b"control" in body
        # `kcli connect` uses this client.
        client = ConnectRest.at(f"http://127.0.0.1:{it.ports[0]}")

        async def runs(name: str) -> bool:
            state = await client.call("GET", connector_path(name, "/status"))
            assert isinstance(state, dict)
            return [task["state"] for task in state["tasks"]] == ["RUNNING"]

        for name in REACHABLE:
            await until(lambda name=name: runs(name))  # type: ignore[misc]
            await client.call("POST", connector_path(name, "/restart"))
            await client.call("POST", connector_path(name, "/tasks/0/restart"))
            await client.call("DELETE", connector_path(name))
        for name in UNREACHABLE:
            with pytest.raises(Refused) as error:
                await client.call("GET", connector_path(name, "/status"))
            assert error.value.status == 400
        await until(lambda: only(it, UNREACHABLE))


async def only(it: Program, names: tuple[str, ...]) -> bool:
    return set(json.loads((await it.request("GET", "/connectors")).body)) == set(names)


@on_a_loop
async def test_a_configuration_beyond_the_limit_of_records_is_refused(tmp_path: Path) -> None:
    async with node.running(tmp_path / "data") as broker, distributed(broker.port()) as it:
        status, body = await create(it, "large", text="y" * 10_000_000)
        assert status == 500
        assert json.loads(body)["message"] == (
            "Failed to write to config topic; this may be due to a transient error and the request can be safely "
            "retried"
        )
        assert (await create(it, "fits", text="y" * 900_000))[0] == 201
        await until(lambda: only(it, ("fits",)))
        status, body = await create(it, "keys", **{f"key{number}": "" for number in range(20_000)})
        assert (status, json.loads(body)["message"]) == (
            500,
            "config has 20003 keys: expected at most 10000",
        )


@on_a_loop
async def test_a_flood_of_connections_delays_no_other_client(tmp_path: Path) -> None:
    begin = b"POST /connectors HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    kinds = (
        b"",
        b"GET /conn",
        begin + b"Content-Length: 1000\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    )
    async with standalone(tmp_path) as it:
        streams = []
        with TurnCounter() as counter:
            for number in range(CONNECTIONS_MAX + 50):
                reader, writer = await asyncio.open_connection("127.0.0.1", it.ports[0])
                writer.write(kinds[number % len(kinds)])
                streams.append((reader, writer))
                if number % 50 == 0:
                    assert (await it.request("GET", "/connectors/no")).status == 404
            for _ in range(10):
                assert (await it.request("GET", "/connectors")).status == 200
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
        for _reader, writer in streams:
            writer.close()


@on_a_loop
async def test_few_long_bodies_are_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "LONG_BODY_BYTES", 1000)
    head = b"POST /connectors HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n"
    async with standalone(tmp_path) as it:
        writers = []
        for _ in range(application.LONG_BODIES_MAX):
            _reader, writer = await asyncio.open_connection("127.0.0.1", it.ports[0])
            writer.write(head + b"{")
            writers.append(writer)
        assert (await it.request("POST", "/connectors", b"{")).status == 500, "a short body waits for nobody"
        waiting = asyncio.create_task(it.request("POST", "/connectors", b"{" * 2000))
        for _ in range(3):
            assert (await it.request("POST", "/connectors", b"{")).status == 500
        assert not waiting.done()
        writers[0].close()
        assert (await waiting).status == 500
        for writer in writers:
            writer.close()
