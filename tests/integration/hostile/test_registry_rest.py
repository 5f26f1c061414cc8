"""Hostile clients of the REST API of a registry: odd names, deep and long bodies, slow schemas, floods."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from kcli.formats.schemas import SchemaType
from kcli.registry.decider import QUICK_CHARACTERS_MAX
from kcli.registry.decisions import schemas
from kcli.registry.rest.server import CONNECTIONS_MAX
from rigs import node
from rigs.loops import on_a_loop, until
from rigs.registry_programs import Program, registry
from rigs.small_schemas import SmallLanguage, SmallSchema, small_language
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

A = {"schema": '{"a":1}'}
NAMES = (
    "größe 日本 😀",
    "x" * 3_000,
    "a/b/../c",
    "..",
    ".",
    "50%",
    "a;b?c#d&e=f",
    'q"uote\\',
    "*\"'<>",
    "a:b",
    ":x",
    " ",
    "versions",
)


@pytest.fixture(autouse=True)
def small_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "language_of", small_language)


@on_a_loop
async def test_subjects_with_odd_names_are_registered_found_and_deleted(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        for name in NAMES:
            path = f"/subjects/{quote(name, safe='')}"
            assert (await it.json("POST", f"{path}/versions", A))[0] == 200, name
            status, schema = await it.json("GET", f"{path}/versions/latest")
            assert isinstance(schema, dict)
            assert (status, schema["subject"]) == (200, name)
        assert set((await it.json("GET", "/subjects"))[1] or ()) == set(NAMES)  # type: ignore[call-overload]
        for name in NAMES:
            path = f"/subjects/{quote(name, safe='')}"
            assert await it.json("DELETE", path) == (200, [1]), name
            assert await it.json("DELETE", f"{path}?permanent=true") == (200, [1]), name
        for path in ("/subjects/a%00b/versions", "/subjects/%7f/versions", "/subjects/__EMPTY/versions"):
            status, body = await it.json("POST", path, A)
            assert isinstance(body, dict)
            assert (status, body["error_code"]) == (422, 42208), path
        for path in ("/subjects/%ff/versions", "/subjects/%/versions", "/subjects/%2/versions"):
            assert (await it.request("GET", path)).status == 400


BODIES = (
    (b"[" * 100_000, 400),
    (b'{"a":' * 100_000, 400),
    (b'{"schema":"{}","references":' + b"[" * 5_000 + b"]" * 5_000 + b"}", 400),
    (b'{"schema":1}', 400),
    (b'{"schema":["a"]}', 400),
    (b'{"schema":"{}","references":{}}', 400),
    (b'{"schema":"{}","references":[1]}', 400),
    (b'{"schema":"{}","id":99999999999}', 400),
    (b'{"schema":"{}","version":1.5}', 400),
    (b'{"schema":"{}","metadata":[]}', 400),
    (b'{"schema":"\\ud800"}', 400),
    (b'{"schema":NaN}', 400),
    (b'{"schema":"{}"', 400),
    (b"\x00", 400),
    (b'"text"', 400),
    (b'{"schema":"{}","schemaType":"AVRO\\u0000"}', 422),
    (b'{"schema":"{}","references":[{"name":"n","subject":"no","version":1}]}', 422),
)


@on_a_loop
async def test_a_body_that_is_no_registration_is_refused(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        for body, status in BODIES:
            for path in ("/subjects/s/versions", "/subjects/s", "/compatibility/subjects/s/versions"):
                answer = await it.request("POST", path, body)
                code = json.loads(answer.body)["error_code"]
                assert (answer.status, int(str(code)[:3])) == (status, status), (path, answer.body[:200])
        for path in ("/config", "/config/s", "/mode", "/mode/s"):
            for body in (b"[", b"[]", b'{"compatibility":1,"mode":1}'):
                assert (await it.request("PUT", path, body)).status == 400, (path, body)


@dataclass(frozen=True, slots=True)
class SlowLanguage:
    """Parses a long schema for as long as `may_end` is not set."""

    language: SmallLanguage
    may_end: threading.Event
    began: threading.Event

    def parse(self, text: str, resolved: Mapping[str, str], *, is_new: bool) -> SmallSchema:
        if len(text) > QUICK_CHARACTERS_MAX:
            self.began.set()
            assert self.may_end.wait(60)
        return self.language.parse(text, resolved, is_new=is_new)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowLanguage:
    language = SlowLanguage(SmallLanguage(SchemaType.AVRO), threading.Event(), threading.Event())
    monkeypatch.setattr(schemas, "language_of", lambda _: language)
    return language


@on_a_loop
async def test_a_schema_that_is_parsed_for_long_delays_no_reader(tmp_path: Path, slow: SlowLanguage) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        assert (await it.json("POST", "/subjects/s/versions", A))[0] == 200
        long = {"schema": json.dumps({"long": "x" * QUICK_CHARACTERS_MAX})}
        waiting = [asyncio.create_task(it.json("POST", f"/subjects/l{n}/versions", long)) for n in range(3)]
        gone = asyncio.create_task(it.json("POST", "/subjects/gone/versions", long))
        try:
            await until(slow.began.is_set)
            for path in ("/subjects", "/schemas/ids/1", "/subjects/s/versions/latest", "/config", "/health"):
                assert (await it.json("GET", path))[0] == 200
            assert (await it.json("POST", "/subjects/s", A))[0] == 200
            gone.cancel()
            assert not any(task.done() for task in waiting)
        finally:
            slow.may_end.set()
        assert [status for status, _ in await asyncio.gather(*waiting)] == [200, 200, 200]
        assert len(set((await it.json("GET", "/schemas/ids/2/subjects"))[1] or ())) >= 3  # type: ignore[call-overload]


@on_a_loop
async def test_records_that_come_during_a_long_decision_are_applied_after_it(
    tmp_path: Path, slow: SlowLanguage
) -> None:
    read_only = {"kcli.read.only": "true"}
    async with (
        node.running(tmp_path) as broker,
        registry(broker.port()) as writer,
        registry(broker.port(), read_only) as it,
    ):
        long = {"schema": json.dumps({"long": "x" * QUICK_CHARACTERS_MAX})}
        waiting = asyncio.create_task(it.json("POST", "/compatibility/subjects/s/versions", long))
        await until(slow.began.is_set)
        assert (await writer.json("POST", "/subjects/s/versions", A))[0] == 200
        decider = it.server.registry.decider
        await until(lambda: len(decider._deferred) > 0)
        assert await it.json("GET", "/subjects") == (200, [])
        slow.may_end.set()
        assert (await waiting)[0] == 200
        await until(lambda: has_subject(it))


async def has_subject(it: Program) -> bool:
    return await it.json("GET", "/subjects") == (200, ["s"])


@on_a_loop
async def test_a_flood_of_connections_delays_no_other_client(tmp_path: Path) -> None:
    begin = b"POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\n"
    kinds = (
        b"",
        b"GET /subj",
        begin + b"Content-Length: 1000\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    )
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        writers = []
        with TurnCounter() as counter:
            for number in range(CONNECTIONS_MAX + 50):
                _reader, writer = await asyncio.open_connection("127.0.0.1", it.port)
                writer.write(kinds[number % len(kinds)])
                writers.append(writer)
                if number % 50 == 0:
                    assert (await it.json("GET", "/schemas/ids/9"))[0] == 404
            for _ in range(10):
                assert (await it.json("GET", "/subjects"))[0] == 200
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
        for writer in writers:
            writer.close()


@on_a_loop
async def test_a_list_of_many_long_schemas_is_made_in_slices(tmp_path: Path) -> None:
    async with node.running(tmp_path) as broker, registry(broker.port()) as it:
        state = it.server.registry.rules.state
        text = json.dumps(json.dumps({"long": "x" * 3_000}))
        for number in range(1, 1_501):
            key = f'{{"keytype":"SCHEMA","subject":"s{number:04}","version":1,"magic":1}}'
            value = f'{{"subject":"s{number:04}","version":1,"id":{number},"schema":{text[:-1]}{number}"}}'
            assert state.replay(key.encode(), value.encode(), number, 0) is None
        with TurnCounter() as counter:
            assert len((await it.request("GET", "/subjects")).body) > 1_500 * 5
            status, listed = await it.json("GET", "/schemas")
        assert isinstance(listed, list)
        assert (status, len(listed)) == (200, 1_000)
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
