"""The pages about Kafka Connect: lists, one connector, actions, forms and secrets, and the permissions of users."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.console.connect.secrets import secrets_of
from kcli.console.settings import ClusterSettings
from kcli.http.connect_rest import ConnectRest
from kcli.model.acl import AclOperation
from rigs.connect_rest import ConnectApi, config_key, connect_api, validation
from rigs.console import Browser, browser, console
from rigs.console_rights import EVERYTHING, RightsCluster

TRACE = "ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.\nCaused by: boom"
CLASS = "org.example.Sink"
CONFIG = {
    "connector.class": CLASS,
    "topics": "t",
    "connection.password": "s3cret",
    "file": "${env:x}",
    "name": "a",
}


@pytest.fixture
def api() -> Iterator[ConnectApi]:
    with connect_api() as served:
        served.has("a", "RUNNING", "FAILED", trace=TRACE, config=CONFIG)
        served.has("b/c", connector="STOPPED")
        yield served


@dataclass
class Page:
    """A browser at a console with one worker."""

    browser: Browser
    base: str

    async def get(self, path: str) -> Any:
        return await self.browser.get(f"/api/clusters/main/connect{path}")

    async def post(self, path: str, body: object) -> Any:
        return await self.browser.post(f"/api/clusters/main/connect{path}", body)


@asynccontextmanager
async def opened(
    *urls: str, operations: frozenset[AclOperation] = EVERYTHING, **settings: Any
) -> AsyncIterator[Page]:
    cluster = RightsCluster(operations)
    with cluster.server as server:
        workers = tuple(map(ConnectRest.at, urls))
        main = ClusterSettings(name="main", properties={"bootstrap.servers": server.address}, connect=workers)
        async with console(main, **settings) as address, browser(address) as page:
            await page.open()
            yield Page(page, workers[0].place.replace("/", "%2F"))


def walk(story: Callable[[Page], Coroutine[Any, Any, None]], *urls: str, **settings: Any) -> None:
    async def run() -> None:
        async with opened(*urls, **settings) as page:
            await story(page)

    asyncio.run(run())


def test_connectors_of_all_workers_are_one_list(api: ConnectApi) -> None:
    async def story(page: Page) -> None:
        workers = (await page.get(""))["workers"]
        assert [(row["version"], row["problem"] is None) for row in workers] == [
            ("4.1.0", True),
            (None, False),
        ]
        assert "secret" not in json.dumps(workers)
        rows = (await page.get("/connectors"))["rows"]
        assert [(row["name"], row["state"], row["tasks"], row["running"], row["failed"]) for row in rows] == [
            ("a", "RUNNING", 2, 1, 1),
            ("b/c", "STOPPED", 0, 0, 0),
        ]
        assert [row["name"] for row in (await page.get("/connectors?state=STOPPED"))["rows"]] == ["b/c"]
        assert [row["name"] for row in (await page.get("/connectors?search=running"))["rows"]] == ["a"]

    walk(story, api.url, "http://ann:secret@127.0.0.1:1")


def test_a_connector_shows_its_tasks_with_traces_and_advice(api: ConnectApi) -> None:
    api.answers["GET /connectors/a/topics"] = (200, {"a": {"topics": ["u", "t"]}})
    api.answers["GET /connectors/a/offsets"] = (200, {"offsets": [{"partition": {"p": 1}, "offset": None}]})

    async def story(page: Page) -> None:
        found = await page.get(f"/{page.base}/connectors/a")
        assert (found["type"], found["connector_class"], found["topics"]) == ("sink", CLASS, ["t", "u"])
        first, second = found["tasks"]
        assert (first["state"], first["hint"]) == ("RUNNING", "")
        assert (second["state"], second["trace"]) == ("FAILED", TRACE)
        assert "errors.tolerance covers only" in second["hint"]
        offsets = (await page.get(f"/{page.base}/connectors/a/offsets"))["offsets"]
        assert offsets == [{"partition": {"p": 1}, "offset": None}]
        assert (await page.get(f"/{page.base}/connectors/b%2Fc"))["connector"]["state"] == "STOPPED"
        await page.get(f"/{page.base}/connectors/nope")
        assert page.browser.status == 404
        await page.get("/elsewhere:1/connectors/a")
        assert page.browser.status == 404

    # The scripted API takes the path as it was sent.
    api.answers["GET /connectors/b%2Fc/status"] = api.answers["GET /connectors/b/c/status"]
    api.answers["GET /connectors/b%2Fc"] = api.answers["GET /connectors/b/c"]
    walk(story, api.url)


@pytest.mark.parametrize(
    ("action", "body", "request_line", "command"),
    [
        ("pause", {}, "PUT /connectors/a/pause", "kcli connect pause a --url URL"),
        ("resume", {}, "PUT /connectors/a/resume", "kcli connect resume a --url URL"),
        ("stop", {}, "PUT /connectors/a/stop", "kcli connect stop a --url URL"),
        (
            "restart",
            {"failed": True},
            "POST /connectors/a/restart?includeTasks=true&onlyFailed=true",
            "kcli connect restart a --failed --url URL",
        ),
        (
            "restart",
            {},
            "POST /connectors/a/restart?includeTasks=true&onlyFailed=false",
            "kcli connect restart a --url URL",
        ),
        ("delete", {}, "DELETE /connectors/a", "kcli connect delete a --url URL"),
        ("reset-offsets", {}, "DELETE /connectors/a/offsets", "kcli connect offsets a --reset --url URL"),
    ],
)
def test_an_action_is_previewed_done_and_audited(
    action: str, body: dict[str, object], request_line: str, command: str, api: ConnectApi, tmp_path: Path
) -> None:
    api.answers[request_line.partition("?")[0]] = (202, None)
    audit = tmp_path / "audit"

    async def story(page: Page) -> None:
        path = f"/{page.base}/connectors/a/{action}"
        preview = await page.post(path, {**body, "preview": True})
        assert preview["command"] == command.replace("URL", api.url)
        assert preview["summary"].startswith("The connector a is RUNNING. ")
        assert (api.requests, audit.exists() and audit.read_text()) == ([], "")
        await page.post(path, body)
        assert page.browser.status == 200
        assert api.requests == [(request_line, None)]
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        assert lines[-1]["target"] == f"connector a at {page.base}"
        await page.post(f"/{page.base}/connectors/nope/{action}", {**body, "preview": True})
        assert page.browser.status == 404

    walk(story, api.url, audit_file=str(audit))


def test_a_refusal_of_the_worker_is_the_answer(api: ConnectApi) -> None:
    api.answers["PUT /connectors/a/stop"] = (500, {"error_code": 500, "message": "no"})

    async def story(page: Page) -> None:
        answer = await page.post(f"/{page.base}/connectors/a/stop", {})
        assert (page.browser.status, answer) == (502, {"error": "WORKER_REFUSED", "message": "no"})

    walk(story, api.url)


@pytest.mark.parametrize(
    ("operations", "statuses"),
    [
        (frozenset(), (403, 403, 403)),
        (frozenset({AclOperation.DESCRIBE_CONFIGS}), (200, 200, 403)),
        (EVERYTHING, (200, 200, 200)),
    ],
)
def test_a_user_needs_permissions_on_the_cluster(
    operations: frozenset[AclOperation], statuses: tuple[int, ...], api: ConnectApi
) -> None:
    async def story(page: Page) -> None:
        found = []
        for path in ("", "/connectors"):
            await page.get(path)
            found.append(page.browser.status)
        await page.post(f"/{page.base}/connectors/a/pause", {"preview": True})
        found.append(page.browser.status)
        assert tuple(found) == statuses

    walk(story, api.url, operations=operations)


def test_a_console_that_only_reads_refuses_actions(api: ConnectApi) -> None:
    async def story(page: Page) -> None:
        answer = await page.post(f"/{page.base}/connectors/a/delete", {})
        assert (page.browser.status, answer["error"], api.requests) == (403, "READ_ONLY", [])

    walk(story, api.url, is_read_only=True)


def validates(api: ConnectApi, *keys: Mapping[str, object]) -> None:
    api.answers[f"PUT /connector-plugins/{CLASS}/config/validate"] = (
        200,
        validation(*keys),
    )
    api.answers["GET /connectors/a/config"] = (200, CONFIG)


def test_secrets_stay_in_the_worker(api: ConnectApi) -> None:
    """A page gets [hidden], and sends it back for a value that stays. Errors do not quote secrets."""
    validates(api, config_key("connection.password", "PASSWORD", errors=("Invalid value s3cret",)))
    api.answers["PUT /connectors/a/config"] = (200, {})

    async def story(page: Page) -> None:
        config = (await page.get(f"/{page.base}/connectors/a/config"))["config"]
        assert config == {**CONFIG, "connection.password": "[hidden]"}
        body = {"name": "a", "config": {**config, "topics": "t,u"}}
        preview = await page.post(f"/{page.base}/configs", {**body, "preview": True})
        assert "s3cret" not in json.dumps(preview)
        assert preview["details"]["errors"] == ["connection.password: Invalid value [hidden]"]
        await page.post(f"/{page.base}/configs", body)
        assert api.requests[-1] == ("PUT /connectors/a/config", {**CONFIG, "topics": "t,u"})
        answer = await page.post(f"/{page.base}/configs", {"name": "new", "config": {"x": "[hidden]"}})
        assert (page.browser.status, "x: write the secret" in answer["message"]) == (400, True)

    walk(story, api.url)


def test_a_secret_inside_of_a_value_is_hidden_too() -> None:
    public = {
        "connection.url": "jdbc:postgresql://h:5432/d?user=ann&ssl=true",
        "a.url": "jdbc:mysql://h/d?password=${file:/x:y}",
        "topics": "tokens,passwords",
        "headers": "Accept:text/plain",
        "transforms.m.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    }
    secret = {
        "connection.url": "jdbc:postgresql://h/d?user=ann&password=s3cret",
        "http.api.url": "https://ann:s3cret@h/x",
        "headers": "Accept:text/plain|Authorization: Bearer s3cret",
        "value.converter.basic.auth.user.info": "ann:s3cret",
    }
    assert secrets_of(public, ()) == {}
    assert secrets_of(secret, ()) == secret


def test_the_keys_of_the_plugin_make_the_form(api: ConnectApi) -> None:
    validates(
        api,
        config_key("topics", errors=("bad",)),
        config_key("x.password", "PASSWORD"),
        config_key("unseen", visible=False),
    )

    async def story(page: Page) -> None:
        body = {"name": "new", "config": {"connector.class": CLASS}, "preview": True}
        preview = await page.post(f"/{page.base}/configs", body)
        topics, password = preview["details"]["keys"]
        assert (topics["name"], topics["title"], topics["group"], topics["is_secret"]) == (
            "topics", "topics", "Connector", False,
        )  # fmt: skip
        assert (topics["errors"], topics["recommended"], topics["is_required"]) == (["bad"], ["r"], True)
        assert (password["name"], password["is_secret"]) == ("x.password", True)
        assert preview["summary"] == "The configuration is invalid: topics: bad"
        assert api.requests == [
            (f"PUT /connector-plugins/{CLASS}/config/validate", {"connector.class": CLASS, "name": "new"})
        ]

    walk(story, api.url)


def test_a_preview_names_the_keys_that_change(api: ConnectApi) -> None:
    validates(api)

    async def story(page: Page) -> None:
        async def summary(name: str, config: dict[str, str]) -> str:
            body = {"name": name, "config": config, "preview": True}
            return str((await page.post(f"/{page.base}/configs", body))["summary"])

        assert await summary("a", CONFIG) == "The connector a has this configuration already."
        assert "a will change: file, topics." in await summary("a", {**CONFIG, "topics": "u", "file": "y"})
        new = {"connector.class": CLASS}
        assert await summary("n", new) == "The connector n will be created. Its configuration is valid."
        assert "connector.class is missing" in await summary("n", {})
        assert "HTTP 404" in await summary("n", {"connector.class": "Unknown"})
        body = {"name": "a", "config": CONFIG, "is_new": True}
        answer = await page.post(f"/{page.base}/configs", body)
        assert (page.browser.status, answer["error"]) == (409, "CONNECTOR_EXISTS")
        await page.post(f"/{page.base}/configs", {"name": "a", "config": {"name": "b"}})
        assert page.browser.status == 400

    walk(story, api.url)


def test_the_plugins_are_listed(api: ConnectApi) -> None:
    api.plugins([CLASS])

    async def story(page: Page) -> None:
        plugins = (await page.get(f"/{page.base}/plugins"))["plugins"]
        assert plugins == [{"class": CLASS, "type": "sink", "version": "1"}]

    walk(story, api.url)
