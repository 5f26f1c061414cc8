"""A member of a group over a `Client`: carries out the actions of a `Membership` with asyncio."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

from kcli.client.client import Client, Node
from kcli.client.coordinator import find_coordinator, forget_coordinator
from kcli.client.group.actions import Action, Assign, Callback, End, Find, Lose, Response, Revoke, Send, Take
from kcli.client.group.membership import Membership, State
from kcli.client.group.protocol import EmbeddedProtocol, Generation
from kcli.client.group.requests import GroupSettings
from kcli.errors import KafkaError, KcliError, NetworkException, ProtocolError
from kcli.runtime.rng import Rng, SystemRng

T = TypeVar("T")


class Member:
    """Joins a group and stays in it while `run` runs. If `run` is cancelled, the member dies without leaving.

    A member runs once. To join again, create a member with a new protocol, because the old one owns an assignment.
    The client serves this member only, because a broker answers the requests of a connection in order: a long fetch
    would delay the heartbeats.
    """

    def __init__(
        self, client: Client, settings: GroupSettings, protocol: EmbeddedProtocol, rng: Rng | None = None
    ) -> None:
        self.settings = settings
        self._client = client
        self._protocol = protocol
        self._membership = Membership(settings, protocol, rng or SystemRng())
        self._coordinator: Node | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._rebalance: asyncio.Task[None] | None = None
        """The task of the last request that was no heartbeat."""
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._error: Exception | None = None

    @property
    def generation(self) -> Generation:
        return self._membership.generation

    @property
    def state(self) -> State:
        return self._membership.state

    @property
    def is_leader(self) -> bool:
        return self._membership.is_leader

    @property
    def coordinator_silent_since(self) -> float | None:
        """The time of the event loop at which the coordinator answered last, or at which the member began to join.

        A member that the coordinator has not answered for longer than the session timeout may be out of the group, so
        other members may own its assignment. None if the member does not run, and while the coordinator may hold a
        JoinGroup or a SyncGroup of this member, because it keeps the member meanwhile.
        """
        since_ms = None if self._ended.is_set() else self._membership.silent_since_ms
        return None if since_ms is None else since_ms / 1000

    async def run(self) -> None:
        """Joins the group and stays in it until `leave` or a final error, which is raised.

        An error of the protocol's own code makes the member leave, and is then raised.
        """
        if self._ended.is_set():
            return  # `leave` was called before the task of this coroutine began
        async with asyncio.TaskGroup() as self._tasks:
            try:
                self._carry_out(self._membership.start(self._now_ms))
                await self._ended.wait()
            finally:
                self._ended.set()
                if self._timer is not None:
                    self._timer.cancel()
                for task in self._running:
                    task.cancel()
        if self._error is not None:
            raise self._error

    def rejoin(self, reason: str) -> None:
        """Joins again, because the metadata of this member has changed."""
        self._carry_out(self._membership.rejoin(reason, self._now_ms))

    async def leave(self, reason: str = "the member leaves", *, removes_static: bool = False) -> None:
        """Gives up the assignment and leaves the group. A static member only stops, except if `removes_static`.

        A coroutine of the protocol that calls this does not wait for the end, because the end waits for the coroutine.
        """
        if self.state is State.UNJOINED:
            self._ended.set()
        if not self._ended.is_set():
            self._leave(reason, removes_static=removes_static)
            if asyncio.current_task() not in self._running:
                await self._ended.wait()

    def _leave(self, reason: str, *, removes_static: bool) -> None:
        # A request of a member that leaves already is the LeaveGroup.
        if self._rebalance is not None and self.state is not State.LEAVING:
            self._rebalance.cancel()
        self._carry_out(self._membership.leave(reason, self._now_ms, removes_static=removes_static))

    # The actions of the membership.

    @property
    def _now_ms(self) -> int:
        # Rounded up, because a timer may run a little before its time. Rounded down, its deadline would not be over.
        return math.ceil(asyncio.get_running_loop().time() * 1000)

    def _carry_out(self, actions: tuple[Action, ...]) -> None:
        if self._ended.is_set():
            return  # after a cancellation, code of the protocol may still return, or a caller may call `rejoin`
        for action in actions:
            match action:
                case Find():
                    self._start(self._find())
                case Send():
                    task = self._start(self._send(action))
                    if not action.is_heartbeat:
                        self._rebalance = task
                case End(error):
                    self._error = self._error or error
                    self._ended.set()
                case _:
                    self._start(self._call(action))
        self._set_timer()

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "the member runs"
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline_ms = self._membership.next_deadline_ms
        if deadline_ms is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._carry_out(self._membership.tick(self._now_ms))

    async def _find(self) -> None:
        group = self.settings.group_id
        if self._coordinator is not None:
            forget_coordinator(self._client, group)
            if self.coordinator_silent_since is not None:
                # The look-up must not wait on a connection that is cut off. A connection on which the coordinator may
                # hold a request stays open: the time limit of this request closes it.
                self._client.disconnect(self._coordinator)
        try:
            self._coordinator = await find_coordinator(self._client, group)
            # A coordinator that cannot be reached is not found. So an unanswered request has at least been sent.
            await self._client.connection_to(self._coordinator)
        except (KafkaError, ProtocolError, OSError) as error:
            self._carry_out(self._membership.not_found(_kafka_error(error), self._now_ms))
        else:
            self._carry_out(self._membership.found(self._now_ms))

    async def _send(self, action: Send) -> None:
        assert self._coordinator is not None, "found before"
        try:
            response = await self._client.send(
                action.request, action.key, to=self._coordinator.id, timeout_ms=action.timeout_ms
            )
        except asyncio.CancelledError:
            # A broker answers the requests of a connection in order. LeaveGroup must not wait for JoinGroup.
            self._client.disconnect(self._coordinator)
            raise
        except (KafkaError, ProtocolError, OSError) as error:
            self._carry_out(self._membership.failed(action, _kafka_error(error), self._now_ms))
        else:
            assert isinstance(response, Response)
            self._carry_out(self._membership.answered(action, response, self._now_ms))

    async def _call(self, callback: Callback) -> None:
        membership, protocol = self._membership, self._protocol
        actions: tuple[Action, ...]
        match callback:
            case Assign(generation, members):
                made = await self._result(protocol.assign(generation, members), {})
                actions = membership.made(made, self._now_ms)
            case Take(generation, assignment):
                again = await self._result(protocol.assigned(generation, assignment), False)
                actions = membership.taken(self._now_ms, must_rejoin=again)
            case Revoke(everything):
                await self._result(protocol.revoked(everything=everything), None)
                actions = membership.given_up(self._now_ms)
            case Lose():
                await self._result(protocol.lost(), None)
                actions = membership.given_up(self._now_ms)
        self._carry_out(actions)

    async def _result(self, call: Awaitable[T], default: T) -> T:
        """Returns the result of a call of the protocol. After an error of the call, the member leaves."""
        try:
            return await call
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The protocol has awaited a task that was cancelled. The member is not cancelled, and must not hang.
            self._fail(KcliError("a task of the group's protocol was cancelled"), error)
        except Exception as error:  # the code of a user may raise anything
            self._fail(error, error)
        return default

    def _fail(self, error: Exception, cause: BaseException) -> None:
        self._error = self._error or error
        self._leave(f"the member failed with {type(cause).__name__}", removes_static=False)


def _kafka_error(error: Exception) -> KafkaError:
    return error if isinstance(error, KafkaError) else NetworkException(str(error))
