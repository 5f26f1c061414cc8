"""The sessions of brokers: the time of the last heartbeat of each broker. Sessions are not in the log.

A broker whose session has expired is fenced. A controller that starts knows no heartbeats. So an unfenced broker has
the whole session timeout to send its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kcli.metadata.image import BrokerRegistration
from kcli.model.ids import NO_OFFSET, BrokerId, Offset


@dataclass(slots=True)
class _Session:
    epoch: int
    last_contact_ms: int | None
    metadata_offset: Offset = NO_OFFSET
    # Only in a controlled shutdown: the metadata offset that the other active brokers must reach before this broker may
    # stop.
    controlled_shutdown_offset: Offset | None = None


class BrokerSessions:
    def __init__(self, timeout_ms: int, now_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._started_ms = now_ms
        self._sessions: dict[BrokerId, _Session] = {}

    def is_valid(self, broker_id: BrokerId, epoch: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return (
            session is not None
            and session.epoch == epoch
            and session.last_contact_ms is not None
            and now_ms < session.last_contact_ms + self._timeout_ms
        )

    def touch(self, broker_id: BrokerId, epoch: int, metadata_offset: Offset, now_ms: int) -> None:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = _Session(epoch, now_ms)
        session.last_contact_ms = now_ms
        session.metadata_offset = metadata_offset

    def forget(self, broker_id: BrokerId) -> None:
        self._sessions.pop(broker_id, None)

    def begin_controlled_shutdown(self, broker_id: BrokerId, offset: Offset) -> None:
        """Begins a controlled shutdown.

        `offset` is the metadata offset of the last record that moves the broker's leaderships.
        """
        session = self._sessions.get(broker_id)
        if session is not None:
            session.controlled_shutdown_offset = offset

    def may_shut_down(self, broker_id: BrokerId, brokers: Mapping[int, BrokerRegistration]) -> bool:
        """Whether every active broker has read the records that moved this broker's leaderships."""
        session = self._sessions.get(broker_id)
        if session is None or session.controlled_shutdown_offset is None:
            return True
        seen = [
            self._sessions[other.id].metadata_offset
            for other in brokers.values()
            if other.active and other.id in self._sessions
        ]
        return not seen or min(seen) >= session.controlled_shutdown_offset

    def expired(self, brokers: Mapping[int, BrokerRegistration], now_ms: int) -> Iterator[BrokerRegistration]:
        """The unfenced brokers whose sessions have expired."""
        for broker in brokers.values():
            if broker.fenced:
                continue
            session = self._sessions.get(broker.id)
            contact_ms = self._started_ms
            if session is not None and session.epoch == broker.epoch and session.last_contact_ms is not None:
                contact_ms = session.last_contact_ms
            if now_ms >= contact_ms + self._timeout_ms:
                yield broker
