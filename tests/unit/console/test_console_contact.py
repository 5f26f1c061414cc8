"""A cluster that does not answer is known within seconds, and old values are never shown as new ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.client.config import ClientConfig
from kcli.console import contact as room
from kcli.console.contact import Contact, NoAnswer
from kcli.console.settings import ClusterSettings
from kcli.errors import ErrorCode, SaslAuthenticationException
from kcli.model.addresses import Address
from kcli.protocol.messages import list_offsets
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from rigs import loops
from rigs.console import Browser, browser, console, scripted
from rigs.scripted_cluster import ScriptedCluster
from rigs.scripted_server import ScriptedAnswer
from rigs.spark_jobs import checkpoint

MAIN = "/api/clusters/main"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PROBE_SECONDS", 0.02)
    monkeypatch.setattr(room, "CHECK_SECONDS", 0.02)


async def until(page: Browser, is_right: Callable[[Any], bool], path: str = "/contact") -> Any:
    for _ in range(1000):
        answer = await page.get(f"{MAIN}{path}")
        if is_right(answer):
            return answer
        await asyncio.sleep(0.01)
    raise AssertionError(answer)


@contextlib.asynccontextmanager
async def scripted_with(cluster: ScriptedCluster, **settings: Any) -> AsyncIterator[Browser]:
    """A browser at a console with more settings of its cluster."""
    with cluster.server as server:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": server.address}, **settings)
        async with console(main) as address, browser(address) as page:
            await page.open()
            yield page


def test_an_answer_of_a_healthy_cluster_has_its_time_and_nothing_is_silent() -> None:
    async def story() -> None:
        async with scripted() as page:
            answer = await page.get(f"{MAIN}/overview")
            assert (answer["stale"], answer["unreachable"]) == (False, None)
            assert 0 <= answer["age_ms"] < 10_000 and answer["as_of"] > 1_700_000_000_000

    asyncio.run(story())


def test_the_kept_figures_of_a_dead_cluster_are_marked_as_old_and_the_server_is_named() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as page:
            assert (await page.get(f"{MAIN}/overview"))["stale"] is False
            await until(page, lambda answer: answer["unreachable"] is None)
            cluster.server.__exit__()
            answer = await until(page, lambda answer: answer["unreachable"] is not None, "/overview")
            assert (answer["brokers"], answer["stale"], answer["unreachable"]["is_whole"]) == (1, True, True)
            (server,) = answer["unreachable"]["servers"]
            assert server["name"] == f"broker 1 at 127.0.0.1:{cluster.server.port}"
            assert server["reason"] and server["for_ms"] >= 0

    asyncio.run(story())


def test_a_list_that_is_not_known_ends_at_once_with_the_servers_that_do_not_answer() -> None:
    async def story() -> None:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": "127.0.0.1:1"})
        async with console(main) as address, browser(address) as page:
            await page.open()
            answer = await page.get(f"{MAIN}/topics")
            assert (page.status, answer["error"]) == (504, "NO_ANSWER")
            assert "127.0.0.1:1 (connection refused) does not answer" in answer["message"]

    asyncio.run(story())


async def with_server(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    story: Callable[[Contact], Awaitable[None]],
) -> None:
    """A contact to a server that `answer` makes."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    config = ClientConfig(servers=(Address("127.0.0.1", server.sockets[0].getsockname()[1]),))
    contact = Contact(config, SystemNetwork(), asyncio.get_running_loop().time)
    try:
        await story(contact)
    finally:
        await contact.close()
        await asyncio.sleep(0.05)  # the server notices the end of the connections
        server.close()


def test_a_frozen_server_is_silent_although_it_accepts_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "NO_ANSWER_SECONDS", 0.1)

    async def frozen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await reader.read()

    async def story(contact: Contact) -> None:
        with pytest.raises(NoAnswer, match=r"no answer in 0.1 s.* does not answer since"):
            await contact.guarded(asyncio.sleep(60))
        assert contact.is_lost

    asyncio.run(with_server(frozen, story))


def test_a_cluster_that_comes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with scripted() as page:
            await until(page, lambda answer: answer["unreachable"] is None)
            probe = Contact._ask
            monkeypatch.setattr(Contact, "_ask", _refuse)
            await until(page, lambda answer: answer["unreachable"] is not None)
            monkeypatch.setattr(Contact, "_ask", probe)
            assert (await until(page, lambda answer: not answer["stale"]))["unreachable"] is None

    async def _refuse(*_: object) -> None:
        raise ConnectionRefusedError

    asyncio.run(story())


def test_a_silent_server_among_others_ends_only_requests_that_wait_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "PATIENCE_SECONDS", 0.1)

    async def story() -> None:
        with ScriptedCluster().server as server:
            config = ClientConfig(servers=(Address("127.0.0.1", server.port), Address("127.0.0.1", 1)))
            contact = Contact(config, SystemNetwork(), asyncio.get_running_loop().time)
            monkeypatch.setattr(contact, "_learn", lambda _: None)
            contact.used()
            await loops.until(lambda: contact.silence() is not None)
            assert not contact.is_lost
            assert await contact.guarded(asyncio.sleep(0.05, "in time"), patience_seconds=5) == "in time"
            with pytest.raises(NoAnswer, match=r"^127\.0\.0\.1:1 \(connection refused\) does not answer"):
                await contact.guarded(asyncio.sleep(60), patience_seconds=0.1)
            await contact.close()

    asyncio.run(story())


def test_a_server_that_refuses_the_login_answers_and_is_not_asked_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    addresses: list[Address] = []

    async def refuse(_: Contact, address: Address, *__: object) -> None:
        addresses.append(address)
        raise SaslAuthenticationException("wrong password")

    async def story() -> None:
        monkeypatch.setattr(Contact, "_ask", refuse)
        config = ClientConfig(servers=(Address("127.0.0.1", 1),))
        contact = Contact(config, SystemNetwork(), asyncio.get_running_loop().time)
        contact.used()
        await loops.until(lambda: bool(addresses))
        await asyncio.sleep(0.2)
        assert (len(addresses), contact.silence()) == (1, None)
        await contact.close()

    asyncio.run(story())


def test_the_probes_end_after_the_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "USED_SECONDS", 0.0)

    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as page:
            await page.get(f"{MAIN}/contact")
            await asyncio.sleep(0.1)
            before = len(cluster.server.sent(ApiKey.METADATA))
            await asyncio.sleep(0.1)
            assert len(cluster.server.sent(ApiKey.METADATA)) == before

    asyncio.run(story())


def test_the_lag_of_a_spark_query_is_unknown_if_the_cluster_does_not_answer(tmp_path: Path) -> None:
    made = checkpoint(tmp_path / "q", {"t": {"0": 1, "1": 11}})

    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted_with(cluster, spark_checkpoints=(str(made),)) as page:
            (row,) = (await page.get(f"{MAIN}/spark/queries"))["rows"]
            assert row["lag"] is not None
            cluster.server.__exit__()
            answer = await until(page, lambda answer: answer["unreachable"] is not None, "/spark/queries")
            (row,) = answer["rows"]
            assert (row["lag"], row["unanswered_topics"], row["hidden_topics"]) == (None, 1, 0)
            assert row["batch"] == 7, "the checkpoint is known without the cluster"

    asyncio.run(story())


class Half(ScriptedCluster):
    """The end of partition 1 is unknown, because its leader does not answer."""

    def script(self) -> dict[ApiKey, ScriptedAnswer]:
        return {**super().script(), ApiKey.LIST_OFFSETS: self.half}

    def half(self, request: Any, version: int) -> Any:
        def answer(number: int) -> list_offsets.ListOffsetsPartitionResponse:
            code = ErrorCode.LEADER_NOT_AVAILABLE if number else ErrorCode.NONE
            return list_offsets.ListOffsetsPartitionResponse(
                partition_index=number, offset=10, error_code=code
            )

        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(answer(partition.partition_index) for partition in topic.partitions),
                )
                for topic in request.topics
            )
        )


def test_a_lag_without_the_end_of_a_partition_is_unknown_and_not_a_smaller_sum(tmp_path: Path) -> None:
    made = checkpoint(tmp_path / "q", {"t": {"0": 10, "1": 2}})

    async def story() -> None:
        async with scripted_with(Half(), spark_checkpoints=(str(made),)) as page:
            (row,) = (await page.get(f"{MAIN}/spark/queries"))["rows"]
            assert (row["lag"], row["topics"]) == (None, [{"topic": "t", "partitions": 2, "lag": None}])

    asyncio.run(story())
