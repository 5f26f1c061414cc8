"""The proxy between the nodes: it lets bytes through, holds the bytes of a cut link, and finds the source of a link."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from kcli.local_cluster.ports import free_port
from simulation.histories.links import HOST, UNKNOWN, Links, Route, owner_of

SOURCE, TARGET = 7, 8
PATIENCE_S = 20.0
QUIET_S = 0.3
"""A test that nothing arrives waits for this time. A shorter wait could pass by mistake, but never fail by mistake."""


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends everything back."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=_send_back, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


def _send_back(connection: socket.socket) -> None:
    with connection:
        try:
            while content := connection.recv(1000):
                connection.sendall(content)
        except OSError:
            pass


@pytest.fixture
def port(echo: int) -> int:
    return free_port()


@pytest.fixture
def links(echo: int, port: int) -> Iterator[Links]:
    started = Links([Route(port, echo, TARGET)], lambda: {SOURCE: os.getpid()})
    started.start()
    yield started
    started.stop()


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), PATIENCE_S)
    connection.settimeout(PATIENCE_S)
    return connection


def _hears_nothing(connection: socket.socket) -> bool:
    connection.settimeout(QUIET_S)
    try:
        return not connection.recv(100)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)


def _is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(100)
    except ConnectionError:
        return True


def test_bytes_go_through(links: Links, port: int) -> None:
    with _connect(port) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"


@pytest.mark.parametrize("direction", [(SOURCE, TARGET), (TARGET, SOURCE)])
def test_a_cut_link_holds_the_bytes_until_it_is_repaired(
    links: Links, port: int, direction: tuple[int, int]
) -> None:
    with _connect(port) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"
        links.cut(*direction)
        connection.sendall(b"again")
        assert _hears_nothing(connection)
        links.mend(resets=False)
        assert connection.recv(100) == b"again"


def test_a_new_connection_over_a_cut_link_gets_no_answer(links: Links, port: int) -> None:
    links.cut(SOURCE, TARGET)
    with _connect(port) as connection:
        connection.sendall(b"hello")
        assert _hears_nothing(connection)
        links.mend(resets=False)
        assert connection.recv(100) == b"hello"


def test_a_repaired_link_may_have_lost_its_connections(links: Links, port: int) -> None:
    with _connect(port) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"
        links.cut(SOURCE, TARGET)
        connection.sendall(b"again")
        assert _hears_nothing(connection)
        links.mend(resets=True)
        assert _is_closed(connection)


def test_the_cut_of_another_link_changes_nothing(links: Links, port: int) -> None:
    links.cut(SOURCE + 10, TARGET)
    with _connect(port) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"


def test_the_source_of_a_connection_is_the_process_that_has_it(echo: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with _connect(echo) as connection:
            port = connection.getsockname()[1]
            assert owner_of(port, echo, {1: other.pid, 2: os.getpid()}) == 2
            assert owner_of(port, echo, {1: other.pid}) == UNKNOWN
            assert owner_of(port, echo + 1, {2: os.getpid()}) == UNKNOWN
        other.communicate(b"\n", PATIENCE_S)
