"""REST routes: paths as Jetty reads them, templates, methods, content negotiation and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus

import pytest

from kcli.http.client import request
from kcli.http.rest.application import Application, accepted, error_reply
from kcli.http.rest.json_bodies import InvalidBody, object_of, parse_json, text_of, texts_of
from kcli.http.rest.paths import AmbiguousPath, path_segments
from kcli.http.rest.routing import Call, Reply, Route, Router
from kcli.http.server import HttpServer
from kcli.runtime.network import SystemNetwork

BODY_MAX_BYTES = 1000


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("/", []),
        ("/connectors/", ["connectors"]),
        ("/connectors;x=1/a;b", ["connectors", "a"]),
        ("/connectors/../config", ["connectors", "..", "config"]),
        ("/connectors/a%20b+c%C3%BC", ["connectors", "a b+cü"]),
        ("/a%3Bb", ["a;b"]),
    ],
)
def test_a_path_has_decoded_segments(path: str, segments: list[str]) -> None:
    assert list(path_segments(path)) == segments


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("//", "Ambiguous URI empty segment"),
        ("/a//b", "Ambiguous URI empty segment"),
        ("/a%2Fb", "Ambiguous URI path separator"),
        ("/a%252Fb", "Ambiguous URI path encoding"),
        ("/a%5Cb", "Suspicious Path Character"),
        ("/a%09", "Suspicious Path Character"),
        ("/%FC", "Bad UTF-8 encoding"),
        ("/%00", "Bad Request"),
        ("/%zz", "Bad Request"),
        ("/%2e%2e/", "Bad Request"),
        ("connectors", "Bad Request"),
    ],
)
def test_an_ambiguous_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(AmbiguousPath, match=f"^{reason}$"):
        path_segments(path)


async def nothing(call: Call) -> Reply:
    return Reply({"method": call.method, **call.parameters})


ROUTES = [
    Route("GET", "/things", nothing),
    Route("POST", "/things", nothing),
    Route("GET", "/things/{thing}", nothing),
    Route("DELETE", "/things/{thing}", nothing),
    Route("GET", "/things/{thing}/parts/{part:int}", nothing),
    Route("GET", "/things/all", nothing),
]


def test_a_fixed_segment_takes_precedence_over_a_parameter() -> None:
    router = Router(ROUTES)
    match = router.match(["things", "all"])
    assert match is not None
    assert match.parameters == {}
    other = router.match(["things", "one"])
    assert other is not None
    assert other.parameters == {"thing": "one"}
    assert other.allowed == ["HEAD", "DELETE", "GET", "OPTIONS"]


@pytest.mark.parametrize(("part", "fits"), [("0", True), ("-1", True), ("x", False), ("99999999999", False)])
def test_a_number_in_a_path_is_an_int_of_java(part: str, fits: bool) -> None:
    match = Router(ROUTES).match(["things", "a", "parts", part])
    assert match is not None
    assert match.has_invalid_parameter is not fits


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/xml, application/json;q=0.5", "application/json"),
        ("application/json;charset=ISO-8859-1", "application/json;charset=iso-8859-1"),
        ("application/json;q=0", None),
        ("text/plain", None),
        ("garbage", None),
    ],
)
def test_the_media_type_of_a_response(header: str | None, media_type: str | None) -> None:
    assert accepted(header, ("application/json",)) == media_type


def test_scalars_of_a_body_become_texts_as_they_are_written() -> None:
    value = parse_json(
        b'\xef\xbb\xbf {"a": 1.50, "b": true, "c": null, "a": 1e3} trailing', numbers_as_text=True
    )
    assert texts_of(value, "body") == {"a": "1e3", "b": "true", "c": None}
    assert parse_json(b"  ") is None


@pytest.mark.parametrize("body", [b"{", b'{"a": NaN}', b"\xff", b'"\\ud800"', b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody):
        parse_json(body)


def test_a_body_of_another_form_is_refused() -> None:
    with pytest.raises(InvalidBody, match='Unrecognized field "x"'):
        object_of({"x": 1}, ("a",), "a thing")
    with pytest.raises(InvalidBody):
        texts_of([], "body")
    with pytest.raises(InvalidBody):
        text_of({}, "a")


class Refused(Exception):
    pass


async def fails(call: Call) -> Reply:
    raise Refused("no")


async def breaks(call: Call) -> Reply:
    raise RuntimeError("a defect")


async def guard(call: Call) -> Reply | None:
    return Reply(b"who?", HTTPStatus.UNAUTHORIZED) if "X-Deny" in call.headers else None


def ask(
    method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[int, object]:
    """The status and the body of a response."""

    async def story() -> tuple[int, object]:
        application = Application(
            [Route("GET", "/old", nothing)],
            body_max_bytes=BODY_MAX_BYTES,
            on_error=lambda error: (
                error_reply(HTTPStatus.CONFLICT, str(error)) if isinstance(error, Refused) else None
            ),
            check=guard,
        )
        application.serve([*ROUTES, Route("GET", "/fails", fails), Route("GET", "/breaks", breaks)])
        server = HttpServer(application.routes(), SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                answer = await request(
                    method,
                    f"http://127.0.0.1:{port}{path}",
                    headers={"Accept": "application/json"} | dict(headers or {}),
                    body=body,
                    body_max_bytes=100_000,
                )
        finally:
            await server.stop()
        try:
            return answer.status, json.loads(answer.body)
        except ValueError:
            return answer.status, answer.body.decode()

    return asyncio.run(story())


def test_requests_are_answered_and_refused_in_the_order_of_jax_rs() -> None:
    not_found = {"error_code": 404, "message": "HTTP 404 Not Found"}
    assert ask("GET", "/things/a%20b") == (200, {"method": "GET", "thing": "a b"})
    assert ask("GET", "/nope") == (404, not_found)
    assert ask("GET", "/old") == (404, not_found)
    assert ask("PUT", "/things") == (405, {"error_code": 405, "message": "HTTP 405 Method Not Allowed"})
    assert ask("HEAD", "/things") == (200, "")
    assert ask("OPTIONS", "/things") == (200, "")
    assert ask("OPTIONS", "/things", headers={"Accept": "*/*"}) == (200, "HEAD, POST, GET, OPTIONS")
    assert ask("POST", "/things", body=b"{}", headers={"Content-Type": "text/plain"})[0] == 415
    assert ask("POST", "/things", headers={"Accept": "text/html"})[0] == 406
    assert ask("GET", "/fails") == (409, {"error_code": 409, "message": "no"})
    assert ask("GET", "/breaks") == (500, {"error_code": 500, "message": "a defect"})
    assert ask("GET", "/things", headers={"X-Deny": "1"}) == (401, "who?")
    assert ask("GET", "/a%2Fb")[0] == 400
    assert ask("DELETE", "/a%2Fb") == (400, "")
    too_long = ask(
        "POST", "/things", body=b" " * (BODY_MAX_BYTES + 1), headers={"Content-Type": "application/json"}
    )
    assert too_long[0] == 413


def test_lenient_paths_may_have_every_character_and_empty_names() -> None:
    assert path_segments("/subjects/a%2Fb%25%5C/versions/", is_lenient=True) == [
        "subjects",
        "a/b%\\",
        "versions",
    ]
    assert path_segments("/subjects//versions", is_lenient=True) == ["subjects", "", "versions"]
    assert path_segments("/a%0Ab%00/%2E%2E", is_lenient=True) == ["a\nb\x00", ".."]
    for path in ("/a%", "/a%2", "/%ff", "a"):
        with pytest.raises(AmbiguousPath):
            path_segments(path, is_lenient=True)


def test_an_api_may_have_types_of_its_own_and_consume_others() -> None:
    own, other = "application/vnd.own+json", "application/octet-stream"

    async def answer(
        port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, str]:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            lines = {"Host": "x", "Connection": "close", "Content-Length": str(len(body or b"")), **headers}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))
            status_line, *fields = (await reader.read()).decode().partition("\r\n\r\n")[0].split("\r\n")
            writer.close()
        types = [field.partition(": ")[2] for field in fields if field.startswith("Content-Type: ")]
        return int(status_line.split(" ")[1]), "".join(types)

    async def story() -> None:
        application = Application(
            [*ROUTES, Route("GET", "/fails", fails), Route("GET", "/numbers/{number:int}", nothing)],
            body_max_bytes=BODY_MAX_BYTES,
            on_error=lambda error: error_reply(HTTPStatus.CONFLICT, str(error)),
            media_types=(own, "application/json"),
            consumes=(other, ""),
            has_free_names=True,
        )
        server = HttpServer(application.routes(), SystemNetwork())
        port = await server.start("127.0.0.1", 0)
        try:
            assert await answer(port, "GET", "/things/a%2Fb", {}) == (200, own)
            assert await answer(port, "GET", "/fails", {}) == (409, own)
            assert await answer(port, "GET", "/fails", {"Accept": "application/json"}) == (
                409,
                "application/json",
            )
            assert await answer(port, "GET", "/numbers/x", {}) == (404, own)
            for sent in ({}, {"Content-Type": other}, {"Content-Type": own}):
                assert (await answer(port, "POST", "/things", sent, b"{}"))[0] == 200
            assert await answer(port, "POST", "/things", {"Content-Type": "text/plain"}, b"{}") == (415, "")
        finally:
            await server.stop()

    asyncio.run(story())
