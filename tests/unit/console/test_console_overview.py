"""The first page of the console: figures, the check-up and the traffic."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kcli.client.diagnosis.checkup.gather import Looks
from kcli.console.pages import overview
from kcli.console.settings import ClusterSettings
from kcli.http.server import JSON, HttpServer, Request, Response, get, respond
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER
from kcli.protocol.messages import describe_groups, find_coordinator, list_groups
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from rigs.console import Browser, browser, console, scripted
from rigs.scripted_cluster import ScriptedCluster
from rigs.scripted_server import ScriptedAnswer

MAIN = "/api/clusters/main"
CLOSED = Address("127.0.0.1", 1)


async def checked(page: Browser, query: str = "") -> Any:
    """The findings, after the check-up has ended."""
    answer = await page.get(f"{MAIN}/checkup{query}")
    for _ in range(1000):
        if not answer["is_running"]:
            return answer
        await asyncio.sleep(0.02)
        answer = await page.get(f"{MAIN}/checkup")
    raise AssertionError("the check-up did not end")


def test_the_figures_count_topics_and_partitions() -> None:
    async def story() -> None:
        async with scripted() as page:
            answer = await page.get(f"{MAIN}/overview")
            assert (answer["brokers"], answer["topics"], answer["partitions"]) == (1, 2, 3)
            assert (answer["cluster_id"], answer["controller"], answer["leaders_most"]) == (
                "abc",
                NO_LEADER,
                3,
            )
            assert answer["has_traffic"] is False
            for _ in range(1000):
                if (answer := await page.get(f"{MAIN}/overview"))["sizes"] is not None:
                    break
                await asyncio.sleep(0.01)
            assert (answer["sizes"]["records_bytes"], answer["sizes"]["failed_directories"]) == (630, 1)

    asyncio.run(story())


def test_the_check_up_runs_once_and_again_if_asked() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as page:
            assert (await page.get(f"{MAIN}/checkup"))["is_running"] is True
            answer = await checked(page)
            assert answer["error"] is None
            assert {"severity", "subject", "text", "evidence", "command"} <= set(answer["findings"][0])
            runs = len(cluster.server.sent(ApiKey.DESCRIBE_CLUSTER))
            assert (await checked(page))["findings"] == answer["findings"]
            assert len(cluster.server.sent(ApiKey.DESCRIBE_CLUSTER)) == runs

    asyncio.run(story())


class RestlessCluster(ScriptedCluster):
    """A group of this cluster rebalances without end."""

    def script(self) -> dict[ApiKey, ScriptedAnswer]:
        return {
            **super().script(),
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.FIND_COORDINATOR: self.coordinators,
            ApiKey.DESCRIBE_GROUPS: self.describe_groups,
        }

    def list_groups(self, _request: Any, _version: int) -> Any:
        group = list_groups.ListedGroup(group_id="g", protocol_type="consumer", group_type="classic")
        return list_groups.ListGroupsResponse(groups=(group,))

    def coordinators(self, request: Any, _version: int) -> Any:
        here = find_coordinator.Coordinator(key="g", node_id=1, host="127.0.0.1", port=self.server.port)
        return find_coordinator.FindCoordinatorResponse(coordinators=(here,))

    def describe_groups(self, request: Any, _version: int) -> Any:
        state = describe_groups.DescribedGroup(
            group_id="g", group_state="PreparingRebalance", protocol_type="consumer"
        )
        return describe_groups.DescribeGroupsResponse(groups=(state,))


OLD_CLIENT = (
    "kafka.server:type=socket-server-metrics,clientSoftwareName=librdkafka,clientSoftwareVersion=1.9.2"
)


def test_the_check_up_finds_restless_groups_and_reads_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "LOOKS", Looks(2, 0.01))

    async def jmx(request: Request) -> Response:
        beans = [{"name": "kafka.server:type=app-info,id=1"}, {"name": OLD_CLIENT, "connections": 3}]
        return respond(json.dumps({"beans": beans}).encode(), JSON)

    async def story() -> None:
        served = HttpServer([get("/jmx", jmx)], SystemNetwork())
        endpoint = Address("127.0.0.1", await served.start("127.0.0.1", 0))
        with RestlessCluster().server as server:
            servers = {"bootstrap.servers": server.address}
            main = ClusterSettings(name="main", properties=servers, metrics=(endpoint,))
            async with console(main) as address, browser(address) as page:
                await page.open()
                findings = {finding["check"]: finding for finding in (await checked(page))["findings"]}
        await served.stop()
        assert "2 of 2 looks" in findings["rebalances"]["text"]
        assert findings["old-clients"]["evidence"] == ["librdkafka 1.9.2: 3 connections"]

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
            answer = await page.get(f"{MAIN}/traffic")
            assert answer["missing"] == 1
            assert [
                [value for _, value in answer["series"][name]] for name in ("bytes_in", "messages_in")
            ] == [
                [3.0],
                [3.0],
            ]
            assert len((await page.get(f"{MAIN}/traffic"))["series"]["bytes_out"]) == 1, "asked once in 5 s"
        await served.stop()

    asyncio.run(story())
