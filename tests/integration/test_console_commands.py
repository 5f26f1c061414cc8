"""The command that a page of the console shows does and prints the same as the page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.console.settings import ClusterSettings
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition
from rigs.console import Browser, browser, console
from rigs.console_topics import NOW, cluster, create, produce, record

API = "/api/clusters/main"


@contextlib.asynccontextmanager
async def site(directory: Path) -> AsyncIterator[tuple[Browser, AdminClient]]:
    """A console for a node with the topic `t`: three partitions, whose records are mixed by their times."""
    async with cluster(directory, authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS") as (
        client,
        node,
    ):
        await create(client, "t", 3)
        for partition in range(3):
            await produce(client, "t", [record(3 * n + partition) for n in range(40)], partition)
        main = ClusterSettings(name="main", properties={"bootstrap.servers": f"127.0.0.1:{node.port()}"})
        async with console(main) as address, browser(address) as found:
            await found.open()
            yield found, client


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


async def shell(command: str, directory: Path) -> str:
    """What a shell prints after a user has copied a command into it. The command must succeed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdout=PIPE, stderr=PIPE, cwd=directory, env={**os.environ, "PATH": path}
    )
    out, err = await process.communicate()
    assert process.returncode == 0, (command, err.decode())
    return out.decode()


async def page_of(found: Browser, topic: str, **query: Any) -> tuple[list[Any], str, str]:
    """The rows of a page, the cursor of the next page, and the command."""
    text = await found.get(f"{API}/topics/{topic}/messages?{urlencode(query)}")
    rows: list[Any] = []
    for event in text.strip().split("\n\n"):
        name, _, data = event.removeprefix("event: ").partition("\ndata: ")
        if name == "message":
            rows += json.loads(data)["rows"]
        if name == "done":
            done = json.loads(data)
    cursor = ",".join(f"{partition}:{offset}" for partition, offset in done["cursor"].items())
    return rows, cursor, done["command"]


def places(rows: list[Any]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


async def printed(command: str, directory: Path) -> list[tuple[int, int]]:
    return places([json.loads(line) for line in (await shell(command, directory)).splitlines()])


LISTS: list[dict[str, Any]] = [
    {},
    {"limit": 100},
    {"partitions": "0,2", "limit": 50},
    {"start": "earliest", "limit": 50},
    {"start": "offset", "value": 35, "limit": 100},
    {"start": "offset", "value": 35, "partitions": "1"},
    {"start": "time", "value": NOW + 100_000, "limit": 50},
    {"filter": 'value.n > 20 && !(key == "k22")', "limit": 50},
    {"filter": "key matches '^k1[0-9]$'", "partitions": "1,2", "committed": "1"},
]


def test_the_command_of_a_list_prints_the_records_of_the_list(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path / "node") as (found, _):
            for query in LISTS:
                rows, _, command = await page_of(found, "t", **query)
                assert rows, query
                # The newest record is the first one on the page, and the last one on a terminal.
                step = 1 if "start" in query else -1
                assert (await printed(command, tmp_path))[::step] == places(rows), command
            first, cursor, _ = await page_of(found, "t")
            more, _, command = await page_of(found, "t", cursor=cursor, shown=len(first))
            assert (await printed(command, tmp_path))[::-1] == places(first + more), (
                "also after the button More"
            )

    asyncio.run(run())


async def act(found: Browser, path: str, body: dict[str, Any], directory: Path) -> str:
    """Runs the command of a preview in place of the action, and returns what it prints."""
    preview = await found.post(f"{API}{path}", body | {"preview": True})
    assert found.status == 200, preview
    return await shell(preview["command"], directory)


def test_the_commands_of_topics_have_the_effect_of_their_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path / "node") as (found, client):
            configs = {"cleanup.policy": "compact,delete", "retention.ms": "60000"}
            new = {"name": "a.b", "partitions": 2, "replication_factor": 1, "configs": configs}
            await act(found, "/topics", new, tmp_path)
            await create(client, "axb")
            await act(found, "/topics/a.b/partitions", {"count": 3}, tmp_path)
            described = await client.describe_topics(["a.b", "axb"])
            assert [len(each.partitions) for each in described.values()] == [3, 1]
            settings = {"cleanup.policy": "delete,compact", "retention.ms": None, "segment.bytes": "1048576"}
            await act(found, "/topics/a.b/configs", {"settings": settings}, tmp_path)
            resource = ConfigResource(ConfigResourceType.TOPIC, "a.b")
            entries = (await client.describe_configs([resource]))[resource]
            values = {each.name: each.value for each in entries}
            assert values["cleanup.policy"] == "delete,compact" and values["segment.bytes"] == "1048576"
            assert values["retention.ms"] != "60000"
            await act(found, "/topics/a.b/delete", {}, tmp_path)
            assert {each.name for each in await client.list_topics()} == {"t", "axb"}

    asyncio.run(run())


ODD_GROUP = "it's a 'group' $HOME `x` --all"


def test_the_commands_of_groups_have_the_effect_of_their_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path / "node") as (found, client):
            places = [TopicPartition("t", partition) for partition in range(3)]
            await client.alter_group_offsets(ODD_GROUP, {each: CommittedOffset(offset=9) for each in places})
            group = f"/groups/{ODD_GROUP.replace(' ', '%20')}"

            async def offsets() -> list[int]:
                found = await client.list_group_offsets(ODD_GROUP)
                return [each.offset for _, each in sorted(found.items()) if isinstance(each, CommittedOffset)]

            for body, wanted in (
                ({"position": "earliest"}, [0, 0, 0]),
                ({"position": "latest", "topics": ["t:0,2"]}, [40, 0, 40]),
                ({"position": "shift", "value": -5}, [35, 0, 35]),
                ({"position": "offset", "value": 7}, [7, 7, 7]),
                ({"position": "time", "value": NOW + 60_001}, [21, 20, 20]),
                ({"position": "current", "edits": {"t:1": "3"}}, [21, 3, 20]),
            ):
                await act(found, f"{group}/reset", {"all_topics": True, **body}, tmp_path)
                assert await offsets() == wanted, body
            await act(found, f"{group}/delete-offsets", {"topic": "t"}, tmp_path)
            assert await offsets() == []

    asyncio.run(run())


def test_the_commands_of_records_have_the_effect_of_their_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path / "node") as (found, client):
            await create(client, "copy", 2)
            large = record(1, value=b"x" * 5000, key=b"")
            await produce(client, "t", [large], 0)
            send = {
                "key": {"format": "text", "text": ""},
                "value": {"format": "text", "text": "it's"},
                "partition": 1,
            }
            await act(found, "/topics/copy/messages/send", send, tmp_path)
            for body in (
                {"partition": 0, "offset": 4, "target": "copy", "target_partition": 0},
                {
                    "partition": 0,
                    "offset": 4,
                    "target": "copy",
                    "target_partition": 0,
                    "keep_timestamp": True,
                },
                {"partition": 0, "offset": 40, "target": "copy", "target_partition": 1},
                {
                    "partition": 0,
                    "offset": 40,
                    "target": "copy",
                    "target_partition": 1,
                    "keep_timestamp": True,
                },
            ):
                await act(found, "/topics/t/messages/resend", body, tmp_path)
            rows, _, _ = await page_of(found, "copy", start="earliest")
            of = {partition: [row for row in rows if row["partition"] == partition] for partition in (0, 1)}
            assert [
                row["timestamp"] == NOW + 12_000 for row in sorted(of[0], key=lambda row: row["offset"])
            ] == [False, True]
            sizes = [
                (row["key"]["format"], row["value"]["size"])
                for row in sorted(of[1], key=lambda row: row["offset"])
            ]
            assert sizes == [("empty", 4), ("empty", 5000), ("empty", 5000)]
            await act(found, "/topics/t/messages/delete", {"before": {"0": "6"}}, tmp_path)
            shown = await found.get(f"{API}/topics/t/partitions?fresh=1")
            assert [row["first_offset"] for row in shown["rows"]] == [6, 0, 0]

    asyncio.run(run())


def test_the_commands_of_rights_and_limits_have_the_effect_of_their_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path / "node") as (found, client):
            acl = {
                "principal": "User:it's me",
                "permission": "ALLOW",
                "use": "consumer",
                "name": "t",
                "group": "g h",
                "host": "10.0.0.1",
            }
            wanted = (await found.post(f"{API}/acls", acl | {"preview": True}))["details"]
            await act(found, "/acls", acl, tmp_path)
            rows = (await found.get(f"{API}/acls?fresh=1"))["rows"]
            assert sorted(map(str, rows)) == sorted(map(str, wanted))
            await act(found, "/acls/remove", rows[0], tmp_path)
            assert len(await client.describe_acls()) == len(rows) - 1
            limits = {"producer_byte_rate": 1000, "request_percentage": 20}
            await act(
                found, "/quotas", {"entity": {"user": "it's", "client-id": None}, "limits": limits}, tmp_path
            )
            (quota,) = (await found.get(f"{API}/quotas"))["rows"]
            assert (quota["user"], quota["client_id"], quota["limits"]) == ("it's", None, limits)

    asyncio.run(run())
