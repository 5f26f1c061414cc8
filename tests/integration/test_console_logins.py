"""Logins of the web console with users of a real node: each session has the rights of its own user, and no others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from kcli.console import sessions
from kcli.console.settings import ClusterSettings
from rigs.console import Browser, browser, console
from rigs.node import RunningNode, running
from rigs.sasl import SASL_LISTENER, add_user

PATIENCE_S = 30.0
CONNECT = "/api/clusters/main/connect"
TOPICS = "/api/clusters/main/topics"
SCRAM_USER, SCRAM_PASSWORD = 'eve "the\\user', 'p"w\\1234\n;'
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:alice",
}
PLAIN = {"username": "alice", "password": "a=b,c", "mechanism": "PLAIN", "cluster": "main"}
BOB = {**PLAIN, "username": "bob", "password": "bob-secret"}


def with_console(
    directory: Path,
    story: Callable[[RunningNode, str, Browser], Awaitable[None]],
    *,
    jaas: str = "",
    log: Path | None = None,
) -> None:
    async def run() -> None:
        async with running(directory, **SASL_LISTENER, **RIGHTS) as node:
            properties = {
                "bootstrap.servers": f"127.0.0.1:{node.port('SASL')}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                **({"sasl.jaas.config": jaas} if jaas else {}),
            }
            main = ClusterSettings(name="main", properties=properties)
            audit = None if log is None else str(log)
            async with console(main, audit_file=audit) as address, browser(address) as page:
                await page.open()
                await story(node, address, page)

    asyncio.run(run())


async def log_in(page: Browser, fields: dict[str, str]) -> int:
    await page.post("/api/session/login", fields)
    return page.status


def test_a_user_has_the_own_rights_and_another_browser_has_none(tmp_path: Path) -> None:
    async def story(node: RunningNode, address: str, page: Browser) -> None:
        assert (await page.get(TOPICS))["error"] == "LOGIN_NEEDED"
        assert await log_in(page, PLAIN) == 200
        await page.post(TOPICS, {"name": "orders", "partitions": 1})
        assert page.status == 200
        assert (await page.get(TOPICS))["total"] == 1
        async with browser(address) as other:
            await other.open()
            assert (await other.get(TOPICS))["error"] == "LOGIN_NEEDED"
            assert await log_in(other, BOB) == 200
            assert (await other.get(TOPICS))["total"] == 0, (
                "bob may not see the topic, although alice just did"
            )
            found = await other.post(TOPICS, {"name": "mine"})
            assert (other.status, found["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")

    with_console(tmp_path, story)


def test_connectors_need_rights_on_the_cluster(tmp_path: Path) -> None:
    async def story(node: RunningNode, address: str, page: Browser) -> None:
        assert await log_in(page, PLAIN) == 200
        assert (await page.get(CONNECT))["workers"] == []
        async with browser(address) as other:
            await other.open()
            assert await log_in(other, BOB) == 200
            found = await other.get(CONNECT)
            assert (other.status, found["error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")

    with_console(tmp_path, story)


def test_a_wrong_password_is_refused_and_the_session_stays_without_rights(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"

    async def story(node: RunningNode, address: str, page: Browser) -> None:
        for fields in ({**PLAIN, "password": "wrong-word"}, {**PLAIN, "username": "nobody"}):
            assert await log_in(page, fields) == 401
            assert (await page.get(TOPICS))["error"] == "LOGIN_NEEDED"
        for fields in ({**PLAIN, "mechanism": "GSSAPI"}, {**PLAIN, "username": ""}, {"cluster": "main"}):
            assert await log_in(page, fields) == 400
        assert await log_in(page, {**PLAIN, "cluster": "none"}) == 404

    with_console(tmp_path / "node", story, log=log)
    text = log.read_text()
    assert "wrong-word" not in text and "a=b,c" not in text
    assert '"result": "SaslAuthenticationException"' in text


def test_a_login_gives_the_session_a_new_id(tmp_path: Path) -> None:
    async def story(node: RunningNode, address: str, page: Browser) -> None:
        def cookie() -> str:
            (found,) = page.http.cookie_jar
            return found.value

        before, token = cookie(), page.csrf
        assert await log_in(page, PLAIN) == 200
        assert cookie() != before and page.csrf != token
        async with browser(address) as other:
            stolen = {"Cookie": f"kcli-console-0={before}"}
            assert (await other.get(TOPICS, **stolen))["error"] == "LOGIN_NEEDED"

    with_console(tmp_path, story)


def test_scram_users_with_odd_names_and_passwords_log_in(tmp_path: Path) -> None:
    async def story(node: RunningNode, address: str, page: Browser) -> None:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            await add_user(node, SCRAM_USER, SCRAM_PASSWORD, mechanism)
            fields = {"username": SCRAM_USER, "password": SCRAM_PASSWORD, "mechanism": mechanism}
            assert await log_in(page, {**fields, "cluster": "main"}) == 200
            assert (await page.get("/api/session"))["clusters"][0]["user"] == SCRAM_USER

    with_console(tmp_path, story)


def test_the_given_login_does_not_serve_a_browser_that_only_logs_in(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="alice" password="a=b,c";'

    async def story(node: RunningNode, address: str, page: Browser) -> None:
        assert (await page.get(TOPICS))["error"] == "LOGIN_NEEDED"
        assert await log_in(page, BOB) == 200
        await page.post(TOPICS, {"name": "mine"})
        assert page.status == 403
        await page.post("/api/session/logout", {"cluster": "main"})
        assert (await page.get(TOPICS))["error"] == "LOGIN_NEEDED"
        async with browser(address) as owner:
            await owner.get("/?" + address.partition("?")[2])
            await owner.open()
            await owner.post(TOPICS, {"name": "orders"})
            assert owner.status == 200

    with_console(tmp_path, story, jaas=jaas)


def test_the_clients_of_a_user_are_closed_with_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: RunningNode, address: str, page: Browser) -> None:
        def open_links() -> int:
            return sum(each.listener == "SASL" for each in node.sockets.connections)

        assert await log_in(page, PLAIN) == 200
        assert await log_in(page, BOB) == 200
        assert open_links() > 0
        await page.post("/api/session/logout", {"cluster": "main"})
        for _ in range(200):
            if not open_links():
                break
            await asyncio.sleep(0.01)
        assert not open_links()
        monkeypatch.setattr(sessions, "IDLE_MAX_SECONDS", -1.0)
        assert (await page.get(TOPICS))["error"] == "LOGIN_NEEDED"

    with_console(tmp_path, story)


def test_the_tail_of_a_user_ends_with_the_login(tmp_path: Path) -> None:
    async def story(node: RunningNode, address: str, page: Browser) -> None:
        assert await log_in(page, PLAIN) == 200
        await page.post(TOPICS, {"name": "orders", "partitions": 1})
        tail = f"{page.address}{TOPICS}/orders/messages/tail"
        for end in ({"path": "logout", "cluster": "main"}, {"path": "login", **BOB}):
            async with asyncio.timeout(PATIENCE_S), page.http.get(tail) as answer:
                assert b"progress" in await answer.content.readany()
                await page.post(f"/api/session/{end['path']}", end)
                assert page.status == 200
                with contextlib.suppress(aiohttp.ClientError):  # the end of the body is missing
                    while await answer.content.readany():
                        pass
            await log_in(page, PLAIN)

    with_console(tmp_path, story)
