"""The metrics endpoint of a running broker: its routes, and what a broker without it does not load."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kcli.http import client
from kcli.model.addresses import Address
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


def test_the_process_has_its_threads_and_tasks(tmp_path: Path) -> None:
    (answer,) = asked(tmp_path, "/jmx?qry=kcli:type=Process")
    (process,) = json.loads(answer.body)["beans"]
    assert process["ThreadCount"] >= 1
    assert process["TaskCount"] >= 2, "the task of the test, and at least one of the node"


@pytest.mark.parametrize("program", ["kcli.server.main", "kcli.cli.tools.jmx", "kcli.cli.tools.top.command"])
def test_the_http_library_is_loaded_only_when_it_is_used(program: str) -> None:
    script = f"import sys, {program}\nassert not {{'aiohttp', 'yarl'}} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], check=True)
