"""Which requests the console accepts: names, tokens, read-only mode, the secret address, and what it logs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kcli.client.config import ClientConfigError
from kcli.console import audit
from kcli.console.settings import ClusterSettings
from rigs.certificates import Certificates
from rigs.console import browser, console, scripted
from rigs.scripted_cluster import ScriptedCluster
from rigs.tls import server_context_of

CONFIGS = "/api/clusters/main/brokers/1/configs"
CHANGE = {"settings": {"log.cleaner.threads": "2"}}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="op" password="secret";'
WITH_LOGIN = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": JAAS,
}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8090", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8090", 200),
        ("192.0.2.7", 200),
        ("console.example.com:443", 200),
        ("evil.example.com", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("", 421),
    ],
)
def test_only_allowed_names_reach_the_console(host: str, status: int) -> None:
    async def story() -> None:
        async with scripted(allowed_hosts=frozenset({"console.example.com"})) as page:
            for path in ("/", "/static/app.js", "/api/session", "/api/clusters/main/brokers", "/none"):
                await page.get(path, Host=host)
                assert page.status == (404 if status == 200 and path == "/none" else status)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"X-Kcli-Csrf": ""}, 403),
        ({"X-Kcli-Csrf": "x" * 43}, 403),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_only_the_consoles_own_page_can_act(headers: dict[str, str], status: int) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with scripted(cluster) as page:
            await page.post(CONFIGS, CHANGE, **headers)
            assert page.status == status
            acts = [key.name for key, _, _ in cluster.server.requests if "ALTER" in key.name]
            assert bool(acts) is (status == 200)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("site", "status"), [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
)
def test_other_websites_cannot_make_the_console_ask_the_cluster(site: str, status: int) -> None:
    async def story() -> None:
        async with scripted() as page:
            await page.get("/api/clusters/main/brokers", **{"Sec-Fetch-Site": site})
            assert page.status == status
            await page.get("/", **{"Sec-Fetch-Site": site})
            assert page.status == 200, "a link to the console works"

    asyncio.run(story())


def test_over_tls_the_cookie_is_never_sent_in_the_clear(certificates: Certificates) -> None:
    context = server_context_of(certificates)

    async def story() -> None:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": "127.0.0.1:1"})
        async with console(main, tls=context) as address, browser(address) as page:
            assert address.startswith("https://")
            async with page.http.get(f"{page.address}/api/session", ssl=False) as answer:
                assert answer.status == 200
                assert "secure" in answer.headers["Set-Cookie"].lower()

    asyncio.run(story())


def test_another_session_has_another_token() -> None:
    async def story() -> None:
        async with scripted() as page, browser(page.address) as other:
            await other.open()
            assert other.csrf != page.csrf
            await page.post(CONFIGS, CHANGE, **{"X-Kcli-Csrf": other.csrf})
            assert page.status == 403

    asyncio.run(story())


def test_read_only_mode_refuses_actions_and_previews() -> None:
    async def story() -> None:
        async with scripted(is_read_only=True) as page:
            for body in (CHANGE, {**CHANGE, "preview": True}):
                assert (await page.post(CONFIGS, body))["error"] == "READ_ONLY"
                assert page.status == 403
            assert (await page.get("/api/session"))["read_only"] is True

    asyncio.run(story())


def test_headers_keep_scripts_and_frames_of_others_out() -> None:
    async def story() -> None:
        async with scripted() as page:
            for path in ("/", "/static/app.js", "/api/session", "/none"):
                await page.get(path)
                policy = page.headers["Content-Security-Policy"]
                assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
                assert "unsafe" not in policy
                assert page.headers["X-Content-Type-Options"] == "nosniff"

    asyncio.run(story())


def test_the_cookie_is_for_this_page_only() -> None:
    async def story() -> None:
        async with scripted(base_path="/kafka") as page, browser(page.address) as other:
            await other.get("/api/session")
            cookie = other.headers["Set-Cookie"].lower()
            assert "httponly" in cookie and "samesite=strict" in cookie and "path=/kafka/" in cookie
            assert "secure" not in cookie
        async with scripted() as page, browser(page.address) as other:
            await other.get("/api/session", **{"X-Forwarded-Proto": "https"})
            assert "secure" in other.headers["Set-Cookie"].lower()

    asyncio.run(story())


def test_a_base_path_is_in_front_of_everything() -> None:
    async def story() -> None:
        async with scripted(base_path="/kafka") as page:
            assert page.address.endswith("/kafka")
            assert (await page.get("/api/clusters/main/brokers"))["total"] == 1
            assert "<script" in await page.get("/")
            await page.get("")
            assert (page.status, page.headers["Location"]) == (303, "/kafka/")
            root = page.address.removesuffix("/kafka")
            async with page.http.get(f"{root}/api/session") as answer:
                assert answer.status == 404

    asyncio.run(story())


def test_static_files_are_asked_for_again_only_if_they_have_changed() -> None:
    async def story() -> None:
        async with scripted() as page:
            await page.get("/static/app.js")
            assert page.headers["Content-Type"].startswith("text/javascript")
            await page.get("/static/app.js", **{"If-None-Match": page.headers["ETag"]})
            assert page.status == 304
            for path in ("/static/none.js", "/static/../console.py", "/static/%2e%2e/console.py"):
                await page.get(path)
                assert page.status == 404

    asyncio.run(story())


def test_actions_are_in_the_audit_log_with_their_results(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"

    async def story() -> None:
        async with scripted(audit_file=str(log)) as page:
            await page.post(CONFIGS, {**CHANGE, "preview": True})
            await page.post(CONFIGS, CHANGE)
            await page.post(CONFIGS, {"settings": {"bad": "a secret value"}})

    asyncio.run(story())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["action"], line["result"]) for line in lines] == [
        ("change broker settings", "begin"),
        ("change broker settings", "ok"),
        ("change broker settings", "begin"),
        ("change broker settings", "INVALID_CONFIG"),
    ]
    assert lines[1]["target"] == "broker 1" and lines[1]["user"] == "anonymous"
    assert log.stat().st_mode & 0o077 == 0
    assert "a secret value" not in log.read_text()


def test_a_given_login_serves_only_the_browser_with_the_secret() -> None:
    async def story() -> None:
        settings = ClusterSettings(name="main", properties=WITH_LOGIN)
        async with console(settings) as address, browser(address) as stranger, browser(address) as owner:
            assert "?secret=" in address and "secret" not in WITH_LOGIN["bootstrap.servers"]
            (shown,) = (await stranger.open())["clusters"]
            assert (shown["state"], shown["can_log_in"]) == ("login", True)
            assert (await stranger.get("/api/clusters/main/brokers"))["error"] == "LOGIN_NEEDED"
            assert stranger.status == 401
            await stranger.get("/?secret=wrong")
            assert stranger.status == 403
            await owner.get("/?" + address.partition("?")[2])
            assert owner.status == 303
            (shown,) = (await owner.open())["clusters"]
            assert (shown["state"], shown["user"]) == ("given", "op")

    asyncio.run(story())


def test_a_given_login_is_not_used_if_other_machines_can_listen() -> None:
    async def story() -> None:
        settings = ClusterSettings(name="main", properties=WITH_LOGIN)
        async with console(settings, host="0.0.0.0") as address:
            assert "secret" not in address
            async with browser(address.replace("0.0.0.0", "127.0.0.1")) as page:
                (shown,) = (await page.open())["clusters"]
                assert shown["state"] == "login"

    asyncio.run(story())


def test_a_given_certificate_is_refused_if_other_machines_can_listen() -> None:
    properties = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
        "ssl.keystore.location": "/none.pem",
    }

    async def story() -> None:
        async with console(ClusterSettings(name="main", properties=properties), host="0.0.0.0"):
            pass

    with pytest.raises(ClientConfigError, match="client certificate"):
        asyncio.run(story())


def test_an_unknown_cluster_is_not_found() -> None:
    async def story() -> None:
        async with scripted() as page:
            assert (await page.get("/api/clusters/none/brokers"))["error"] == "UNKNOWN_CLUSTER"
            assert page.status == 404

    asyncio.run(story())


def test_a_body_that_is_too_long_or_no_object_is_refused() -> None:
    async def story() -> None:
        async with scripted() as page:
            await page.post(CONFIGS, {"settings": {"a": "x" * 1_050_000}})
            assert page.status == 413
            await page.post(CONFIGS, [1])
            assert page.status == 400

    asyncio.run(story())


def test_bytes_that_are_no_text_are_refused() -> None:
    async def story() -> None:
        async with scripted() as page:
            (cookie,) = page.http.cookie_jar
            where = urlsplit(page.address)
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            head = f"POST {CONFIGS} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie.key}={cookie.value}\r\n"
            writer.write(head.encode() + b"X-Kcli-Csrf: \xff\xfe\r\nContent-Length: 0\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 403 ")
            writer.close()
            for settings in ({"a": "\ud800"}, {"\ud800": "a"}):
                await page.post(CONFIGS, {"settings": settings})
                assert page.status == 400

    asyncio.run(story())


def test_the_audit_log_is_rotated_and_its_fields_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FILE_MAX_BYTES", 2000)
    monkeypatch.setattr(audit, "FILES_KEPT", 2)
    path = tmp_path / "audit.jsonl"
    log = audit.AuditLog(str(path), lambda: 0)
    long = "\\" * 100_000
    deed = audit.Deed(user=long, client=long, cluster=long, action=long, target=long)
    for _ in range(4):
        log.end(deed, long, long)
    log.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]
    assert all(file.stat().st_size < 8000 for file in tmp_path.iterdir())
    assert path.stat().st_mode & 0o077 == 0
