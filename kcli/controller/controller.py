"""The state on which decisions about the cluster depend: the image with all appended records, the index of this image,
and the brokers' sessions.

The functions that make decisions are in the table of api.py. Only `replay` changes the image, both in normal running
and after a restart. The caller must append the records of a decision and replay them before it asks for the next
decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from kcli.config.features import CONTROLLER_REGISTRATION_FROM
from kcli.controller.partition_index import PartitionIndex
from kcli.controller.sessions import BrokerSessions
from kcli.controller.settings import ControllerSettings
from kcli.controller.topics import TopicContext
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import BrokerRegistration, ControllerRegistration, MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import controller_record
from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.protocol.records.metadata import AbortTransactionRecord, MetadataRecord, NoOpRecord
from kcli.runtime.rng import Rng
from kcli.security.tokens import TokenFinder


class Controller:
    """The active controller's state. `settings` and `rng` are inputs of decisions.

    When the controller is made, a session begins for each unfenced broker except the broker in this process. `now_ms`
    is the start of these sessions.
    """

    def __init__(self, replayer: ImageReplayer, settings: ControllerSettings, rng: Rng, now_ms: int) -> None:
        self._replayer = replayer
        self._settings = settings
        self._rng = rng
        self._expected: tuple[BrokerId, BrokerRegistration | None] | None = None
        self._expected_image = self._base = replayer.image
        # The broker in this process begins its session with its first heartbeat. Its registration may be from an
        # earlier process of this node, which has certainly ended, so the broker may register at once.
        others = [broker for broker in replayer.image.brokers.values() if broker.id != settings.node_id]
        self.sessions = BrokerSessions(settings.broker_session_timeout_ms, others, now_ms)
        """The sessions of the brokers. Their times are times of a monotonic clock."""
        self.index = PartitionIndex(replayer.image)
        self.next_offset = Offset(replayer.image.offset + 1)
        self.token_finder = TokenFinder(settings.tokens.secret_key or "")

    @property
    def image(self) -> MetadataImage:
        """The image of all appended records, committed or not.

        While a broker starts or stops in several steps (`expecting`), the image already has the new state of the
        broker.
        """
        base = self._replayer.image
        if self._expected is None:
            return base
        if self._base is not base:
            broker_id, registration = self._expected
            brokers = {key: broker for key, broker in base.brokers.items() if key != broker_id}
            if registration is not None:
                brokers[broker_id] = registration
            self._base, self._expected_image = base, replace(base, brokers=brokers)
        return self._expected_image

    @contextmanager
    def expecting(self, broker_id: BrokerId, registration: BrokerRegistration | None) -> Iterator[None]:
        """A context in which decisions see this registration of the broker (None: the broker is not registered).

        The partitions of a broker change in several steps, before or after its registration. Other decisions between
        these steps must not make a stopping broker a leader or add it to an ISR.
        """
        assert self._expected is None, "two brokers change at once"
        self._expected = broker_id, registration
        self._base = MetadataImage()
        try:
            yield
        finally:
            self._expected = None

    @property
    def in_transaction(self) -> bool:
        return self._replayer.in_transaction

    def replay(
        self, records: Iterable[MetadataRecord], *, last_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int
    ) -> MetadataDelta | None:
        """Replays the next batch of the log. Returns None while a metadata transaction is open."""
        self.next_offset = Offset(last_offset + 1)
        delta = self._replayer.replay(
            records, last_offset=last_offset, epoch=epoch, timestamp_ms=timestamp_ms
        )
        if delta is not None:
            self.index.update(delta)
        return delta

    def skip(self, last_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int) -> None:
        """Moves the image past a control batch of the log, because a control batch has no metadata records."""
        self.next_offset = Offset(last_offset + 1)
        self._replayer.skip(last_offset, epoch, timestamp_ms)

    def follow_quorum(self, next_offset: Offset, kraft_version: int) -> None:
        """Applies the changes from the quorum's own records (such as a new kraft.version). Call this method before each
        decision, and before each step of a decision."""
        self.next_offset = next_offset
        if kraft_version != self._settings.kraft_version:
            self._settings = replace(self._settings, kraft_version=kraft_version)

    # --- what the deciders read

    @property
    def settings(self) -> ControllerSettings:
        return self._settings

    @property
    def rng(self) -> Rng:
        return self._rng

    def topic_context(self) -> TopicContext:
        return TopicContext(self.image, self._settings, self._rng)

    # --- records that no request asked for

    def register_controller(self, registration: ControllerRegistration) -> Sequence[MetadataRecord]:
        """The record that registers a controller's endpoints and features. The result is empty if the registration is
        unchanged, or if the finalized metadata.version has no such record."""
        if (
            self.image.metadata_version < CONTROLLER_REGISTRATION_FROM.level
            or self.image.controllers.get(registration.id) == registration
        ):
            return ()
        return (controller_record(registration),)

    def abort_transaction(self) -> Sequence[MetadataRecord]:
        """The record that aborts the metadata transaction which the last controller left open."""
        return (AbortTransactionRecord(reason="controller failover"),)

    def no_op(self) -> Sequence[MetadataRecord]:
        """The NoOpRecord that an idle controller appends. The record moves the high watermark, so that every node sees
        that the quorum is alive (KIP-835)."""
        return (NoOpRecord(),)
