"""The small parts of a broker one by one: producer ids, housekeeping, fetch sessions, log lines, the main program."""

from __future__ import annotations

import asyncio
import io
import itertools
import logging
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcli.errors import (
    CoordinatorLoadInProgressException,
    ErrorCode,
    NotControllerException,
    StorageError,
)
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages import fetch
from kcli.runtime.rng import SystemRng
from kcli.runtime.turns import TURN_COST_MAX
from kcli.server import logging as server_logging
from kcli.server import main
from kcli.server.partitions.fetch_sessions import EVICTION_MIN_AGE_MS, FetchSessions
from kcli.server.parts.housekeeping import LOG_COST, NEVER_MS, Housekeeping, PeriodicJob
from kcli.server.quorum.producer_ids import RETRY_PAUSE_S, ProducerIdBlock, ProducerIds
from rigs.loops import until

LOGS_PER_TURN = TURN_COST_MAX // LOG_COST


def test_producer_ids_go_from_block_to_block() -> None:
    blocks = iter([ProducerIdBlock(1000, 10), ProducerIdBlock(5000, 10), ProducerIdBlock(7000, 10)])
    asked = []

    async def allocate() -> ProducerIdBlock:
        asked.append(1)
        await asyncio.sleep(0)
        return next(blocks)

    async def scenario() -> list[int]:
        ids = ProducerIds(allocate)
        given = [await ids.next_id() for _ in range(9)]
        await asyncio.sleep(0.001)
        assert len(asked) == 2, "the next block is asked for before this one ends"
        return given + [await ids.next_id() for _ in range(6)]

    assert asyncio.run(scenario()) == [*range(1000, 1010), *range(5000, 5005)]


def test_callers_at_the_same_time_get_different_ids() -> None:
    starts = iter(range(0, 10_000, 3))

    async def allocate() -> ProducerIdBlock:
        await asyncio.sleep(0.001)
        return ProducerIdBlock(next(starts), 3)

    async def scenario() -> list[int]:
        ids = ProducerIds(allocate)
        return await asyncio.gather(*(ids.next_id() for _ in range(2)))

    given = asyncio.run(scenario())
    assert len(set(given)) == len(given)


def test_without_a_block_the_client_is_to_try_again() -> None:
    async def allocate() -> None:
        raise NotControllerException

    async def scenario() -> None:
        with pytest.raises(CoordinatorLoadInProgressException):
            await ProducerIds(allocate).next_id()

    asyncio.run(scenario())


def test_a_refused_block_is_asked_for_again_after_a_pause() -> None:
    answers: list[ProducerIdBlock | None] = [None, ProducerIdBlock(1000, 10)]
    asked: list[float] = []

    async def allocate() -> ProducerIdBlock:
        asked.append(asyncio.get_running_loop().time())
        block = answers.pop(0)
        if block is None:
            raise NotControllerException
        return block

    async def scenario() -> int:
        ids = ProducerIds(allocate)
        while True:
            try:
                return await ids.next_id()
            except CoordinatorLoadInProgressException:
                continue

    assert asyncio.run(scenario()) == 1000
    assert asked[1] - asked[0] >= 0.9 * RETRY_PAUSE_S


def test_jobs_repeat_and_survive_their_failures(caplog: pytest.LogCaptureFixture) -> None:
    runs = {"loop": 0, "thread": 0, "never": 0, "off": 0, "due": 0, "not due": 0}

    def fail(name: str) -> None:
        runs[name] += 1
        raise StorageError("disk") if runs[name] == 1 else ZeroDivisionError("bug")

    async def scenario() -> None:
        jobs = [
            PeriodicJob("on the loop", 1, lambda: fail("loop")),
            PeriodicJob("in a thread", 1, lambda: fail("thread"), blocking=True),
            PeriodicJob("never", NEVER_MS, lambda: fail("never")),
            PeriodicJob("off", -1, lambda: fail("off")),
            PeriodicJob("due", 1, lambda: fail("due"), blocking=True, is_due=lambda: True),
            PeriodicJob("not due", 1, lambda: fail("not due"), blocking=True, is_due=lambda: False),
        ]
        with ThreadPoolExecutor(1) as executor:
            housekeeping = Housekeeping(executor)
            housekeeping.start(jobs)
            await until(lambda: min(runs["loop"], runs["thread"], runs["due"]) >= 3)
            await housekeeping.stop()

    asyncio.run(scenario())
    assert runs["loop"] >= 3
    assert runs["thread"] >= 3
    assert runs["never"] == runs["off"] == runs["not due"] == 0
    assert "on the loop failed: disk" in caplog.text


def test_a_job_on_many_logs_gives_turns_to_others() -> None:
    worked: list[int] = []  # the logs that were worked on when each iteration of the event loop began

    async def scenario() -> None:
        done = 0

        def steps() -> Iterator[None]:
            nonlocal done
            for _ in range(10 * LOGS_PER_TURN):
                done += 1
                yield

        jobs = [PeriodicJob("retention", 1_000_000, steps, first_ms=0)]
        with ThreadPoolExecutor(1) as executor:
            housekeeping = Housekeeping(executor)
            housekeeping.start(jobs)
            while done < 10 * LOGS_PER_TURN:
                await asyncio.sleep(0)
                worked.append(done)
            await housekeeping.stop()

    asyncio.run(scenario())
    assert max(after - before for before, after in itertools.pairwise([0, *worked])) <= LOGS_PER_TURN + 1


def full_fetch(partitions: int, epoch: int = 0, replica_id: int = -1) -> fetch.FetchRequest:
    wants = tuple(fetch.FetchPartition(partition=index) for index in range(partitions))
    topic = fetch.FetchTopic(topic="t", partitions=wants)
    return fetch.FetchRequest(topics=(topic,), session_epoch=epoch, replica_id=replica_id)


def open_session(sessions: FetchSessions, partitions: int, now_ms: int, replica_id: int = -1) -> int:
    scope = at_once(sessions.open(full_fetch(partitions, replica_id=replica_id), 12, now_ms, no_pause))
    return at_once(scope.response([], (), now_ms, no_pause)).session_id


def test_a_full_cache_gives_no_session() -> None:
    sessions = FetchSessions(1, SystemRng(1))
    assert open_session(sessions, 3, 0) > 0
    assert open_session(sessions, 3, 0) == 0
    assert open_session(FetchSessions(0, SystemRng(1)), 3, 0) == 0


def test_a_session_that_is_not_used_makes_room() -> None:
    sessions = FetchSessions(1, SystemRng(1))
    first = open_session(sessions, 3, 0)
    second = open_session(sessions, 1, EVICTION_MIN_AGE_MS + 1)
    assert second > 0
    gone = fetch.FetchRequest(session_id=first, session_epoch=1)
    assert (
        at_once(sessions.open(gone, 12, EVICTION_MIN_AGE_MS + 2, no_pause)).error_code
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_a_larger_session_takes_the_place_of_a_smaller_old_one_and_a_follower_of_any() -> None:
    sessions = FetchSessions(2, SystemRng(1))
    small, large = open_session(sessions, 1, 0), open_session(sessions, 9, 0)
    now_ms = EVICTION_MIN_AGE_MS + 1
    for session in (small, large):
        request = fetch.FetchRequest(session_id=session, session_epoch=1)
        assert at_once(sessions.open(request, 12, now_ms, no_pause)).error_code is ErrorCode.NONE
    assert open_session(sessions, 5, now_ms) > 0
    assert sorted(len(session.targets) for session in sessions._sessions.values()) == [5, 9]
    assert open_session(sessions, 1, now_ms, replica_id=2) > 0
    assert sorted(len(session.targets) for session in sessions._sessions.values()) == [1, 9]
    assert open_session(sessions, 1, now_ms) == 0


def test_a_session_adds_new_and_drops_forgotten_partitions() -> None:
    sessions = FetchSessions(10, SystemRng(1))
    session = open_session(sessions, 2, 0)
    topic_id = None
    request = fetch.FetchRequest(
        session_id=session,
        session_epoch=1,
        topics=(
            fetch.FetchTopic(
                topic="u", topic_id=topic_id, partitions=(fetch.FetchPartition(partition=7, fetch_offset=3),)
            ),
        ),
        forgotten_topics_data=(fetch.ForgottenTopic(topic="t", partitions=(0,)),),
    )
    scope = at_once(sessions.open(request, 12, 0, no_pause))
    assert [(target.topic, target.wants.partition) for target in scope.targets()] == [("t", 1), ("u", 7)]


def test_closing_a_session_forgets_it() -> None:
    sessions = FetchSessions(10, SystemRng(1))
    session = open_session(sessions, 2, 0)
    closing = fetch.FetchRequest(session_id=session, session_epoch=-1)
    at_once(sessions.open(closing, 12, 0, no_pause))
    assert len(sessions) == 0


def test_a_fetch_reads_only_a_share_of_the_quiet_partitions_again() -> None:
    sessions = FetchSessions(10, SystemRng(1), refresh_ms=1000)
    session = sessions._sessions[open_session(sessions, 400, 0)]
    waiters: dict = {}
    for target in list(session.active):
        session.rest(target, waiters, 0)
    assert not session.active
    for epoch, active in ((1, 0), (2, 100), (3, 175)):
        request = fetch.FetchRequest(session_id=session.id, session_epoch=epoch)
        at_once(sessions.open(request, 12, 1000 if epoch == 1 else 1001, no_pause))
        assert len(session.active) == active


def test_the_epoch_wraps_to_one() -> None:
    sessions = FetchSessions(10, SystemRng(1))
    session = open_session(sessions, 1, 0)
    sessions._sessions[session].epoch = 2**31 - 1
    request = fetch.FetchRequest(session_id=session, session_epoch=2**31 - 1)
    assert at_once(sessions.open(request, 12, 0, no_pause)).error_code is ErrorCode.NONE
    assert sessions._sessions[session].epoch == 1


def test_topics_are_grouped_by_id_as_well_as_by_name() -> None:
    sessions = FetchSessions(10, SystemRng(1))
    ids = [uuid.UUID(int=1), uuid.UUID(int=2)]
    topics = tuple(
        fetch.FetchTopic(
            topic_id=each, partitions=(fetch.FetchPartition(), fetch.FetchPartition(partition=1))
        )
        for each in ids
    )
    scope = at_once(sessions.open(fetch.FetchRequest(topics=topics, session_epoch=-1), 13, 0, no_pause))
    results = [
        (target, fetch.PartitionData(partition_index=target.wants.partition)) for target in scope.targets()
    ]
    response = at_once(scope.response(results, (), 0, no_pause))
    assert [(topic.topic_id, len(topic.partitions)) for topic in response.responses] == [
        (each, 2) for each in ids
    ]


def test_log_lines_look_like_kafkas() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        server_logging.configure(stream=stream)
        logging.getLogger("kcli.server.Test").warning("disk %s is slow", "a")
        logging.getLogger("kcli.server.Test").debug("not said")
        logging.getLogger("kcli.server.Test").critical("the end")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    first, last = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] WARN disk a is slow \(kafka\.server\.Test\)", first
    )
    assert "] FATAL the end (" in last


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ("process.roles=broker,controller\n", "node.id"),
        (
            (
                "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:0,CONTROLLER://:0\n"
                "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
                "authorizer.class.name=x.Y\n"
            ),
            "authorizer.class.name",
        ),
    ],
)
def test_a_configuration_that_cannot_be_served_ends_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], properties: str, said: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(properties + f"log.dirs={tmp_path / 'data'}\n")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        assert main.main([str(file)]) == 1
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert said in "".join(capsys.readouterr()), "in the log, or on stderr before the log is open"
    assert not (tmp_path / "data").exists()


def test_a_missing_file_ends_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([str(tmp_path / "none.properties")]) == 1
    assert "none.properties" in capsys.readouterr().err
