"""Work of clients and slow disks do not delay the metadata log, because each kind of work has threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from kcli.coordinator import patterns
from kcli.coordinator.group.consumer.targets.regexes import NAMES_PER_STEP, matching
from kcli.errors import ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.wire.api import ApiKey
from kcli.runtime import threads
from kcli.server.coordinators import regex_search
from kcli.server.coordinators.regex_search import MATCHES_PER_SLICE, RegexSearch
from rigs import groups, node
from rigs.groups import Speaker
from rigs.loops import PATIENCE_S, on_a_loop, until
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

WAITING = 40
"""More jobs than a shared pool has threads."""


@contextlib.asynccontextmanager
async def occupied(*executors: Executor | None) -> AsyncIterator[None]:
    """Occupies all threads of these executors. None stands for the default threads of asyncio."""
    over = threading.Event()
    loop = asyncio.get_running_loop()
    jobs = [loop.run_in_executor(each, over.wait) for each in executors for _ in range(WAITING)]
    try:
        yield
    finally:
        over.set()
        await asyncio.gather(*jobs)


async def creates_topics(speaker: Speaker, count: int = 3) -> None:
    for number in range(count):
        await asyncio.wait_for(speaker.create(f"new-{number}"), PATIENCE_S)


@on_a_loop
async def test_the_metadata_log_is_flushed_while_all_threads_of_clients_are_busy(tmp_path: Path) -> None:
    async with groups.running(tmp_path) as speaker:
        pools = (threads.READS, threads.REGEXES, threads.LOOKUPS)
        async with occupied(None, *(pool.executor for pool in pools)):
            await creates_topics(speaker)


@on_a_loop
async def test_the_metadata_log_is_flushed_while_another_disk_hangs(tmp_path: Path) -> None:
    slow = str(tmp_path / "slow")
    directories = {"log_dirs": slow, "metadata_log_dir": str(tmp_path / "metadata")}
    async with groups.running(tmp_path, **directories) as speaker:
        of_node = speaker.node.threads
        flushes = of_node._flushes[slow]
        async with occupied(flushes, of_node.logs, of_node.moves, of_node.housekeeping):
            await creates_topics(speaker)


def names_of(count: int) -> list[str]:
    return [f"orders.region-{number % 50}.customer-{number}" for number in range(count)]


@on_a_loop
async def test_expressions_are_matched_in_slices_and_groups_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slices: list[str] = []
    real = regex_search._run_slice

    def run_slice(steps: Iterator[int]) -> tuple[regex_search.Matches, ...]:
        assert threading.current_thread().name.startswith("kcli-regexes")
        slices.append("small" if steps is small_steps else "large")
        return real(steps)

    large_steps, small_steps = matching(["a.*", "b.*"], names_of(5_000)), matching(["o.*"], names_of(10))
    pending = iter((large_steps, small_steps))
    monkeypatch.setattr(regex_search, "_run_slice", run_slice)
    monkeypatch.setattr(regex_search, "matching", lambda *_: next(pending))
    search = RegexSearch()
    with TurnCounter() as counter:
        large = asyncio.ensure_future(search.find((), ()))
        await asyncio.sleep(0)
        assert len((await search.find((), ()))["o.*"]) == 10
        assert not large.done()
        assert await large == {"a.*": (), "b.*": ()}
    assert slices.index("small") <= 2
    assert slices.count("large") == 2 * 5_000 // MATCHES_PER_SLICE + 1
    assert NAMES_PER_STEP <= MATCHES_PER_SLICE
    assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX


@on_a_loop
async def test_a_new_expression_is_compiled_in_a_turn_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of requests is served in one turn of the event loop, but each new expression waits for its own turn."""
    async with groups.running(tmp_path) as speaker:
        await speaker.find()
        turns: list[int] = []
        turn = 0

        def tick() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(tick)

        def compiled_pattern(regex: str) -> object:
            turns.append(turn)
            return patterns.compiled_pattern(regex)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(regex_search, "compiled_pattern", compiled_pattern)
        loop.call_soon(tick)
        requests = [heartbeat(f"group-{number}", f"t{uuid.uuid4()}{number}") for number in range(8)]
        clients = [await node.connect(speaker.node) for _ in requests]
        answers = await asyncio.gather(
            *(
                client.call(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
                for client, request in zip(clients, requests, strict=True)
            )
        )
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 8
        assert len(turns) == len(set(turns)) == 8
        again = await speaker.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, requests[0])
        assert (again.error_code, len(turns)) == (ErrorCode.NONE, 8)
        costly = await speaker.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, heartbeat("g", r"(?i:\pL)" * 1000))
        assert costly.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


@on_a_loop
async def test_a_group_gets_the_topics_of_its_expression(tmp_path: Path) -> None:
    async with groups.running(tmp_path) as speaker:
        await speaker.find()
        await speaker.create("orders")
        request = heartbeat("g", "ord.*")
        await speaker.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        runner = speaker.node.broker.groups.shards.runner("g")
        group: Any = runner.look(lambda shard, _: shard._groups["g"])
        await until(lambda: "orders" in group.subscribed)


def heartbeat(group: str, regex: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=regex,
        topic_partitions=(),
    )
