"""The background task that fetches the keys of a token server."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kcli.security.bearer.key_set import KeySet
from kcli.security.bearer.settings import KeySetSettings
from kcli.server.logins.key_source import KeySource
from rigs.bearer import key_set, public_jwk, rsa_key
from rigs.loops import until

SETTINGS = KeySetSettings(
    url="http://test/keys",
    path=None,
    refresh_seconds=0.001,
    backoff_seconds=0.001,
    backoff_max_seconds=0.001,
    timeout_seconds=None,
)


def test_an_unexpected_error_does_not_end_the_refresh(caplog: pytest.LogCaptureFixture) -> None:
    failures = [ZeroDivisionError("a defect"), OSError("no route"), RuntimeError("another")]

    def fetch(_settings: KeySetSettings) -> bytes:
        if failures:
            raise failures.pop(0)
        return key_set(public_jwk(rsa_key(), "one"))

    async def story() -> None:
        with ThreadPoolExecutor(1) as threads:
            source = KeySource(SETTINGS, threads, fetch)
            task = asyncio.create_task(source.run())
            await until(lambda: source.find("one", "RS256") is not None or task.done())
            assert not task.done()
            task.cancel()

    asyncio.run(story())
    assert [each.partition(": ")[2] for each in caplog.messages] == [
        "ZeroDivisionError: a defect",
        "no route",
        "RuntimeError: another",
    ]


def test_keys_are_parsed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed_in: list[threading.Thread] = []

    def parse(_content: bytes) -> KeySet:
        parsed_in.append(threading.current_thread())
        return KeySet()

    monkeypatch.setattr("kcli.server.logins.key_source.parse_key_set", parse)

    async def story() -> None:
        with ThreadPoolExecutor(1) as threads:
            task = asyncio.create_task(KeySource(SETTINGS, threads, lambda _settings: b"").run())
            await until(lambda: parsed_in)
            task.cancel()

    asyncio.run(story())
    assert threading.main_thread() not in parsed_in
