"""The routes of records over HTTP, against a running node: streams, one record, actions with preview, errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.console.settings import ClusterSettings
from rigs.console import Browser, browser, console
from rigs.console_topics import NOW, cluster, create, produce, record

ROOT = Path(__file__).resolve().parents[2]
API = "/api/clusters/main"


@contextlib.asynccontextmanager
async def site(directory: Path, **settings: Any) -> AsyncIterator[tuple[Browser, AdminClient]]:
    """A console for a node with the topic `t`: two partitions, ten records in the first."""
    async with cluster(directory) as (client, node):
        await create(client, "t", 2)
        await produce(client, "t", [record(n) for n in range(10)])
        main = ClusterSettings(name="main", properties={"bootstrap.servers": f"127.0.0.1:{node.port()}"})
        async with console(main, **settings) as address, browser(address) as found:
            await found.open()
            yield found, client


async def events(found: Browser, path: str) -> list[tuple[str, Any]]:
    """The events of a stream that ends by itself."""
    text = await found.get(API + path)
    pairs = [each.split("\ndata: ", 1) for each in text.strip().split("\n\n") if each.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in pairs]


def test_a_list_is_a_stream_with_rows_and_a_command(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path) as (found, _):
            query = "start=time&value=1767225604000&filter=value.n%20%3E%207&limit=1&committed=1&partitions=0"
            got = await events(found, f"/topics/t/messages?{query}")
            assert [name for name, _ in got] == ["message", "done"]
            assert got[0][1]["rows"][0]["key"]["text"] == "k8"
            assert got[1][1]["reason"] == "limit" and got[1][1]["cursor"] == {"0": 9}
            assert "--from-time 1767225604000" in got[1][1]["command"]
            assert "--isolation-level read_committed" in got[1][1]["command"]
            got = await events(found, "/topics/t/messages?start=earliest&cursor=0:9,1:0")
            assert [row["offset"] for row in got[0][1]["rows"]] == [9]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/topics/t/messages?filter=value%20%3D%201", "INVALID_FILTER"),
        ("/topics/t/messages?start=somewhere", "BAD_REQUEST"),
        ("/topics/t/messages?partitions=0,x", "BAD_REQUEST"),
        ("/topics/t/messages?partitions=7", "UNKNOWN_PARTITION"),
        ("/topics/t/messages?cursor=1", "BAD_REQUEST"),
        ("/topics/t/messages?key_format=xml", "BAD_REQUEST"),
        ("/topics/t/messages?limit=501", "BAD_REQUEST"),
        ("/topics/none/messages", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/topics/none/messages/tail", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/topics/none/analysis", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("/topics/t/messages/record?partition=0&offset=99", "NO_SUCH_RECORD"),
        ("/messages/filter?filter=(", "INVALID_FILTER"),
    ],
)
def test_a_mistake_has_its_own_error(shared_site: Any, path: str, error: str) -> None:
    async def run(found: Browser) -> None:
        text = await found.get(API + path)
        if isinstance(text, dict):
            assert text["error"] == error
        else:
            assert (
                text.startswith("event: error") and json.loads(text.split("data: ", 1)[1])["error"] == error
            )

    shared_site(run)


@pytest.fixture(scope="module")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs a test with one console that the tests of this module share."""
    loop = asyncio.new_event_loop()
    stack = contextlib.AsyncExitStack()
    found, _ = loop.run_until_complete(stack.enter_async_context(site(tmp_path_factory.mktemp("node"))))
    yield lambda test: loop.run_until_complete(test(found))
    loop.run_until_complete(stack.aclose())
    loop.close()


def test_one_record_and_its_bytes(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path) as (found, _):
            place = "partition=0&offset=3"
            got = await found.get(f"{API}/topics/t/messages/record?{place}&key_format=hex")
            assert got["key"]["text"] == "00000000  6b 33                                            k3"
            assert got["value"] == {"format": "json", "size": 8, "text": '{\n  "n": 3\n}'}
            assert await found.get(f"{API}/topics/t/messages/raw?{place}&part=value") == '{"n": 3}'
            assert found.headers["Content-Disposition"] == 'attachment; filename="t-0-3.value"'
            assert found.headers["Content-Type"] == "application/octet-stream"
            lines = await found.get(f"{API}/topics/t/messages/download?start=earliest&filter=offset%3C2")
            assert [json.loads(line)["key"] for line in lines.splitlines()] == ["k0", "k1"]

    asyncio.run(run())


def test_a_preview_changes_nothing_and_an_action_does(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path) as (found, client):
            body = {
                "key": {"format": "text", "text": "ä"},
                "value": None,
                "headers": [["h", "1"], ["n", None]],
                "partition": 1,
                "timestamp": NOW,
            }
            send = f"{API}/topics/t/messages/send"
            got = await found.post(send, body | {"preview": True})
            assert got["summary"] == "This sends a tombstone to partition 1 of t."
            assert "console-producer" in got["command"] and "--keep-partition" in got["command"]
            assert (await events(found, "/topics/t/messages?partitions=1"))[0][0] == "done"
            got = await found.post(send, body)
            assert got["details"] == {"partition": 1, "offset": 0}
            row = (await events(found, "/topics/t/messages?partitions=1"))[0][1]["rows"][0]
            assert (row["key"]["text"], row["value"]["format"], row["timestamp"]) == ("ä", "null", NOW)
            assert [each["key"] for each in row["headers"]] == ["h", "n"]

            await create(client, "copy")
            resend = {"partition": 0, "offset": 4, "target": "copy", "keep_timestamp": True}
            got = await found.post(f"{API}/topics/t/messages/resend", resend)
            assert "console-consumer" in got["command"] and "--topic copy" in got["command"]
            row = (await events(found, "/topics/copy/messages"))[0][1]["rows"][0]
            assert (row["key"]["text"], row["value"]["text"]) == ("k4", '{"n": 4}')
            assert row["timestamp"] == NOW + 4000

            delete = {"before": {"0": "6"}}
            got = await found.post(f"{API}/topics/t/messages/delete", delete | {"preview": True})
            assert got["details"] == [{"partition": 0, "start": 0, "end": 10, "before": 6, "offsets": 6}]
            await found.post(f"{API}/topics/t/messages/delete", delete)
            got = await found.post(
                f"{API}/topics/t/messages/delete", {"before": {"0": "-1"}, "preview": True}
            )
            assert got["details"][0]["offsets"] == 4

    asyncio.run(run())


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("send", {"key": "text"}),
        ("send", {"value": {"format": "hex", "text": "0"}}),
        ("send", {"value": {"format": "json", "text": "{"}}),
        ("send", {"partition": 9}),
        ("send", {"partition": -1}),
        ("send", {"headers": [["a"]]}),
        ("send", {"headers": [["\ud800", "x"]]}),
        ("resend", {"partition": 0, "offset": 1}),
        ("delete", {}),
        ("delete", {"before": {"0": "x"}}),
        ("delete", {"before": {"0": "11"}}),
        ("delete", {"before": {"0": "-2"}}),
        ("delete", {"before": {"a": "1"}}),
    ],
)
def test_an_invalid_action_is_refused(shared_site: Any, action: str, body: dict[str, Any]) -> None:
    async def run(found: Browser) -> None:
        got = await found.post(f"{API}/topics/t/messages/{action}", body)
        assert found.status == 400, got

    shared_site(run)


def test_a_console_that_only_reads_refuses_actions_and_still_shows_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path, is_read_only=True) as (found, _):
            for action in ("send", "resend", "delete"):
                await found.post(f"{API}/topics/t/messages/{action}", {"preview": True})
                assert found.status == 403
            assert len((await events(found, "/topics/t/messages"))[0][1]["rows"]) == 10

    asyncio.run(run())


def test_a_closed_page_gives_its_place_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path) as (found, _):
            for _ in range(20):  # more than the places of a console
                address = f"{found.address}{API}/topics/t/messages/tail"
                async with found.http.get(address) as answer:
                    assert b"progress" in await answer.content.readany()
                await asyncio.sleep(0.02)

    asyncio.run(run())


async def shell(command: str) -> str:
    """Runs the command line of a page, and returns what it prints."""
    python = f"{shlex.quote(sys.executable)} -m kcli "
    process = await asyncio.create_subprocess_shell(
        command.replace("kcli ", python), stdout=PIPE, stderr=PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors
    return out.decode()


def test_the_command_lines_do_the_same_as_the_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async with site(tmp_path) as (found, client):
            await create(client, "copy")
            api = f"{API}/topics/t/messages"
            value = {"format": "text", "text": 'it\'s "quoted" $HOME\n'}
            got = await found.post(f"{api}/send", {"value": value, "partition": 1, "preview": True})
            await shell(got["command"])
            resend = {"partition": 0, "offset": 4, "target": "copy", "preview": True}
            await shell((await found.post(f"{api}/resend", resend))["command"])
            await shell(
                (await found.post(f"{api}/delete", {"before": {"0": "7"}, "preview": True}))["command"]
            )
            rows = (await events(found, "/topics/t/messages?start=earliest"))[0][1]["rows"]
            assert [row["offset"] for row in rows if row["partition"] == 0] == [7, 8, 9]
            sent = [row for row in rows if row["partition"] == 1]
            assert [row["value"]["text"] for row in sent] == [value["text"]]
            copied = (await events(found, "/topics/copy/messages"))[0][1]["rows"]
            assert [row["key"]["text"] for row in copied] == ["k4"]
            done = (await events(found, "/topics/t/messages?limit=2&partitions=0"))[-1][1]
            lines = (await shell(done["command"])).splitlines()
            assert [json.loads(line)["offset"] for line in lines] == [8, 9]

    asyncio.run(run())
