"""The metrics endpoint of a running broker: its routes, and what a broker without it does not load."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from kcli.config.definition import ConfigError
from kcli.http import client
from kcli.model.addresses import Address
from kcli.server.beans import places
from kcli.server.beans.exposition import endpoint
from kcli.server.beans.places import PLACES_MAX
from rigs.certificates import Certificates
from rigs.node import running

Ask = Callable[[str], Awaitable[client.Response]]


def asked(directory: Path, *targets: str) -> list[client.Response]:
    """The endpoint's responses to GET of each target, in turn."""

    async def story() -> list[client.Response]:
        async with running(directory, kcli_metrics_listener="127.0.0.1:0") as node:
            assert node.metrics_endpoint is not None
            address = Address("127.0.0.1", node.metrics_endpoint.port)
            return [await client.get(address, each, body_max_bytes=10_000_000) for each in targets]

    return asyncio.run(story())


def test_each_route_has_its_status_and_content_type(tmp_path: Path) -> None:
    index, metrics, requests, unknown, beyond = asked(
        tmp_path, "/", "/metrics", "/requests", "/metric%C3%BC", "/jmx/"
    )
    assert (index.status, index.body) == (200, b"/metrics\n/jmx\n/requests\n")
    assert metrics.status == 200 and metrics.body.startswith(b"# TYPE ")
    assert json.loads(requests.body).keys() == {"requests"}
    assert (unknown.status, unknown.body.decode()) == (
        404,
        "there is no /metricü: /metrics, /jmx or /requests\n",
    )
    assert beyond.status == 404


def test_beans_by_patterns(tmp_path: Path) -> None:
    both, every, bad = asked(
        tmp_path,
        "/jmx?qry=kafka.server:type=KafkaServer,*&qry=kcli:*",
        "/jmx?qry=",
        "/jmx?qry=nonsense",
    )
    domains = {bean["name"].split(":")[0] for bean in json.loads(both.body)["beans"]}
    assert domains == {"kafka.server", "kcli"}
    assert len(json.loads(every.body)["beans"]) > len(json.loads(both.body)["beans"])
    assert (bad.status, bad.body) == (
        400,
        b"qry is not an object name: Domain part must be specified\n",
    )


def test_the_profile_selects_the_names_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    default, confluent, reporter, unknown = asked(
        tmp_path,
        "/metrics",
        "/metrics?profile=confluent",
        "/metrics?profile=reporter",
        "/metrics?profile=nonsense",
    )
    for text, name in (
        (default, b"\nkafka_server_brokertopicmetrics_bytesin_total "),
        (confluent, b"\nkafka_server_brokertopicmetrics_bytesinpersec "),
        (reporter, b"\nkafka_server_brokertopicmetrics_bytesinpersec_total "),
    ):
        assert name in text.body
        assert not text.body.endswith(b"# EOF\n")
    assert (unknown.status, unknown.body) == (
        400,
        b"the profile must be one of default, confluent, reporter\n",
    )


def test_open_metrics_is_served_to_a_client_that_accepts_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            assert node.metrics_endpoint is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", node.metrics_endpoint.port)
            writer.write(
                b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                b"Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n"
            )
            head = await reader.readuntil(b"\r\n\r\n")
            text = await reader.read()
            writer.close()
            assert b"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n" in head
            assert b"# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total " in text
            assert b"\n# EOF\n" in text

    asyncio.run(story())


def test_the_filters_of_metrics_change_without_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"metrics.jmx.include": "kafka\\.server:.*|kcli:.*", "metrics.jmx.exclude": ".*raft.*"}
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0", **settings) as node:
            assert node.metrics_endpoint is not None
            address = Address("127.0.0.1", node.metrics_endpoint.port)

            async def text() -> bytes:
                return (await client.get(address, "/metrics", body_max_bytes=10_000_000)).body

            assert b"kafka_server_replicamanager_" in await text()
            assert b"kafka_server_raft" not in await text() and b"kafka_log_" not in await text()
            node.dynamic_config.update(default={"metrics.jmx.include": "kafka\\.log:.*"}, own={})
            assert b"kafka_log_logmanager_" in await text() and b"kafka_server_" not in await text()

    asyncio.run(story())


def test_a_filter_that_is_no_expression_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, **{"metrics.jmx.exclude": "("}):
            raise AssertionError("the node must not start")

    with pytest.raises(ConfigError, match="not a valid regular expression"):
        asyncio.run(story())


def test_a_client_that_reads_nothing_loses_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PROGRESS_MAX_SECONDS", 0.3)
    monkeypatch.setattr(endpoint, "encoded", lambda *_: iter([b"# many bytes\n" * 20_000] * 100))

    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            assert node.metrics_endpoint is not None
            port = node.metrics_endpoint.port
            writers = []
            for _ in range(places.PLACES_PER_PEER):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                await reader.readexactly(1)
                writers.append(writer)
            address = Address("127.0.0.1", port)
            monkeypatch.setattr(places, "WAIT_SECONDS", 0.01)
            refused = await client.get(address, "/jmx", body_max_bytes=10_000_000)
            assert refused.status == 503 and b"too many answers" in refused.body
            monkeypatch.setattr(places, "WAIT_SECONDS", 60.0)
            assert (await client.get(address, "/jmx", body_max_bytes=10_000_000)).status == 200
            for writer in writers:
                writer.transport.abort()

    asyncio.run(story())


def test_many_scrapes_at_once_all_get_their_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 60.0)

    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            assert node.metrics_endpoint is not None
            address = Address("127.0.0.1", node.metrics_endpoint.port)
            targets = ["/metrics", "/jmx"] * PLACES_MAX * 2
            answers = await asyncio.gather(
                *(client.get(address, each, body_max_bytes=10_000_000) for each in targets)
            )
            assert [each.status for each in answers] == [200] * len(targets)
            assert all(json.loads(each.body)["beans"] for each in answers[1::2])

    asyncio.run(story())


def test_a_client_that_goes_away_leaves_its_place_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 60.0)

    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            assert node.metrics_endpoint is not None
            port = node.metrics_endpoint.port
            for _ in range(PLACES_MAX * 3):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                await writer.drain()
                writer.transport.abort()
            answer = await client.get(Address("127.0.0.1", port), "/metrics", body_max_bytes=10_000_000)
            assert answer.status == 200

    asyncio.run(story())


def test_the_process_has_its_threads_and_tasks(tmp_path: Path) -> None:
    (answer,) = asked(tmp_path, "/jmx?qry=kcli:type=Process")
    (process,) = json.loads(answer.body)["beans"]
    assert process["ThreadCount"] >= 1
    assert process["TaskCount"] >= 2, "the task of the test, and at least one of the node"


@pytest.mark.parametrize("program", ["kcli.server.main", "kcli.cli.tools.jmx", "kcli.cli.tools.top.command"])
def test_the_http_library_is_loaded_only_when_it_is_used(program: str) -> None:
    script = f"import sys, {program}\nassert not {{'aiohttp', 'yarl'}} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], check=True)


USERS = {"kcli_metrics_users": "ann:one-secret bob:two:secrets"}


def test_with_users_each_request_needs_a_login(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0", **USERS) as node:
            assert node.metrics_endpoint is not None
            address = Address("127.0.0.1", node.metrics_endpoint.port)

            async def status(target: str, credentials: str | None) -> int:
                answer = await client.get(address, target, body_max_bytes=10_000_000, credentials=credentials)
                return answer.status

            for target in ("/", "/metrics", "/jmx", "/requests", "/unknown"):
                assert await status(target, None) == 401
            assert await status("/metrics", "ann:one-secret") == 200
            assert await status("/jmx", "bob:two:secrets") == 200
            assert await status("/jmx", "bob:wrong") == 401

    asyncio.run(story())


@pytest.mark.parametrize("users", ["ann", "ann:", ":secret", "ann:a ann:b"])
def test_invalid_users_are_refused_without_their_passwords(tmp_path: Path, users: str) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0", kcli_metrics_users=users):
            raise AssertionError("the node must not start")

    with pytest.raises(ConfigError) as error:
        asyncio.run(story())
    assert "secret" not in str(error.value)


def test_the_endpoint_speaks_tls(tmp_path: Path, certificates: Certificates) -> None:
    async def story() -> None:
        settings = {
            f"listener.name.metrics.{key}": text for key, text in certificates.broker_config().items()
        }
        async with running(
            tmp_path, kcli_metrics_listener="127.0.0.1:0", kcli_metrics_protocol="HTTPS", **USERS, **settings
        ) as node:
            assert node.metrics_endpoint is not None
            address = Address("127.0.0.1", node.metrics_endpoint.port)
            trusted = ssl.create_default_context(cafile=certificates.authority.pem)
            answer = await client.get(
                address, "/metrics", body_max_bytes=10_000_000, credentials="ann:one-secret", tls=trusted
            )
            assert answer.status == 200 and answer.body.startswith(b"# TYPE ")
            with pytest.raises(OSError):
                stranger = ssl.create_default_context(cafile=certificates.other_authority.pem)
                await client.get(address, "/metrics", body_max_bytes=100, tls=stranger)
            with pytest.raises((client.NotHttp, OSError)):
                await client.get(address, "/metrics", body_max_bytes=100)

    asyncio.run(story())


def test_answers_are_compressed_if_the_client_accepts_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, kcli_metrics_listener="127.0.0.1:0") as node:
            assert node.metrics_endpoint is not None
            url = f"http://127.0.0.1:{node.metrics_endpoint.port}"
            async with aiohttp.ClientSession(auto_decompress=False) as session:
                for path in ("/metrics", "/jmx"):
                    answers = {}
                    for accepted in ("identity", "gzip"):
                        async with session.get(url + path, headers={"Accept-Encoding": accepted}) as answer:
                            answers[accepted] = await answer.read()
                            encoding = answer.headers.get("Content-Encoding")
                            assert encoding == (None if accepted == "identity" else "gzip")
                            assert answer.headers["Vary"] == "Accept-Encoding"
                    assert len(answers["gzip"]) * 4 < len(answers["identity"])
                    assert gzip.decompress(answers["gzip"])[:20] == answers["identity"][:20]

    asyncio.run(story())
