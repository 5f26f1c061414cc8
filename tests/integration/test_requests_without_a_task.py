"""A request has no task until its handler suspends, so code that needs a task before, such as `asyncio.timeout`, fails.

Each served API gets a small request over a connection, whose dispatch is called from a plain callback of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.requests.apis import APIS
from kcli.server.requests.dispatch import Dispatch
from rigs.large_arrays import SAMPLES, version_with
from rigs.loops import PATIENCE_S, on_a_loop
from rigs.node import RunningNode, connect, create, running


def frames() -> Iterator[tuple[ApiKey, bytes]]:
    """A small request for each array of each API, and one for each API without arrays."""
    for sample in SAMPLES:
        path = next(sample.paths())
        message = sample.large(path, 1)
        version = version_with(message, sample.key, path)
        yield sample.key, codec.encode_request(message, sample.key, version, 5, "small")
    for key in sorted(set(APIS) - {sample.key for sample in SAMPLES}):
        message = codec.message_class(key, "request")()
        yield key, codec.encode_request(message, key, API[key].max_version, 5, "small")


@on_a_loop
async def test_no_request_needs_a_task_before_it_suspends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve, served = Dispatch.__call__, set()

    def observed(dispatch: Dispatch, caller: Any, frame: memoryview, trace: Any = None) -> Any:
        assert asyncio.current_task() is None
        served.add(int.from_bytes(frame[:2]))
        return serve(dispatch, caller, frame, trace)

    monkeypatch.setattr(Dispatch, "__call__", observed)
    with caplog.at_level(logging.ERROR):
        async with running(tmp_path, transaction_state_log_replication_factor="1") as node:
            await create(await connect(node), "t0")
            for key, frame in frames():
                await asyncio.wait_for(_ask(node, key, frame), PATIENCE_S)
    assert served >= set(APIS)
    assert [record.getMessage() for record in caplog.records] == []


async def _ask(node: RunningNode, key: ApiKey, frame: bytes) -> None:
    listener = "PLAINTEXT" if API[key].on_broker else "CONTROLLER"
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port(listener))
    try:
        writer.write(frame)
        # A request with invalid elements closes the connection.
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
    finally:
        writer.close()
