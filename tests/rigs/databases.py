"""Private servers of PostgreSQL and MariaDB, one of each for all processes of a test run.

The first process that asks for a server starts it, and the last process that ends stops it. The servers run as an
unprivileged user, in a temporary directory, on a free port of 127.0.0.1. PostgreSQL has wal_level=logical.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

USER, PASSWORD = "kcli", "s3cret-word"
_START_S = 60
_DEBIAN_POSTGRESQL = Path("/usr/lib/postgresql")
_MARIADB_USERS = f"""
CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO '{USER}'@'127.0.0.1';
"""


def postgresql_program(name: str) -> str | None:
    """The path of a program of PostgreSQL. Debian has the server's programs outside the PATH."""
    found = sorted(_DEBIAN_POSTGRESQL.glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def mariadb_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `directory` has its files, such as its log."""

    pid: int
    port: int
    directory: str


@contextmanager
def shared_postgresql(base: Path) -> Iterator[Server]:
    """`base` is a directory that all processes of the test run have."""
    with _shared(base / "postgresql.json", _start_postgresql, signal.SIGINT) as server:
        yield server


@contextmanager
def shared_mariadb(base: Path) -> Iterator[Server]:
    with _shared(base / "mariadb.json", _start_mariadb, signal.SIGKILL) as server:
        yield server


def private_postgresql() -> Server:
    """A server that one test owns. What it has committed survives its crash."""
    return Server(**_started(_start_postgresql))


def crash_postgresql(server: Server) -> Server:
    """Kills the server, and starts it again."""
    os.kill(server.pid, signal.SIGKILL)
    os.waitpid(server.pid, 0)
    directory, deadline = Path(server.directory), time.monotonic() + _START_S
    while True:
        # The server refuses to start while a process of the killed one still runs.
        pid = _spawn_postgresql(directory, server.port)
        try:
            _await_port(server.port, pid, directory)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            _await_postgresql(server.port)
            return Server(pid, server.port, server.directory)


def end_postgresql(server: Server) -> None:
    _stop(server.pid, signal.SIGQUIT)
    shutil.rmtree(server.directory, ignore_errors=True)


def _start_postgresql(directory: Path, port: int) -> int:
    initdb = postgresql_program("initdb")
    assert initdb is not None, "the fixture has looked for it"
    files = directory / "data"
    _run([initdb, "-D", files, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"], directory)
    pid = _spawn_postgresql(directory, port)
    _await_postgresql(port)
    return pid


def _spawn_postgresql(directory: Path, port: int) -> int:
    postgres = postgresql_program("postgres")
    assert postgres is not None, "the fixture has looked for it"
    settings = {
        "port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": directory, "fsync": "off",
        "full_page_writes": "off", "wal_level": "logical", "max_connections": 60,
        "max_replication_slots": 20, "max_wal_senders": 20, "shared_buffers": "32MB", "autovacuum": "off",
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return _spawn([postgres, "-D", directory / "data", *options], directory)


def _await_postgresql(port: int) -> None:
    """Waits until the server accepts connections. It listens earlier, and refuses connections for a moment."""
    check = [postgresql_program("pg_isready") or "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    deadline = time.monotonic() + _START_S
    while subprocess.run(check, check=False).returncode and time.monotonic() < deadline:
        time.sleep(0.02)


def _start_mariadb(directory: Path, port: int) -> int:
    install, server = mariadb_program("mariadb-install-db"), mariadb_program("mariadbd")
    assert install is not None and server is not None, "the fixture has looked for them"
    files = directory / "data"
    small = [
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=8M",
        "--innodb-flush-method=nosync",
        "--debug-no-sync",
    ]
    _run(
        [install, "--no-defaults", f"--datadir={files}", "--auth-root-authentication-method=normal",
         "--skip-test-db", "--skip-name-resolve", *small],
        directory,
    )  # fmt: skip
    users = directory / "users.sql"
    users.write_text(_MARIADB_USERS)
    return _spawn(
        [server, "--no-defaults", f"--datadir={files}", f"--port={port}", "--bind-address=127.0.0.1",
         f"--socket={directory}/socket", f"--pid-file={directory}/pid", f"--init-file={users}",
         "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=OFF",
         "--character-set-server=utf8mb4", *small],
        directory,
    )  # fmt: skip


Start = Callable[[Path, int], int]
"""Starts a server in a directory, on a port. Returns its process id."""


@contextmanager
def _shared(state: Path, start: Start, end: signal.Signals) -> Iterator[Server]:
    with _locked(state):
        shown = json.loads(state.read_text()) if state.exists() else None
        if shown is None:
            shown = {**_started(start), "users": 0}
        state.write_text(json.dumps({**shown, "users": shown["users"] + 1}))
    try:
        yield Server(shown["pid"], shown["port"], shown["directory"])
    finally:
        with _locked(state):
            shown = json.loads(state.read_text())
            if shown["users"] > 1:
                state.write_text(json.dumps({**shown, "users": shown["users"] - 1}))
            else:
                state.unlink()
                _stop(shown["pid"], end)
                shutil.rmtree(shown["directory"], ignore_errors=True)


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    with state.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _started(start: Start) -> dict[str, Any]:
    # The path of a Unix socket must be short, and the server's user must reach it.
    directory = Path(tempfile.mkdtemp(prefix="kcli-db-"))
    account = _account()
    if account is not None:
        os.chown(directory, account.pw_uid, account.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pid = start(directory, port)
    _await_port(port, pid, directory)
    return {"pid": pid, "port": port, "directory": str(directory)}


def _await_port(port: int, pid: int, directory: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if os.waitpid(pid, os.WNOHANG)[0]:
            break
        time.sleep(0.02)
    raise AssertionError(f"the server does not listen: {(directory / 'log').read_text()}")


def _account() -> pwd.struct_passwd | None:
    """The user of the servers, which refuse to run as root. None stands for the present user."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _options(directory: Path) -> dict[str, Any]:
    account = _account()
    drop = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return {"cwd": directory, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **drop}


def _run(command: Sequence[object], directory: Path) -> None:
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, **_options(directory))
    assert result.returncode == 0, result.stdout


def _spawn(command: Sequence[object], directory: Path) -> int:
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            list(map(str, command)), stdout=log, start_new_session=True, **_options(directory)
        )
    process.returncode = 0  # the process may end later, or be stopped by another test process
    return process.pid


def _stop(pid: int, end: signal.Signals) -> None:
    try:
        os.kill(pid, end)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
