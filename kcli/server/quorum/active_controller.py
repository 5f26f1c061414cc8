"""The controller while this node leads the quorum: it decides, appends, and answers when the records are committed.

A decision is based on all appended records, committed or not. The records of the decision are appended and replayed
immediately. After the commit the loader publishes the new image, and then the response is sent. If the node loses the
lead first, the requests fail and the next controller continues from the committed records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext
from kcli.controller.bootstrap import encode_records
from kcli.controller.controller import Controller
from kcli.controller.decision import MAX_RECORDS_PER_BATCH, Decision
from kcli.controller.features import quorum_refused
from kcli.errors import (
    ErrorCode,
    KafkaError,
    NotControllerException,
    StorageError,
    TimeoutException,
    error_for,
)
from kcli.metadata.replay import ImageReplayer
from kcli.protocol.records.metadata import MetadataRecord
from kcli.raft.requests import VoterChangeResponse
from kcli.runtime.clock import Clock
from kcli.server.quorum.committed import Ahead
from kcli.server.quorum.quorum import Quorum

Q = TypeVar("Q")
R = TypeVar("R")


def session_ms(clock: Clock) -> int:
    """The time of the brokers' sessions, in milliseconds.

    It is monotonic, because a step of the wall clock must not end sessions.
    """
    return round(clock.monotonic() * 1000)


class ActiveController:
    """The controller of a node that leads, from the claim of the lead until `end`."""

    def __init__(self, controller: Controller, replayer: ImageReplayer, quorum: Quorum, clock: Clock) -> None:
        """`replayer` has the state of `controller`."""
        self._controller = controller
        self._replayer = replayer
        self._driver = quorum.driver
        self._committed = quorum.committed
        self._quorum = quorum
        self._clock = clock
        self._ended: KafkaError | None = None

    @property
    def controller(self) -> Controller:
        """The controller. Raises NotControllerException if this node does not lead any more."""
        if self._ended is not None:
            raise self._ended
        return self._controller

    def end(self, error: NotControllerException) -> None:
        """Ends the lead. All requests that wait for a commit get the error, and so do later requests."""
        self._ended = error
        self._committed.drop_ahead(error)

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Returns the response when the records of the decision are committed.

        A decision without records waits for the commit of all records on which it is based.
        """
        timeout_ms = None if api.timeout_ms is None else api.timeout_ms(request)
        if timeout_ms is not None and timeout_ms <= 0:
            raise TimeoutException
        decision = self._decide(api, request, context)
        if decision.kraft_version is not None:
            await self._upgrade_quorum(decision.kraft_version)
            decision = self._decide(api, request, context)
        done = self.append(decision.records) if decision.records else self._committed.last_appended
        if done is None:
            return decision.response
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await asyncio.shield(done)
        except TimeoutError:
            raise TimeoutException from None
        return decision.response

    def _decide(self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext) -> Decision[R]:
        controller = self.controller
        # The quorum appends records of its own, which count as offsets too.
        controller.follow_quorum(self._quorum.log.end_offset, self._quorum.view.kraft_version)
        return api.decide(controller, request, context, session_ms(self._clock))

    async def _upgrade_quorum(self, level: int) -> None:
        """Raises kraft.version, and waits for the commit. Raises InvalidUpdateVersionException if a voter does not
        support the level."""
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
        """Appends the records immediately, in several batches if one batch cannot contain all of them. Returns the
        future of the commit of the last batch. Raises NotControllerException."""
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            done = self._append_batch(records[start : start + MAX_RECORDS_PER_BATCH])
        return done

    def _append_batch(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        controller = self.controller
        values = encode_records(records, controller.image.metadata_version)
        try:
            appended = self._driver.append(values)
        except StorageError:
            # The failure has ended the lead, so the request can succeed at another controller.
            raise self._quorum.not_leading() from None
        if self._ended is not None:
            raise self._ended  # the raft node has resigned in the same step
        try:
            delta = controller.replay(
                records,
                last_offset=appended.last_offset,
                epoch=appended.epoch,
                timestamp_ms=appended.timestamp_ms,
            )
        except Exception as error:
            # The records are in the log, so the next decision would not know of them.
            self._quorum.fail(error)
            raise
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Marks the exception as retrieved, because no caller may wait for this future.
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._committed.replayed(
            Ahead(appended.base_offset, appended.last_offset, delta, self._replayer.point, done)
        )
        return done
