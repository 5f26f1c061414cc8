"""The threads of logins: the work of a client that has left does not run."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kcli.server.logins.login_threads import LOGIN_THREADS, LoginThreads
from rigs.loops import PATIENCE_S


def test_work_whose_client_has_left_does_not_run() -> None:
    async def story() -> None:
        threads, may_end, ran = LoginThreads(), threading.Event(), list[int]()
        try:
            busy = [
                asyncio.ensure_future(threads.run(lambda: may_end.wait(PATIENCE_S)))
                for _ in range(LOGIN_THREADS)
            ]
            waiting = [asyncio.ensure_future(threads.run(lambda: ran.append(1))) for _ in range(100)]
            await asyncio.sleep(0)
            for task in (busy[0], *waiting):
                task.cancel()
            last = asyncio.ensure_future(threads.run(lambda: "the next login"))
            may_end.set()
            assert await last == "the next login"
            assert [await task for task in busy[1:]] == [True] * (LOGIN_THREADS - 1)
            assert not ran
        finally:
            threads.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_a_cancelled_step_keeps_its_thread_until_it_ends() -> None:
    async def story() -> None:
        threads, may_end, ran = LoginThreads(), threading.Event(), list[int]()
        try:
            busy = [
                asyncio.ensure_future(threads.run(lambda: may_end.wait(PATIENCE_S)))
                for _ in range(LOGIN_THREADS)
            ]
            await asyncio.sleep(0)
            for task in busy:
                task.cancel()
            await asyncio.wait(busy)
            later = asyncio.ensure_future(threads.run(lambda: ran.append(1)))
            await asyncio.sleep(0)
            later.cancel()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await later
            await threads.run(lambda: ran.append(2))
            assert ran == [2]
        finally:
            threads.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
