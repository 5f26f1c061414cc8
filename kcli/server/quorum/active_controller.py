"""The controller while this node leads the quorum: it decides, appends, and answers when the records are committed.

A decision is based on all appended records, committed or not. The records of the decision are appended and replayed
immediately. After the commit, the new metadata image is published in this node, and then the response is sent. If the
node loses the leadership before the commit, the requests fail, and the next controller continues from the committed
records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext
from kcli.controller.bootstrap import encode_records
from kcli.controller.controller import Controller
from kcli.controller.decision import MAX_RECORDS_PER_BATCH, Decision, DecisionSteps, too_many_records
from kcli.controller.features import quorum_refused
from kcli.errors import (
    ErrorCode,
    KafkaError,
    NotControllerException,
    RecordBatchTooLargeException,
    StorageError,
    TimeoutException,
    error_for,
)
from kcli.metadata.replay import ImageReplayer
from kcli.protocol.records.metadata import MetadataRecord
from kcli.raft.requests import VoterChangeResponse
from kcli.runtime.clock import Clock
from kcli.runtime.turns import within
from kcli.server.quorum.committed import Ahead
from kcli.server.quorum.counts import ControllerCounts, ControllerTimes
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.replayed_lines import log_credentials

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")


MAX_BATCH_BYTES = 8 << 20
"""The largest batch of the metadata log, as in Kafka. A follower must be able to fetch a batch before its fetch times
out."""

Outcome = tuple[R, asyncio.Future[None] | None]
"""A response, and a future. The response may be sent when the future is done. The future is None if the response need
not wait for a commit."""


def session_ms(clock: Clock) -> int:
    """The present time by the clock of the brokers' sessions, in milliseconds.

    The time is monotonic, because a change of the wall clock must not end sessions.
    """
    return round(clock.monotonic() * 1000)


class ActiveController:
    """The controller of a node that leads the quorum, from the beginning of its leadership until `end`."""

    def __init__(
        self,
        controller: Controller,
        replayer: ImageReplayer,
        quorum: Quorum,
        clock: Clock,
        counts: ControllerCounts | None = None,
        times: ControllerTimes | None = None,
    ) -> None:
        """Makes the active controller. `replayer` applies appended records to the state from which `controller` makes
        its decisions.
        """
        self._counts = counts or ControllerCounts()
        self._times = times or ControllerTimes()
        self._controller = controller
        self._replayer = replayer
        self._driver = quorum.driver
        self._committed = quorum.committed
        self._quorum = quorum
        self._clock = clock
        self._ended: KafkaError | None = None
        self._moving: asyncio.Task[object] | None = None
        self.configs_changed = asyncio.Event()
        """An event that is set when a configuration has changed. The periodic work waits for this event, and then
        clears it."""

    @property
    def controller(self) -> Controller:
        """The controller. Raises NotControllerException if this node does not lead any more."""
        if self._ended is not None:
            raise self._ended
        return self._controller

    def end(self, error: NotControllerException) -> None:
        """Ends the leadership. All requests that wait for a commit, and all later requests, get `error`."""
        self._ended = error
        self._committed.drop_ahead(error)

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Returns the response when the records of the decision are committed.

        A decision without records waits for the commit of all records on which it is based.
        """
        timeout_ms = None if api.timeout_ms is None else api.timeout_ms(request, self._controller.settings)
        if timeout_ms is not None and timeout_ms <= 0:
            raise TimeoutException
        if api.arrived is not None:
            api.arrived(self.controller, request, session_ms(self._clock))

        def decide(controller: Controller, now_ms: int) -> Decision[R] | DecisionSteps[R]:
            return api.decide(controller, request, context, now_ms)

        carrying_out = self.carry_out(decide, moves_broker=api.moves_broker)
        if timeout_ms is None:
            return await carrying_out
        try:
            return await within(timeout_ms / 1000, carrying_out)
        except TimeoutError:
            self._counts.operations_timed_out += 1
            raise TimeoutException from None

    async def carry_out(
        self,
        decide: Callable[[Controller, int], Decision[R] | DecisionSteps[R]],
        *,
        moves_broker: bool = False,
    ) -> R:
        """Makes a decision, or all steps of a decision, and returns the response when the records are committed.

        `decide` gets the controller and the present time (`session_ms`). If `moves_broker` is True, first waits for
        earlier decisions of this kind (see `ControllerApi.moves_broker`). If the caller is cancelled, no further step
        is made.
        """
        self._counts.operations_started += 1
        arrived_at = self._clock.monotonic()
        while moves_broker and self._moving is not None:
            await asyncio.wait((self._moving,))
        began = self._clock.monotonic()
        self._times.queued_ms.add((began - arrived_at) * 1000)
        decided = self._decide(decide)
        if isinstance(decided, Decision) and decided.kraft_version is not None:
            await self._upgrade_quorum(decided.kraft_version)
            decided = self._decide(decide)
        if isinstance(decided, Decision):
            response, done = self._obey(decided)
        else:
            response, done = await self._begin_steps(decided, moves_broker)
        self._times.processed_ms.add((self._clock.monotonic() - began) * 1000)
        if done is not None:
            await asyncio.shield(done)
        return response

    def _decide(
        self, decide: Callable[[Controller, int], Decision[R] | DecisionSteps[R]]
    ) -> Decision[R] | DecisionSteps[R]:
        controller = self.controller
        self._follow_quorum()
        return decide(controller, session_ms(self._clock))

    def _follow_quorum(self) -> None:
        # The quorum appends records of its own, which have offsets too.
        self.controller.follow_quorum(self._quorum.log.end_offset, self._quorum.view.kraft_version)

    def _obey(self, decision: Decision[R]) -> Outcome[R]:
        done = self.append(decision.records) if decision.records else self._committed.last_appended
        return decision.response, done

    async def _begin_steps(self, steps: DecisionSteps[R], moves_broker: bool) -> Outcome[R]:
        """Makes the first step of a decision immediately. Most decisions have only one step."""
        outcome = self._make_step(steps)
        if outcome is not None:
            return outcome
        task = asyncio.create_task(self._make_steps(steps), name="controller-steps")
        task.add_done_callback(_retrieve)
        if moves_broker:
            self._moving = task
            task.add_done_callback(self._moved)
        return await asyncio.shield(task)

    async def _make_steps(self, steps: DecisionSteps[R]) -> Outcome[R]:
        try:
            while True:
                await asyncio.sleep(0)
                self._follow_quorum()
                outcome = self._make_step(steps)
                if outcome is not None:
                    return outcome
        finally:
            steps.close()

    def _make_step(self, steps: DecisionSteps[R]) -> Outcome[R] | None:
        """Makes the next step and appends its records, without a pause between the two. Returns the outcome of the
        last step."""
        try:
            records = next(steps)
        except StopIteration as last:
            return self._obey(last.value)
        try:
            if records:
                self.append(records)
        except BaseException:
            steps.close()
            raise
        return None

    def _moved(self, _task: asyncio.Task[Outcome[R]]) -> None:
        self._moving = None

    async def _upgrade_quorum(self, level: int) -> None:
        """Sets kraft.version to a higher level, and waits for the commit. Raises InvalidUpdateVersionException if a
        voter does not support the level."""
        response = (await self._driver.upgrade(level)).response
        assert isinstance(response, VoterChangeResponse)
        if response.error is not ErrorCode.NONE:
            raise quorum_refused(error_for(response.error, response.message))
        # The commit of a later record is also the commit of the new level.
        await self.write(self.controller.no_op())

    async def write(self, records: Sequence[MetadataRecord]) -> None:
        """Appends records that no request asked for, and waits for their commit."""
        if records:
            await asyncio.shield(self.append(records))

    def append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        """Appends the records immediately, in one batch. Returns the future of their commit.

        Raises NotControllerException, or another KafkaError if the records are too many or too large for a batch.
        """
        controller = self.controller
        if len(records) > MAX_RECORDS_PER_BATCH:
            raise too_many_records()
        values = encode_records(records, controller.image.metadata_version)
        size_bytes = sum(map(len, values))
        if size_bytes > MAX_BATCH_BYTES:
            raise RecordBatchTooLargeException(
                f"The total record(s) size of {size_bytes} exceeds the maximum allowed batch size of {MAX_BATCH_BYTES}"
            )
        try:
            appended = self._driver.append(values)
        except StorageError:
            # The failure has ended the leadership, so the request can succeed at another controller.
            raise self._quorum.not_leading() from None
        if self._ended is not None:
            raise self._ended  # the raft node has resigned in the same step
        before = controller.image.scram
        try:
            delta = controller.replay(
                records,
                last_offset=appended.last_offset,
                epoch=appended.epoch,
                timestamp_ms=appended.timestamp_ms,
            )
        except Exception as error:
            # The records are in the log but not in the state, so the next decision would ignore them.
            self._quorum.fail(error)
            raise
        log_credentials(before, records)
        if delta is not None and delta.configs_changed:
            self.configs_changed.set()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_retrieve)
        self._committed.replayed(
            Ahead(appended.base_offset, appended.last_offset, delta, self._replayer.point, done)
        )
        return done


def _retrieve(done: asyncio.Future[T]) -> None:
    """Marks the exception of a future as retrieved. If no caller waits for the future, asyncio would otherwise log the
    exception."""
    if not done.cancelled():
        done.exception()
