"""The topics on the console: the list, one topic, and the actions with their previews."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

import pytest

from kcli.cli.running import _parsed
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.topic_filter import topic_filter
from kcli.protocol.wire.api import ApiKey
from rigs.console import Browser, scripted
from rigs.scripted_cluster import ScriptedCluster

TOPICS = "/api/clusters/main/topics"
SCRIPT = "<img src=x onerror=alert(1)>"


async def known(browser: Browser, path: str) -> Any:
    """A list without missing values."""
    for _ in range(1000):
        if not (answer := await browser.get(path))["is_partial"]:
            return answer
        await asyncio.sleep(0.01)
    raise AssertionError("the sizes did not come")


def test_the_list_does_not_wait_for_sizes_and_then_has_them() -> None:
    async def story() -> None:
        async with scripted() as browser:
            first = await browser.get(TOPICS)
            assert first["is_partial"] and first["rows"][0]["size_bytes"] is None
            answer = await known(browser, TOPICS)
            assert [(row["name"], row["partitions"], row["size_bytes"]) for row in answer["rows"]] == [
                ("t", 2, 315),
                ("u", 1, 315),
            ]

    asyncio.run(story())


def test_the_server_searches_sorts_and_cuts() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.topics = {f"orders-{number:03}": number % 7 + 1 for number in range(300)} | {"Payments": 1}
        async with scripted(cluster) as browser:
            answer = await browser.get(f"{TOPICS}?search=ORDERS+29&sort=name&order=desc&offset=1&limit=3")
            assert answer["total"] == 13  # 029, 129, 229 and 290 to 299
            assert [row["name"] for row in answer["rows"]] == ["orders-298", "orders-297", "orders-296"]
            answer = await browser.get(f"{TOPICS}?sort=partitions&order=desc&limit=1")
            assert (answer["total"], answer["rows"][0]["partitions"]) == (301, 7)
            assert (await browser.get(f"{TOPICS}?search=payments"))["total"] == 1
            for wrong in ("limit=0", "limit=1001", "offset=-1", "offset=x", f"search={'x' * 301}"):
                await browser.get(f"{TOPICS}?{wrong}")
                assert browser.status == 400
            lookups = [key for key, _, _ in cluster.server.requests if key is ApiKey.METADATA]
            assert len(lookups) <= 3, "all pages of the list are cut from the same answer"

    asyncio.run(story())


def test_a_name_with_a_script_stays_text() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.topics = {SCRIPT: 1}
        async with scripted(cluster) as browser:
            answer = await browser.get(TOPICS)
            assert answer["rows"][0]["name"] == SCRIPT
            assert browser.headers["Content-Type"].startswith("application/json")
            assert browser.headers["X-Content-Type-Options"] == "nosniff"

    asyncio.run(story())


def test_one_topic_has_offsets_sizes_and_states() -> None:
    async def story() -> None:
        async with scripted() as browser:
            topic = await browser.get(f"{TOPICS}/t")
            assert (topic["partitions"], topic["offline"], topic["under_replicated"]) == (2, 1, 2)
            rows = (await browser.get(f"{TOPICS}/t/partitions"))["rows"]
            assert [(row["partition"], row["leader"], row["state"]) for row in rows] == [
                (0, 1, "under-replicated"),
                (1, None, "offline"),
            ]
            assert (rows[0]["end_offset"], rows[1]["end_offset"]) == (10, None)

    asyncio.run(story())


def test_an_unknown_topic_is_not_found() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            del cluster.server.script[ApiKey.DESCRIBE_TOPIC_PARTITIONS]  # type: ignore[attr-defined]
            answer = await browser.get(f"{TOPICS}/none")
            assert (browser.status, answer["error"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")

    asyncio.run(story())


def test_growth_has_the_samples_of_the_console() -> None:
    async def story() -> None:
        async with scripted() as browser:
            ((_, size),) = (await browser.get(f"{TOPICS}/t/growth"))["points"]
            assert size == 315

    asyncio.run(story())


def requests(cluster: ScriptedCluster, key: ApiKey) -> list[Any]:
    return cluster.server.sent(key)


def test_a_list_has_no_brackets_in_the_command_that_creates_a_topic() -> None:
    """Only `kcli configs` removes brackets."""

    async def story() -> None:
        async with scripted(ScriptedCluster()) as browser:
            lists = {"name": "new", "configs": {"cleanup.policy": "delete,compact"}, "preview": True}
            shown = (await browser.post(TOPICS, lists))["command"]
            assert shown.endswith("--create --topic new --config cleanup.policy=delete,compact")

    asyncio.run(story())


def test_a_topic_is_created_after_the_cluster_has_checked_it() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            body = {"name": "new", "partitions": 6, "configs": {"retention.ms": "5"}}
            preview = await browser.post(TOPICS, {**body, "preview": True})
            assert preview["command"].endswith("--create --topic new --partitions 6 --config retention.ms=5")
            assert "6 partitions and the default number of replicas" in preview["summary"]
            assert [request.validate_only for request in requests(cluster, ApiKey.CREATE_TOPICS)] == [True]
            await browser.post(TOPICS, body)
            sent = requests(cluster, ApiKey.CREATE_TOPICS)[-1]
            assert (sent.validate_only, sent.topics[0].num_partitions, sent.topics[0].replication_factor) == (
                False,
                6,
                -1,
            )
            answer = await browser.post(TOPICS, {"name": "t"})
            assert (browser.status, answer["error"]) == (409, "TOPIC_ALREADY_EXISTS")

    asyncio.run(story())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": 1},
        {"name": "n", "partitions": "x"},
        {"name": "n", "partitions": 10**9},
        {"name": "n", "configs": {"a": 1}},
    ],
)
def test_a_wrong_body_is_refused_before_the_cluster_sees_it(body: dict[str, object]) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            await browser.post(TOPICS, body)
            assert browser.status == 400
            assert not requests(cluster, ApiKey.CREATE_TOPICS)

    asyncio.run(story())


def test_a_preview_of_a_deletion_deletes_nothing() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            preview = await browser.post(f"{TOPICS}/t/delete", {"preview": True})
            assert "2 partitions" in preview["summary"] and preview["command"].endswith("--delete --topic t")
            assert not requests(cluster, ApiKey.DELETE_TOPICS)
            await browser.post(f"{TOPICS}/t/delete", {})
            assert len(requests(cluster, ApiKey.DELETE_TOPICS)) == 1

    asyncio.run(story())


def test_the_shown_commands_act_on_no_other_topic() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.topics = {"a.b": 1, "axb": 1, "-a": 1}
        async with scripted(cluster) as browser:
            for name in cluster.topics:
                for path, body in (("delete", {}), ("partitions", {"count": 3})):
                    preview = await browser.post(f"{TOPICS}/{name}/{path}", {**body, "preview": True})
                    words = shlex.split(preview["command"])
                    options: Any = _parsed(TOOLS[words[1]].load(), words[2:])[0]
                    assert list(filter(topic_filter(options.topic), cluster.topics)) == [name]

    asyncio.run(story())


def test_partitions_are_added_after_a_preview() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            preview = await browser.post(f"{TOPICS}/t/partitions", {"count": 3, "preview": True})
            assert preview["command"].endswith("--alter --topic t --partitions 3")
            await browser.post(f"{TOPICS}/t/partitions", {"count": 3})
            assert [request.validate_only for request in requests(cluster, ApiKey.CREATE_PARTITIONS)] == [
                True,
                False,
            ]

    asyncio.run(story())


def test_settings_show_what_the_topic_has_changed() -> None:
    async def story() -> None:
        async with scripted() as browser:
            answer = await browser.get(f"{TOPICS}/t/configs?changed=1")
            assert [(row["name"], row["value"], row["default"]) for row in answer["rows"]] == [
                ("password", None, None),
                ("retention.ms", "5", "7"),
            ]
            preview = await browser.post(
                f"{TOPICS}/t/configs", {"settings": {"retention.ms": None}, "preview": True}
            )
            assert preview["command"].endswith("--entity-name t --delete-config retention.ms")

    asyncio.run(story())


def test_an_action_ends_what_was_kept() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as browser:
            assert (await browser.get(TOPICS))["total"] == 2
            cluster.topics["v"] = 1
            assert (await browser.get(TOPICS))["total"] == 2
            await browser.post(TOPICS, {"name": "w"})
            assert (await browser.get(TOPICS))["total"] == 3

    asyncio.run(story())
