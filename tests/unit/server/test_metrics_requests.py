"""What a measured dispatch writes down: counts, local and remote time, the slowest requests."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kcli.errors import ErrorCode, ProtocolError
from kcli.protocol.wire.api import ApiKey
from kcli.server.metrics.requests import (
    SLOWEST_MAX,
    SLOWEST_MAX_AGE_SECONDS,
    RequestMetrics,
    measured,
)
from kcli.server.network.connection import Connection, Serve
from kcli.server.network.request_facts import RequestFacts
from kcli.server.network.waiting import Answer, Waiting
from kcli.server.requests.apis import WAITING_BY_DESIGN

CONNECTION = cast(
    Connection, SimpleNamespace(listener="PLAINTEXT", peer_host="10.0.0.1", facts=RequestFacts())
)


class HandClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


def frame(key: ApiKey, version: int, client_id: bytes = b"me", size: int = 0) -> memoryview:
    return memoryview(struct.pack(">hhih", key, version, 1, len(client_id)) + client_id + bytes(size))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def metrics(clock: HandClock) -> RequestMetrics:
    return RequestMetrics(clock, WAITING_BY_DESIGN)


def serving(clock: HandClock, metrics: RequestMetrics, seconds: float, answer: Any = b"done") -> Serve:
    def serve(_connection: Connection, _frame: memoryview) -> Any:
        clock.seconds += seconds
        return answer

    return measured(serve, metrics)


def test_an_answer_at_once_is_local_time(clock: HandClock, metrics: RequestMetrics) -> None:
    dispatch = serving(clock, metrics, 0.004)
    for _ in range(3):
        assert dispatch(CONNECTION, frame(ApiKey.PRODUCE, 9, size=100)) == b"done"
    dispatch(CONNECTION, frame(ApiKey.PRODUCE, 11))
    metrics.fold()
    times = metrics.of(ApiKey.PRODUCE)
    assert {version: each.meter.count for version, each in times.versions.items()} == {9: 3, 11: 1}
    local, total, remote = (each.attributes() for each in (times.local_ms, times.total_ms, times.remote_ms))
    assert local["Count"] == total["Count"] == remote["Count"] == 4
    assert local["Max"] == pytest.approx(4.0)
    assert total["Mean"] == pytest.approx(4.0)
    assert remote["Max"] == 0.0
    assert times.request_bytes.attributes()["Max"] == 112


def test_waiting_is_remote_time(clock: HandClock, metrics: RequestMetrics) -> None:
    async def story() -> None:
        task: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        dispatch = serving(clock, metrics, 0.001, Waiting(name="Produce", task=task))
        waiting = dispatch(CONNECTION, frame(ApiKey.PRODUCE, 9))
        assert isinstance(waiting, Waiting)
        (work,) = waiting.timers
        clock.seconds += 0.5
        work.resume()
        clock.seconds += 0.002
        work.pause()
        task.set_result(b"late")
        assert waiting.take() == b"late"

    asyncio.run(story())
    metrics.fold()
    times = metrics.of(ApiKey.PRODUCE)
    assert times.local_ms.attributes()["Max"] == pytest.approx(3.0)
    assert times.remote_ms.attributes()["Max"] == pytest.approx(500.0)
    assert times.total_ms.attributes()["Max"] == pytest.approx(503.0)
    (slow,) = metrics.slowest
    assert (slow.api, slow.client_id, slow.host, slow.listener) == ("Produce", "me", "10.0.0.1", "PLAINTEXT")
    assert (slow.took_ms, slow.local_ms) == (pytest.approx(503.0), pytest.approx(3.0))


def test_a_fetch_that_waits_for_records_is_not_slow(clock: HandClock, metrics: RequestMetrics) -> None:
    async def story() -> None:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        dispatch = serving(clock, metrics, 0.0001, Waiting(name="Fetch", task=future))
        waiting = dispatch(CONNECTION, frame(ApiKey.FETCH, 12))
        assert isinstance(waiting, Waiting)
        clock.seconds += 30
        future.set_result(b"")
        waiting.take()

    asyncio.run(story())
    assert list(metrics.slowest) == []


def test_the_slowest_are_kept_and_forgotten_in_time(clock: HandClock, metrics: RequestMetrics) -> None:
    for milliseconds in range(1, 101):
        serving(clock, metrics, milliseconds / 1000)(CONNECTION, frame(ApiKey.METADATA, 12))
    took = [round(slow.took_ms) for slow in metrics.slowest]
    assert took == list(range(100, 100 - SLOWEST_MAX, -1))
    clock.seconds += SLOWEST_MAX_AGE_SECONDS - 1
    metrics.fold()
    assert len(list(metrics.slowest)) < SLOWEST_MAX
    clock.seconds += 10
    metrics.fold()
    assert list(metrics.slowest) == []
    serving(clock, metrics, 0.002)(CONNECTION, frame(ApiKey.METADATA, 12))
    assert [round(slow.took_ms) for slow in metrics.slowest] == [2]


def test_made_up_versions_do_not_pile_up(clock: HandClock, metrics: RequestMetrics) -> None:
    dispatch = serving(clock, metrics, 0.0)
    for version in range(-5, 200):
        dispatch(CONNECTION, frame(ApiKey.API_VERSIONS, version))
    metrics.fold()
    versions = metrics.of(ApiKey.API_VERSIONS).versions
    assert {version: each.count for version, each in versions.items()} == {0: 201, 1: 1, 2: 1, 3: 1, 4: 1}
    assert len(metrics.by_head) == 5


def test_a_broken_request_passes_through(clock: HandClock, metrics: RequestMetrics) -> None:
    def serve(_connection: Connection, _frame: memoryview) -> Any:
        raise ProtocolError("no such API")

    with pytest.raises(ProtocolError):
        measured(serve, metrics)(CONNECTION, frame(ApiKey.PRODUCE, 9))
    assert metrics.apis == {}


def test_errors_are_counted_by_code(metrics: RequestMetrics) -> None:
    metrics.failed(ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
    metrics.failed(ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
    metrics.fold()
    meters = metrics.of(ApiKey.HEARTBEAT).error_meters
    assert {code: meter.count for code, meter in meters.items()} == {ErrorCode.UNKNOWN_MEMBER_ID: 2}
