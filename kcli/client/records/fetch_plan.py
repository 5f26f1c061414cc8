"""Plans the Fetch requests of one fetcher, which is a follower or a consumer: chooses the partitions in each request,
and continues the fetch session with the leader (KIP-227).

The first request of a session lists every partition. Later requests list only partitions whose values have changed
since the last request, and partitions that are no longer fetched. So the work for a request grows with the number of
changes, and not with the number of partitions. If the leader grants no session, every request lists every partition.

In a session the leader keeps the order of the partitions: a partition that had records moves to the end. Without a
session `FetchPlan` keeps the same order. So a busy partition does not delay the others.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.errors import ErrorCode
from kcli.model.request_values import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    SESSION_EPOCH_MAX,
)
from kcli.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The values for one partition in a Fetch request. A consumer uses the first three.

    Brokers before 3.1 need no `topic_id`. A `leader_epoch` of -1 means that the leader does not compare its epoch with
    that of the client (KIP-320).
    """

    topic_id: uuid.UUID | None
    fetch_offset: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


@dataclass(frozen=True, slots=True)
class PlannedFetch:
    """One request: the partitions that it lists, and the partitions that leave the session."""

    session_id: int
    session_epoch: int
    partitions: tuple[tuple[TopicPartition, FetchPosition], ...]
    forgotten: tuple[tuple[TopicPartition, uuid.UUID | None], ...] = ()

    @property
    def is_full(self) -> bool:
        return self.session_epoch == INITIAL_SESSION_EPOCH


def without_session(positions: Iterable[tuple[TopicPartition, FetchPosition]]) -> PlannedFetch:
    """Returns a request that lists `positions`, and that neither uses nor begins a session."""
    return PlannedFetch(NO_SESSION, FINAL_SESSION_EPOCH, tuple(positions))


class FetchPlan:
    """The partitions that one client fetches from one leader, and the state of the session."""

    def __init__(self) -> None:
        self._positions: dict[TopicPartition, FetchPosition] = {}
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_SESSION_EPOCH
        self._in_session: dict[TopicPartition, uuid.UUID | None] = {}
        """The partitions of the session, with their topic ids."""
        self._changed: dict[TopicPartition, None] = {}
        """The partitions whose values differ from the values in the session."""

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._positions

    def want(self, key: TopicPartition, position: FetchPosition) -> None:
        """Adds a partition to the plan, or changes its values, from the next request on."""
        if self._positions.get(key) != position:
            self._positions[key] = position
            self._changed[key] = None

    def forget(self, key: TopicPartition) -> None:
        """Removes a partition from the plan, from the next request on."""
        if self._positions.pop(key, None) is not None:
            self._changed[key] = None

    def had_records(self, keys: Iterable[TopicPartition]) -> None:
        """Moves partitions that had records to the end of the order."""
        for key in keys:
            if key in self._positions:
                self._positions[key] = self._positions.pop(key)

    def next(self) -> PlannedFetch:
        """The next request. Before the next call of this method, report the result of the request with `answered`,
        `refused` or `lost`."""
        if self._session_epoch == INITIAL_SESSION_EPOCH:
            self._changed.clear()
            self._in_session = {key: position.topic_id for key, position in self._positions.items()}
            return PlannedFetch(self._session_id, INITIAL_SESSION_EPOCH, tuple(self._positions.items()))
        listed = []
        forgotten = []
        for key in self._changed:
            position = self._positions.get(key)
            if key in self._in_session:
                topic_id = self._in_session[key]
                if position is None or position.topic_id != topic_id:
                    forgotten.append((key, topic_id))
                    del self._in_session[key]
            if position is not None:
                listed.append((key, position))
                self._in_session[key] = position.topic_id
        self._changed.clear()
        return PlannedFetch(self._session_id, self._session_epoch, tuple(listed), tuple(forgotten))

    def answered(self, session_id: int) -> None:
        """Continues the session that the leader granted. A `session_id` of 0 means that the leader granted no
        session."""
        self._session_id = session_id
        if session_id == NO_SESSION:
            self._session_epoch = INITIAL_SESSION_EPOCH
        elif self._session_epoch == SESSION_EPOCH_MAX:
            self._session_epoch = INITIAL_SESSION_EPOCH + 1
        else:
            self._session_epoch += 1

    def refused(self, error_code: ErrorCode) -> None:
        """Begins a new session after an error of the whole request. The next request also makes the leader drop the old
        session, if there is one."""
        if error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self._session_epoch = INITIAL_SESSION_EPOCH

    def lost(self) -> None:
        """Begins a new session, because the leader did not answer."""
        self._session_epoch = INITIAL_SESSION_EPOCH

    def begin(self) -> None:
        """Forgets the session, because the next request goes to another leader, or to the same leader at another
        address."""
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_SESSION_EPOCH
