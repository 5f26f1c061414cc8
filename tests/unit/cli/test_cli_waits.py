"""Lines that tell a user at a terminal what a command waits for."""

from __future__ import annotations

import asyncio
import io
import logging
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from kcli.cli import unreachable, waits
from kcli.cli.main import run
from kcli.client import client as client_module
from kcli.client.admin.admin import AdminClient
from kcli.client.config import client_config
from kcli.errors import TimeoutException
from kcli.testing.broker_process import free_port


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Makes stderr a terminal, and returns it. Pytest replaces stderr after the fixtures of a test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def waits_log() -> Iterator[logging.Logger]:
    log = logging.getLogger("kcli.client.waits")
    # Another test may have configured the log of a server, or run a command at a terminal.
    log.disabled = False
    log.handlers.clear()
    log.setLevel(logging.NOTSET)
    yield log
    log.handlers.clear()
    log.setLevel(logging.NOTSET)
    log.propagate = True


def test_a_slow_call_names_the_servers_the_limit_and_the_doctor_once(
    silent: str, waits_log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(client_module, "WAIT_NOTICE_S", 0.0)
    waits.show_waits()

    async def list_twice() -> None:
        async with AdminClient(client_config({}, bootstrap_servers=silent, api_timeout_ms=150)) as client:
            for _ in range(2):
                with pytest.raises(TimeoutException):
                    await client.list_topics()

    asyncio.run(list_twice())
    assert terminal.getvalue() == (
        f"Waiting for an answer of {silent} to listTopics (no answer yet). The call gives up after 0.15 s. To find the "
        f"cause, run: kcli doctor --bootstrap-server {silent}\n"
    )


def test_a_search_of_a_topic_names_the_servers_and_the_limit(
    silent: str, waits_log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(client_module, "WAIT_NOTICE_S", 0.0)
    limit = [
        "--command-property",
        "default.api.timeout.ms=150",
        "--command-property",
        "request.timeout.ms=150",
    ]
    words = ["console-consumer", "--bootstrap-server", silent, "--topic", "t", "--by-time", *limit]
    assert run(words) == 1
    assert terminal.getvalue().startswith(f"Waiting for an answer of {silent} to ")


def test_without_a_terminal_no_line_is_printed(silent: str, waits_log: logging.Logger) -> None:
    threads = threading.active_count()
    waits.show_waits()
    waits.watch_servers(silent, "")
    assert waits_log.level == logging.NOTSET and threading.active_count() == threads


@pytest.mark.parametrize("kind", ["dead", "silent"])
def test_a_server_that_does_not_answer_is_named(
    kind: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch)
    server = silent if kind == "silent" else f"127.0.0.1:{free_port()}"
    waits._notice(server, "A record waits at most 60 s (max.block.ms).")
    assert terminal.getvalue() == (
        f"Waiting for an answer of {server}. A record waits at most 60 s (max.block.ms). To find the cause, run: "
        f"kcli doctor --bootstrap-server {server}\n"
    )


def test_a_server_that_answers_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"\0")

        thread = threading.Thread(target=answer)
        thread.start()
        waits._notice(f"h.invalid:1,127.0.0.1:{server.getsockname()[1]}", "")
        thread.join()
    assert terminal.getvalue() == ""


def test_a_command_of_records_watches_its_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(waits, "NOTICE_S", 0.0)
    monkeypatch.setattr(waits, "_notice", lambda servers, limit: seen.append((servers, limit)))
    settings = {"bootstrap.servers": "h:1"}
    unreachable.explained({}, {**settings, "max.block.ms": " 2000 "}, block_ms=60_000)
    unreachable.explained({}, settings, limit_ms=500)
    unreachable.explained({}, settings)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    assert sorted(seen) == [
        ("h:1", "A record waits at most 2 s (max.block.ms)."),
        ("h:1", "The command gives up after 0.5 s."),
        ("h:1", "The command waits until you stop it with Ctrl-C."),
    ]


def test_a_name_that_cannot_be_a_host_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    waits._notice("a..b:9092", "")
    assert terminal.getvalue().startswith("Waiting for an answer of a..b:9092.")
