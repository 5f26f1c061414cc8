"""An event loop with simulated time: hours run in a second, and the same seed gives the same run.

The loop never waits. If no callback is ready, the clock jumps to the next timer. If there is no timer either, every
task waits for another task, and `Deadlock` is raised. Jobs for an executor run on the loop too, after a random delay.
The result of a job is reported after another random delay. So a crash can happen before the job, after its report, and
between job and report.

A `SimProcess` can be killed. The context of each task, timer and callback contains the process that has made it. When
the process is dead, its tasks, timers and callbacks never run again. Not even a `finally` block can use the loop or a
disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import heapq
import random
import traceback
from asyncio.events import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

# The number of lines of the trace that a failed run shows.
REMEMBERED_NOTES = 60
# The largest number of nested waits at the end of a coroutine. Real ones have two or three.
CLOSINGS_MAX = 20
# If two timers are closer together than this, they run in the same turn, as with a real clock.
RESOLUTION_S = 1e-9
# The most consecutive turns in which the time does not move. Real work needs far fewer turns: reading 100 MB takes 1600
# turns.
TURNS_AT_ONCE_MAX = 20_000

_process: contextvars.ContextVar[SimProcess | None] = contextvars.ContextVar("sim_process", default=None)


class Deadlock(AssertionError):
    """Raised if every task waits and no timer is set."""


class Livelock(AssertionError):
    """Raised if callbacks call each other without end, so that no time passes."""


class SimProcess:
    """The tasks and callbacks that `spawn` has started directly or indirectly. `SimLoop.kill` ends them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.is_paused = False
        self.held: list[Handle] = []
        """The callbacks that are due while the process is paused."""
        self.context = contextvars.copy_context()
        self.context.run(_process.set, self)
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """The tasks whose end the process does not know yet."""

    @staticmethod
    def current() -> SimProcess | None:
        return _process.get()

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        loop = asyncio.get_running_loop()
        return loop.create_task(coroutine, name=name, context=self.context.copy())

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        # This callback is removed with all others if the process ends before it learns of the task's end.
        task.add_done_callback(self._forget, context=self.context)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def end(self) -> None:
        """Closes every coroutine at its `await`. Callbacks that the closing coroutines make are dropped."""
        self.alive = False
        self.is_paused = False
        self.held.clear()
        for task in self._tasks:
            if task.done():
                if not task.cancelled():
                    task.exception()  # its caller died before it could look at this exception
            else:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # its end is not an error
                coroutine = task.get_coro()
                assert isinstance(coroutine, Coroutine | Generator), "only finished tasks have none"
                # A `finally` block or a TaskGroup may wait once more, and then the coroutine has to be closed again.
                for _ in range(CLOSINGS_MAX):
                    with contextlib.suppress(BaseException):
                        self.context.copy().run(coroutine.close)
                        break
        self._tasks.clear()


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of one simulation. `simulate` creates it.

    A turn is one iteration of the loop. `on_turn` is called before each turn. An exception in `on_turn` ends the run.
    `problems` collects the errors of callbacks and of tasks that nothing awaits. An entry in `problems` also ends the
    run. `acting` has the processes whose callbacks have run in the last turn. Only their state can be new.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.problems: list[str] = []
        self.notes: deque[str] = deque(maxlen=REMEMBERED_NOTES)
        self.on_turn: list[Callable[[], None]] = []
        self.turns = 0
        self.acting: dict[SimProcess | None, None] = {}
        self._turns_at_once = 0
        self._now = 0.0
        self._trace = hashlib.blake2b(digest_size=16)
        self._selector = _NothingToSelect(self)
        self._clock_resolution = RESOLUTION_S
        self.set_exception_handler(self._keep_problem)

    def time(self) -> float:
        return self._now

    # The trace.

    def stall(self, seconds: float) -> None:
        """Lets time pass inside a callback, while no other callback runs."""
        self._now += seconds

    def note(self, text: str, *, keep: bool = True) -> None:
        """Adds a line to the trace, which is the same in two runs of a seed.

        If `keep` is True, a failed run shows the line.
        """
        line = f"{self._now:.6f} {text}"
        if keep:
            self.notes.append(line)
        self._trace.update(line.encode())

    @property
    def trace(self) -> str:
        """A digest of all lines of the trace so far."""
        return self._trace.hexdigest()

    def _keep_problem(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        where = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
        self.problems.append(f"{self._now:.6f} {context.get('message')}\n{where}")

    # Asyncio's own hooks.

    def advance(self, timeout: float | None) -> None:
        """Checks the run, then moves the clock to the next timer. At this point a real loop waits for sockets."""
        self.turns += 1
        if self.problems:
            raise AssertionError("\n".join(self.problems))
        for check in self.on_turn:
            check()
        if timeout is None:
            raise Deadlock(f"every task waits and no timer is set: {self._waiting()}")
        self._turns_at_once += 1
        if self._turns_at_once > TURNS_AT_ONCE_MAX:
            raise Livelock(f"no time passes: {', '.join(str(handle) for handle in self._ready)}")  # type: ignore[attr-defined]
        if timeout > 0:
            self._turns_at_once = 0
            self._now = max(self._now, min(self._scheduled[0]._when, self._now + timeout + RESOLUTION_S))  # type: ignore[attr-defined]
        self._prepare_turn()

    def _prepare_turn(self) -> None:
        """Finds the processes of the next turn. Callbacks of a paused process wait for the end of the pause."""
        ready: deque[Handle] = self._ready  # type: ignore[attr-defined]
        scheduled: list[TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        # The same timers, in the same order, that asyncio would take next.
        while scheduled and scheduled[0].when() < self._now + RESOLUTION_S:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        self.acting.clear()
        for handle in ready:
            self.acting[handle._context.get(_process)] = None  # type: ignore[attr-defined]
        for process in [each for each in self.acting if each is not None and each.is_paused]:
            self._hold(process)

    def _hold(self, process: SimProcess) -> None:
        """Takes the callbacks of a paused process out of the next turn."""
        del self.acting[process]
        ready: deque[Handle] = self._ready  # type: ignore[attr-defined]
        for handle in list(ready):
            if handle._context.get(_process) is process:  # type: ignore[attr-defined]
                ready.remove(handle)
                process.held.append(handle)

    def pause(self, process: SimProcess) -> None:
        """Stops a process like SIGSTOP: its callbacks wait, and its sockets stay open."""
        process.is_paused = True

    def go_on(self, process: SimProcess) -> None:
        """Ends a pause like SIGCONT. Everything that was due runs now."""
        if process.is_paused:
            process.is_paused = False
            self._ready.extend(process.held)  # type: ignore[attr-defined]
            process.held.clear()

    def _waiting(self) -> str:
        return ", ".join(sorted(task.get_name() for task in asyncio.all_tasks(self)))

    def _process_events(self, event_list: object) -> None:
        """Does nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Does nothing: no other thread exists that could wake this loop."""

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Handle:
        return _unless_dead(super().call_soon(callback, *args, context=context))

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Handle:
        return _unless_dead(super().call_soon_threadsafe(callback, *args, context=context))

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> TimerHandle:
        return _unless_dead(super().call_at(when, callback, *args, context=context))

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        context = options.get("context")
        process = _process.get() if context is None else context.get(_process)
        if process is not None:
            process.adopt(task)
        return task

    # Executors.

    def delay(self) -> float:
        """Returns a random delay of a disk or a thread: short in most cases, but long at times."""
        chance = self.rng.random()
        if chance < 0.90:
            return self.rng.random() * 0.002
        return self.rng.random() * (0.05 if chance < 0.995 else 1.0)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if answer.cancelled():
                return
            try:
                result = func(*args)
            except BaseException as error:
                self.call_later(self.delay(), _fail, answer, error)
            else:
                self.call_later(self.delay(), _complete, answer, result)

        self.call_later(self.delay(), work)
        return answer

    # The end of a process.

    def kill(self, process: SimProcess) -> None:
        """Ends a process: none of its callbacks runs after this."""
        assert SimProcess.current() is not process, "a process is killed from outside"
        process.end()
        for handle in [*self._ready, *self._scheduled]:  # type: ignore[attr-defined]
            if handle._context.get(_process) is process:
                handle.cancel()


def simulate(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, T]]) -> T:
    """Runs `main` on a new loop. When `main` ends, the tasks that are still running are closed."""
    loop = SimLoop(seed)
    everything = SimProcess("simulation")
    try:
        task: asyncio.Task[T] = loop.create_task(
            main(loop), name="simulation", context=everything.context.copy()
        )
        return loop.run_until_complete(task)
    finally:
        everything.end()
        loop.close()


def simulate_noted(seed: int, story: Callable[[SimLoop], Coroutine[Any, Any, T]], again: str) -> T:
    """Runs `story` like `simulate`. An error of the run also shows the last notes (`SimLoop.note`), and `again`, the
    command that runs the seed again."""
    last_notes: list[Iterable[str]] = []

    async def noted(loop: SimLoop) -> T:
        last_notes.append(loop.notes)
        return await story(loop)

    try:
        return simulate(seed, noted)
    except BaseException as error:
        for notes in last_notes:
            error.add_note("The last that happened:\n  " + "\n  ".join(notes))
        error.add_note(f"To see it again: {again}")
        raise


class SimExecutor(Executor):
    """An executor without threads: each job runs on the loop, after a delay."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        self._loop.call_later(self._loop.delay(), self._run_next)
        return future

    def _run_next(self) -> None:
        if not self._waiting:
            return
        future, work = self._waiting.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
                self._loop.problems.append(f"{self._loop.time():.6f} a background job failed: {error!r}")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while wait and self._waiting:
            self._run_next()


class _NothingToSelect:
    """The selector of a loop without sockets."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> tuple[()]:
        self._loop.advance(timeout)
        return ()


HandleT = TypeVar("HandleT", Handle, TimerHandle)


def _unless_dead(handle: HandleT) -> HandleT:
    process = handle._context.get(_process)  # type: ignore[attr-defined]
    if process is not None and not process.alive:
        handle.cancel()
    return handle


def _complete(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
