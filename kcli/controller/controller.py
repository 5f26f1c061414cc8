"""The state on which every decision about the cluster depends: the appended image, and the brokers' sessions.

The functions that decide are the rows of `api`. Only `replay` changes the image, both in normal running and after a
restart. The caller must append the records of a decision and replay them before it asks for the next decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kcli.controller import brokers
from kcli.controller.brokers import BrokerContext
from kcli.controller.sessions import BrokerSessions
from kcli.controller.settings import ControllerSettings
from kcli.controller.topics import TopicContext
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import ControllerRegistration, MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import controller_record
from kcli.model.ids import LeaderEpoch, Offset
from kcli.protocol.records.metadata import AbortTransactionRecord, MetadataRecord, NoOpRecord
from kcli.runtime.rng import Rng


class Controller:
    """The active controller's state. `settings` and `rng` are inputs of decisions. For brokers that are already
    registered, a session begins at `now_ms`."""

    def __init__(self, replayer: ImageReplayer, settings: ControllerSettings, rng: Rng, now_ms: int) -> None:
        self._replayer = replayer
        self._settings = settings
        self._rng = rng
        self._sessions = BrokerSessions(settings.broker_session_timeout_ms, now_ms)
        self.next_offset = Offset(replayer.image.offset + 1)

    @property
    def image(self) -> MetadataImage:
        """The image of all appended records, committed or not."""
        return self._replayer.image

    @property
    def in_transaction(self) -> bool:
        return self._replayer.in_transaction

    def replay(
        self, records: Iterable[MetadataRecord], *, last_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int
    ) -> MetadataDelta | None:
        """Replays the next batch of the log. Returns None while a metadata transaction is open."""
        self.next_offset = Offset(last_offset + 1)
        return self._replayer.replay(records, last_offset=last_offset, epoch=epoch, timestamp_ms=timestamp_ms)

    def skip(self, last_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int) -> None:
        """Moves the image past a control batch of the log, because a control batch has no metadata records."""
        self.next_offset = Offset(last_offset + 1)
        self._replayer.skip(last_offset, epoch, timestamp_ms)

    def follow_quorum(self, next_offset: Offset, kraft_version: int) -> None:
        """Takes over what the records of the quorum itself have changed. Call it before each decision."""
        self.next_offset = next_offset
        if kraft_version != self._settings.kraft_version:
            self._settings = replace(self._settings, kraft_version=kraft_version)

    # --- what the deciders read

    @property
    def settings(self) -> ControllerSettings:
        return self._settings

    def topic_context(self) -> TopicContext:
        return TopicContext(self.image, self._settings, self._rng)

    def broker_context(self, now_ms: int) -> BrokerContext:
        return BrokerContext(self.image, self._settings, self._sessions, self.next_offset, now_ms)

    # --- records that no request asked for

    def fence_expired(self, now_ms: int, *, exempt: int | None = None) -> Sequence[MetadataRecord]:
        """The records that fence a broker whose session has expired. Empty if there is no such broker."""
        return brokers.fence_expired(self.broker_context(now_ms), exempt)

    def register_controller(self, registration: ControllerRegistration) -> Sequence[MetadataRecord]:
        """The record of a controller's endpoints and features. Empty if the registration is unchanged."""
        if self.image.controllers.get(registration.id) == registration:
            return ()
        return (controller_record(registration),)

    def abort_transaction(self) -> Sequence[MetadataRecord]:
        """The record that aborts the metadata transaction which the last controller left open."""
        return (AbortTransactionRecord(reason="controller failover"),)

    def no_op(self) -> Sequence[MetadataRecord]:
        """The NoOpRecord that an idle controller appends. It moves the high watermark, so that every node sees that the
        quorum is alive (KIP-835)."""
        return (NoOpRecord(),)
