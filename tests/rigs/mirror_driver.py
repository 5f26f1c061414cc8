"""The driver of MirrorMaker for tests: its properties, and its log in this process or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from kcli.mirror import program
from rigs import node
from rigs.loops import until

READY_SECONDS = 60.0

FACTORS = "".join(
    f"{key}replication.factor = 1\n"
    for key in (
        "",
        "checkpoints.topic.",
        "heartbeats.topic.",
        "offset-syncs.topic.",
        "offset.storage.",
        "status.storage.",
        "config.storage.",
    )
)


def properties(a: int, b: int, more: str = "") -> str:
    """The flow A->B between the brokers on two ports."""
    return (
        f"clusters = A, B\nA.bootstrap.servers = 127.0.0.1:{a}\nB.bootstrap.servers = 127.0.0.1:{b}\n{FACTORS}"
        "offset.storage.partitions = 1\nstatus.storage.partitions = 1\n"
        f"A->B.enabled = true\nB->A.enabled = false\nB->A.emit.heartbeats.enabled = false\n{more}"
    )


@contextlib.asynccontextmanager
async def two_brokers(directory: Path) -> AsyncIterator[tuple[int, int]]:
    """The ports of two clusters of one broker."""
    quick = {"group_initial_rebalance_delay_ms": "0"}
    async with node.running(directory / "a", **quick) as a, node.running(directory / "b", **quick) as b:
        yield a.port(), b.port()


def keep_rules_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the rules of this process, because those of a server are made for a process that ends."""
    rules = SimpleNamespace(prepare=lambda: None, start=lambda: None, watch=lambda last_active: None)
    monkeypatch.setattr(program, "GarbagePolicy", lambda: rules)


class DriverHere:
    """A driver in this process. `caplog` has its log."""

    def __init__(self, file: Path, caplog: pytest.LogCaptureFixture, clusters: Sequence[str] = ()) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self._running = asyncio.create_task(program._run(str(file), clusters))

    async def reaches(self, text: str) -> None:
        """Waits for a text in the log."""
        await until(lambda: text in self._caplog.text or self._running.done())
        assert text in self._caplog.text

    async def stop(self) -> int:
        """Ends the driver as SIGTERM does. Returns the exit code."""
        signal.raise_signal(signal.SIGTERM)
        return await self._running

    async def code(self) -> int:
        return await self._running


class DriverProcess:
    """`kcli mirror-maker` as a process from `start` to `stop`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.lines: list[str] = []

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "kcli", "mirror-maker", str(self._file)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._file.parent,
        )

    async def reaches(self, text: str) -> None:
        """Reads the log up to a line with a text."""
        assert self._process.stdout is not None, "started"
        async with asyncio.timeout(READY_SECONDS):
            while line := (await self._process.stdout.readline()).decode():
                self.lines.append(line)
                if text in line:
                    return
        raise AssertionError("".join(self.lines))

    async def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        rest, _ = await self._process.communicate()
        self.lines += rest.decode().splitlines()
        assert self._process.returncode is not None, "ended"
        return self._process.returncode
