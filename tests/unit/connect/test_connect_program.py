"""The process of a worker: what surrounds the worker while it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kcli.connect import program
from kcli.connect.config.worker import WorkerConfig
from kcli.runtime.garbage import START_THRESHOLDS, THRESHOLDS, freeze_survivors
from rigs.loops import on_a_loop, until

PROPERTIES = """
bootstrap.servers=127.0.0.1:1
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename=offsets
"""


class Worker:
    """A worker that ends when the collector has new rules. `thresholds` are those at its start and at its end."""

    def __init__(self) -> None:
        self.thresholds: list[tuple[int, int, int]] = []

    async def run(self) -> None:
        self.thresholds.append(gc.get_threshold())
        await until(lambda: freeze_survivors in gc.callbacks)
        self.thresholds.append(gc.get_threshold())

    async def started(self) -> None: ...

    def stop(self) -> None: ...


@pytest.fixture(autouse=True)
def _own_collector() -> Iterator[None]:
    """Undoes the rules of collections, which are made for a process that ends."""
    thresholds = gc.get_threshold()
    yield
    if freeze_survivors in gc.callbacks:
        gc.callbacks.remove(freeze_survivors)
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.freeze()


@on_a_loop
async def _run(path: Path) -> None:
    assert await program._run(program.DISTRIBUTED, [str(path)]) == program.USAGE_ERROR


def test_a_running_worker_limits_the_length_of_collections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker, rest = Worker(), SimpleNamespace(last_active=0.0)

    async def set_up(_config: WorkerConfig) -> tuple[object, object, list[object]]:
        return worker, rest, []

    monkeypatch.setattr(program, "_set_up", set_up)
    monkeypatch.setitem(program._CONFIGS, program.DISTRIBUTED, program._CONFIGS[program.STANDALONE])
    path = tmp_path / "worker.properties"
    path.write_text(PROPERTIES)
    _run(path)
    assert worker.thresholds == [START_THRESHOLDS, THRESHOLDS]
