"""What a page sees if the cluster, the console or the browser goes away, and how many calls run at the same time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kcli.console import connection
from kcli.console.failures import failure_of
from kcli.console.page_handlers import REQUEST_MAX_SECONDS
from kcli.errors import ErrorCode, error_for
from kcli.protocol.wire.api import ApiKey
from rigs.console import browser, scripted
from rigs.scripted_cluster import ScriptedCluster

BROKERS = "/api/clusters/main/brokers"
TOPICS = "/api/clusters/main/topics"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 403),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 404),
        (ErrorCode.GROUP_ID_NOT_FOUND, 404),
        (ErrorCode.TOPIC_ALREADY_EXISTS, 409),
        (ErrorCode.INVALID_CONFIG, 400),
        (ErrorCode.REQUEST_TIMED_OUT, 504),
        (ErrorCode.NOT_CONTROLLER, 503),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, 401),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 502),
    ],
)
def test_an_error_of_the_cluster_has_a_fitting_status(code: ErrorCode, status: int) -> None:
    failure = failure_of(error_for(code))
    assert failure is not None
    assert failure.status == status
    assert failure.message


def test_a_mistake_in_the_program_is_no_failure_of_the_cluster() -> None:
    assert failure_of(ValueError("a bug")) is None


def test_a_broker_that_dies_while_the_page_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.console.identity.CALL_MAX_MS", 300)

    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as page:
            assert (await page.get(BROKERS))["total"] == 1
            cluster.server.__exit__()
            answer = await page.get(f"{BROKERS}/1/configs")
            assert (page.status, answer["error"]) == (504, "TIMEOUT")
            assert f"no connection to 127.0.0.1:{cluster.server.port}" in answer["message"]
            assert (await page.get(BROKERS))["total"] == 1, "the kept answer, with its age"

    asyncio.run(story())


def test_an_action_continues_if_the_browser_goes_away() -> None:
    arrived, released = threading.Event(), threading.Event()

    class Slow(ScriptedCluster):
        def create(self, request: Any, version: int) -> Any:
            arrived.set()
            released.wait(10)
            self.topics["new"] = 1
            return super().create(request, version)

    async def story() -> None:
        async with scripted(Slow()) as page:
            task = asyncio.create_task(page.post(TOPICS, {"name": "new"}))
            await asyncio.to_thread(arrived.wait, 10)
            task.cancel()
            released.set()
            for _ in range(500):
                if (await page.get(f"{TOPICS}?fresh=1&search=new"))["total"] == 1:
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("the topic was not created")

    asyncio.run(story())


def test_few_calls_of_a_user_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALLS_AT_ONCE", 2)
    monkeypatch.setattr("kcli.console.page_handlers.REQUEST_MAX_SECONDS", 0.3)
    assert REQUEST_MAX_SECONDS > 1

    class Stuck(ScriptedCluster):
        def configs(self, request: Any, version: int) -> Any:
            released.wait(10)
            return super().configs(request, version)

    released = threading.Event()

    async def story() -> None:
        cluster = Stuck()
        async with scripted(cluster) as page, browser(page.address) as other:
            waiting = [asyncio.create_task(page.get(f"{TOPICS}/{name}/configs")) for name in "abcd"]
            await asyncio.wait(waiting)
            assert [(await task)["error"] for task in waiting] == ["TIMEOUT"] * 4
            assert len(cluster.server.sent(ApiKey.DESCRIBE_CONFIGS)) <= 2
            released.set()
            await other.open()

    asyncio.run(story())
    released.set()
