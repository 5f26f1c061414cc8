"""The first page of the console: figures, the check-up and the traffic."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kcli.console.settings import ClusterSettings
from kcli.http.server import JSON, HttpServer, Request, Response, get, respond
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from rigs.console import Browser, browser, console, scripted
from rigs.scripted_cluster import ScriptedCluster

MAIN = "/api/clusters/main"
CLOSED = Address("127.0.0.1", 1)


async def checked(page: Browser, query: str = "") -> Any:
    """The findings, after the check-up has ended."""
    found = await page.get(f"{MAIN}/checkup{query}")
    for _ in range(1000):
        if not found["is_running"]:
            return found
        await asyncio.sleep(0.02)
        found = await page.get(f"{MAIN}/checkup")
    raise AssertionError("the check-up did not end")


def test_the_figures_count_topics_and_partitions() -> None:
    async def story() -> None:
        async with scripted() as page:
            found = await page.get(f"{MAIN}/overview")
            assert (found["brokers"], found["topics"], found["partitions"]) == (1, 2, 3)
            assert (found["cluster_id"], found["controller"], found["leaders_most"]) == ("abc", NO_LEADER, 3)
            assert found["has_traffic"] is False
            for _ in range(1000):
                if (found := await page.get(f"{MAIN}/overview"))["sizes"] is not None:
                    break
                await asyncio.sleep(0.01)
            assert (found["sizes"]["records_bytes"], found["sizes"]["failed_directories"]) == (630, 1)

    asyncio.run(story())


def test_the_check_up_runs_once_and_again_if_asked() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as page:
            assert (await page.get(f"{MAIN}/checkup"))["is_running"] is True
            found = await checked(page)
            assert found["error"] is None
            assert {"severity", "subject", "text", "evidence", "command"} <= set(found["findings"][0])
            runs = len(cluster.server.sent(ApiKey.DESCRIBE_CLUSTER))
            assert (await checked(page))["findings"] == found["findings"]
            assert len(cluster.server.sent(ApiKey.DESCRIBE_CLUSTER)) == runs

    asyncio.run(story())


def test_an_unreachable_cluster_is_an_error_on_the_page(monkeypatch: Any) -> None:
    monkeypatch.setattr("kcli.console.identity.CALL_MAX_MS", 200)

    async def story() -> None:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": "127.0.0.1:1"})
        async with console(main) as address, browser(address) as page:
            await page.open()
            assert (await page.get(f"{MAIN}/overview"))["error"] == "TIMEOUT"
            assert page.status == 504
            assert "cannot be reached" in (await checked(page))["error"]

    asyncio.run(story())


def test_traffic_is_the_sum_of_the_endpoints_that_answer() -> None:
    async def jmx(request: Request) -> Response:
        names = request.query.getall("qry")
        beans = [{"name": name, "OneMinuteRate": 1.5} for name in names]
        return respond(json.dumps({"beans": beans}).encode(), JSON)

    async def story() -> None:
        served = HttpServer([get("/jmx", jmx)], SystemNetwork())
        endpoint = Address("127.0.0.1", await served.start("127.0.0.1", 0))
        main = ClusterSettings(
            name="main",
            properties={"bootstrap.servers": "127.0.0.1:1"},
            metrics=(endpoint, endpoint, CLOSED),
        )
        async with console(main) as address, browser(address) as page:
            await page.open()
            found = await page.get(f"{MAIN}/traffic")
            assert found["missing"] == 1
            assert [
                [value for _, value in found["series"][name]] for name in ("bytes_in", "messages_in")
            ] == [
                [3.0],
                [3.0],
            ]
            assert len((await page.get(f"{MAIN}/traffic"))["series"]["bytes_out"]) == 1, "asked once in 5 s"
        await served.stop()

    asyncio.run(story())
