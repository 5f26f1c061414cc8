"""The controller while this node leads the quorum: it decides, appends, and answers when the records are committed.

A decision is based on all appended records, committed or not. The records of the decision are appended and replayed
immediately. They are committed when they are flushed to disk. A flush runs in a thread and covers all records that were
appended before it began. After the commit the loader publishes the new image, and then the response is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext
from kcli.controller.bootstrap import encode_records
from kcli.controller.controller import Controller
from kcli.controller.decision import MAX_RECORDS_PER_BATCH
from kcli.errors import KafkaError, NotControllerException, StorageError, TimeoutException
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.protocol.records.metadata import MetadataRecord
from kcli.runtime.clock import Clock
from kcli.server.quorum.driver import RaftDriver
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import QuorumVoters

_log = logging.getLogger("kcli.server.QuorumController")

Q = TypeVar("Q")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Pending:
    """A batch that is appended to the log but not yet committed."""

    last_offset: int
    delta: MetadataDelta | None
    image: MetadataImage
    done: asyncio.Future[None]


class ActiveController:
    """The controller of a node that leads, as its `ControllerChannel`. It serves requests between `lead` and `stop`."""

    def __init__(
        self,
        controller: Controller,
        driver: RaftDriver,
        loader: MetadataLoader,
        clock: Clock,
        *,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Makes a controller that does not lead yet. `on_fatal` ends the node, and is called if the metadata log cannot
        be written."""
        self._controller = controller
        self._driver = driver
        self._loader = loader
        self._clock = clock
        self._on_fatal = on_fatal
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()
        self._commits: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._is_stopped = False

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    @property
    def controller(self) -> Controller:
        """The controller. Raises NotControllerException if this node does not lead, or cannot write the log."""
        if self._failure is not None:
            raise NotControllerException(f"The metadata log cannot be written: {self._failure}")
        if self._is_stopped:
            raise NotControllerException
        return self._controller

    async def lead(self, quorum_voters: QuorumVoters) -> None:
        """Becomes the leader and commits the first batch of the new epoch. Raises QuorumError and StorageError."""
        for appended in await self._driver.start(quorum_voters):
            self._controller.skip(appended.last_offset, appended.epoch, appended.timestamp_ms)
            self._queue(appended.last_offset, None)
        self._committed(await self._driver.flush())
        self._commits = asyncio.create_task(self._commit_loop(), name="quorum-commit")

    async def stop(self) -> None:
        """Commits the appended records, then resigns."""
        if self._pending and self._failure is None:
            with contextlib.suppress(StorageError, KafkaError):
                await asyncio.shield(self._pending[-1].done)
        if self._commits is not None:
            self._commits.cancel()
            await asyncio.gather(self._commits, return_exceptions=True)
        self._driver.resign()
        self._is_stopped = True
        self._fail_pending(NotControllerException())

    # Requests.

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Returns the response when the records of the decision are committed.

        A decision without records waits for the commit of all records on which it is based.
        """
        timeout_ms = None if api.timeout_ms is None else api.timeout_ms(request)
        if timeout_ms is not None and timeout_ms <= 0:
            raise TimeoutException
        decision = api.decide(self.controller, request, context, self._clock.now_ms())
        if decision.records:
            done = self._append(decision.records)
        elif self._pending:
            done = self._pending[-1].done
        else:
            return decision.response
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await asyncio.shield(done)
        except TimeoutError:
            raise TimeoutException from None
        return decision.response

    async def write(self, records: Sequence[MetadataRecord]) -> None:
        """Appends records that no request asked for, and waits for their commit."""
        if records:
            await asyncio.shield(self._append(records))

    # Appending and committing.

    def _append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        """Appends the records immediately, in several batches if one batch cannot contain all of them. Returns the
        future of the last batch."""
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            done = self._append_batch(records[start : start + MAX_RECORDS_PER_BATCH])
        return done

    def _append_batch(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        controller = self.controller
        values = encode_records(records, controller.image.metadata_version)
        try:
            appended = self._driver.append(values)
        except StorageError as error:
            self.fail(error)
            raise
        delta = controller.replay(
            records,
            last_offset=appended.last_offset,
            epoch=appended.epoch,
            timestamp_ms=appended.timestamp_ms,
        )
        return self._queue(appended.last_offset, delta)

    def _queue(self, last_offset: int, delta: MetadataDelta | None) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Marks the exception as retrieved, because no caller may wait for this future.
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._pending.append(_Pending(last_offset, delta, self._controller.image, done))
        self._wake.set()
        return done

    async def _commit_loop(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._pending:
                    self._committed(await self._driver.flush())
        except Exception as error:
            # A disk has failed, or kcli has a bug. Without this call, no waiting request would get an answer.
            self.fail(error)

    def _committed(self, high_watermark: int | None) -> None:
        if high_watermark is None:
            return
        while self._pending and self._pending[0].last_offset < high_watermark:
            pending = self._pending.popleft()
            self._loader.publish(pending.delta, pending.image)
            if not pending.done.done():
                pending.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Ends this controller and, by `on_fatal`, its node, because the metadata log cannot be written."""
        self._failure = error
        _log.critical("The metadata log cannot be written any more: %s", error)
        self._fail_pending(NotControllerException(f"The metadata log cannot be written: {error}"))
        self._on_fatal(error)

    def _fail_pending(self, error: KafkaError) -> None:
        while self._pending:
            done = self._pending.popleft().done
            if not done.done():
                done.set_exception(error)
