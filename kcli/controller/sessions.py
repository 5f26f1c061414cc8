"""The sessions of brokers: the time of the last heartbeat of each broker. Sessions are not in the log.

A broker whose session has expired is fenced. A new controller has seen no heartbeats. So every unfenced broker
begins a session, and has the whole timeout to send its next heartbeat. During this time, no other process can register
with the id of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kcli.metadata.image import BrokerRegistration
from kcli.model.ids import NO_OFFSET, BrokerId, Offset


@dataclass(slots=True)
class _Session:
    epoch: int
    last_contact_ms: int
    metadata_offset: Offset = NO_OFFSET
    # Only in a controlled shutdown: the metadata offset that the other active brokers must reach before this broker may
    # stop.
    controlled_shutdown_offset: Offset | None = None


class BrokerSessions:
    def __init__(self, timeout_ms: int, brokers: Iterable[BrokerRegistration], now_ms: int) -> None:
        """Begins a session for each unfenced broker of `brokers`."""
        self._timeout_ms = timeout_ms
        self._sessions = {
            broker.id: _Session(broker.epoch, now_ms) for broker in brokers if not broker.fenced
        }

    def is_valid(self, broker_id: BrokerId, epoch: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and not self._is_over(session, now_ms)

    def touch(self, broker_id: BrokerId, epoch: int, now_ms: int) -> None:
        """Stores the time of a heartbeat. The decision about the heartbeat may come later, after other decisions."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = _Session(epoch, now_ms)
        session.last_contact_ms = now_ms

    def reached(self, broker_id: BrokerId, metadata_offset: Offset) -> None:
        """Stores the offset up to which the broker has applied the metadata."""
        session = self._sessions.get(broker_id)
        if session is not None:  # otherwise the session has ended while the heartbeat waited
            session.metadata_offset = metadata_offset

    def silent_ms(self, broker_id: BrokerId, now_ms: int) -> int:
        """The time since the last heartbeat of a broker, but at most the session timeout, as in Kafka's metric."""
        session = self._sessions.get(broker_id)
        silent_ms = self._timeout_ms if session is None else now_ms - session.last_contact_ms
        return min(silent_ms, self._timeout_ms)

    def forget(self, broker_id: BrokerId) -> None:
        self._sessions.pop(broker_id, None)

    def begin_controlled_shutdown(self, broker_id: BrokerId, offset: Offset) -> None:
        """Begins a controlled shutdown.

        `offset` is the metadata offset of the last record that moves the broker's leaderships.
        """
        self._sessions[broker_id].controlled_shutdown_offset = offset

    def may_shut_down(self, broker_id: BrokerId, brokers: Mapping[int, BrokerRegistration]) -> bool:
        """Whether a broker in controlled shutdown may stop: every active broker has read the records that moved its
        leaderships."""
        offset = self._sessions[broker_id].controlled_shutdown_offset
        if offset is None:
            return True
        return all(
            self._sessions[other.id].metadata_offset >= offset
            for other in brokers.values()
            if other.active and other.id in self._sessions
        )

    def expired(self, brokers: Mapping[int, BrokerRegistration], now_ms: int) -> Iterator[BrokerRegistration]:
        """The unfenced brokers whose sessions have expired."""
        for broker in brokers.values():
            session = self._sessions.get(broker.id)
            if not broker.fenced and (
                session is None or session.epoch != broker.epoch or self._is_over(session, now_ms)
            ):
                yield broker

    def _is_over(self, session: _Session, now_ms: int) -> bool:
        return now_ms > session.last_contact_ms + self._timeout_ms
