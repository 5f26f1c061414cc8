"""Fetch sessions (KIP-227): the broker remembers the partitions that a client reads, and the last high watermark and
log start offset that it has sent to the client.

Here, the epoch is the number of a fetch in its session. A full fetch (epoch 0) lists every partition and may begin a
session. The incremental fetches of the session (epoch 1, 2, …) list only changes. The answer to an incremental fetch
has only partitions with records, with an error, or with a new high watermark or log start offset. Partitions that
returned records move to the end of the order, so that the next answer begins with other partitions. A fetch with epoch
-1 is a full fetch that closes the session or needs no session.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from kcli.errors import ErrorCode, InvalidFetchSessionEpochException
from kcli.model.pace import Pace
from kcli.model.request_values import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    SESSION_EPOCH_MAX,
)
from kcli.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from kcli.protocol.wire.fetch_codec import TOPIC_ID_FROM
from kcli.runtime.rng import Rng
from kcli.server.partitions.fetch_targets import FetchTarget, Key
from kcli.server.partitions.parked import ParkedFetch, ParkedFetches

_SESSION_ID_MAX = 2**31 - 1
# A session of this age may be evicted in favour of a new session (Kafka's min.incremental.fetch.session.eviction.ms).
EVICTION_MIN_AGE_MS = 120_000
_NOT_DIVERGING = EpochEndOffset()


def replica_of(request: FetchRequest) -> int:
    """The broker id of the follower that fetches, or -1 for a consumer. From version 15 on, this id is in
    `replica_state`."""
    return max(request.replica_id, request.replica_state.replica_id)


Results = list[tuple[FetchTarget, PartitionData]]

PARTITION_COST = 1
PARTITIONS_AT_ONCE = 50
"""Partitions that are charged together, because a call of the pace is not free."""


WATCHED_FROM = 4
"""The smallest number of partitions in a session for which a fetch skips unchanged partitions. In smaller sessions,
reading these partitions costs less than watching them."""

REFRESH_MAX_MS = 2000
"""The longest time for which an unchanged partition is not read. A read has two purposes: the leader notices that the
follower still fetches, and the client gets a new log start offset."""

REFRESHES_PER_LAG_TIME = 4
"""The number of reads of an unchanged partition in each replica.lag.time.max.ms, if the time between two such reads is
shorter than REFRESH_MAX_MS. If a leader sees no fetch of a follower for replica.lag.time.max.ms, it removes the
follower from the ISR."""

REFRESHED_AT_ONCE = 50
"""The most unchanged partitions that one fetch reads again. If a quarter of the quiet partitions is more, this quarter
is the limit. The limit spreads the reads over several fetches. Without a limit, partitions that were read together once
would always be read together."""


class Quiet(NamedTuple):
    """The state of a partition that has nothing new for the client of a session.

    `partition` is the list of requests and sessions that wait for changes of the partition. `read_ms` is the time at
    which the partition was last read.
    """

    partition: ParkedFetches
    read_ms: int


@dataclass(slots=True, eq=False)
class FetchSession:
    """The partitions of one client.

    The next fetch reads the `active` partitions, in this order. The `quiet` partitions have nothing new for the client.
    If such a partition changes, it becomes active. So if a follower has thousands of partitions, its fetch reads only a
    few of these partitions. `parked` is the last fetch of the session that had to wait for records.
    """

    id: int
    uses_topic_ids: bool
    is_follower: bool
    created_ms: int
    last_used_ms: int
    targets: dict[Key, FetchTarget]
    active: dict[FetchTarget, None]
    quiet: dict[FetchTarget, Quiet] = field(default_factory=dict)
    parked: ParkedFetch | None = None
    epoch: int = 1
    allowed_by: object | None = None
    """The key of the client's permissions (`Rights.permissions_key`) when a check last allowed all partitions of the
    session. None if there was no such check."""

    def add(self, target: FetchTarget) -> None:
        self.allowed_by = None
        self.targets[target.key] = target
        self.active[target] = None

    def remove(self, key: Key) -> None:
        target = self.targets.pop(key, None)
        if target is not None:
            self.wake(target)
            del self.active[target]

    def rest(self, target: FetchTarget, partition: ParkedFetches, now_ms: int) -> None:
        """Makes a partition quiet, because it has nothing new for the client."""
        if target in self.active:
            del self.active[target]
            self.quiet[target] = Quiet(partition, now_ms)
            partition[self] = target

    def wake(self, target: FetchTarget) -> None:
        """Makes a quiet partition active."""
        quiet = self.quiet.pop(target, None)
        if quiet is not None:
            quiet.partition.pop(self, None)
            self.active[target] = None

    def wake_read_before(self, time_ms: int) -> None:
        """Makes quiet partitions active if they were last read before `time_ms`. Each fetch wakes only a limited number
        of partitions in this way."""
        oldest = next(iter(self.quiet.values()), None)
        if oldest is None or oldest.read_ms >= time_ms:
            return
        share = max(REFRESHED_AT_ONCE, len(self.quiet) // REFRESHES_PER_LAG_TIME)
        for target, quiet in list(islice(self.quiet.items(), share)):
            if quiet.read_ms < time_ms:
                self.wake(target)

    def changed(self, partition: ParkedFetches, size_bytes: int, *, measure: bool) -> None:
        target = partition[self]
        self.wake(target)
        if self.parked is not None and not self.parked.finished:
            self.parked.park(partition, target)
            self.parked.changed(partition, size_bytes, measure=measure)

    def finish(self) -> None:
        """Makes all partitions active. The broker calls this method after it has lost the leadership of a partition.

        The call also makes the other partitions active. When a broker stops, many leaderships end together, and one
        call is enough for all of them.
        """
        self.end()
        if self.parked is not None:
            self.parked.finish()

    def end(self) -> None:
        """Removes the session from the lists of its quiet partitions. Each partition has a list of the fetches and
        sessions that wait for its changes. Call this method before the session is dropped.
        """
        for target in list(self.quiet):
            self.wake(target)


@dataclass(slots=True, eq=False, weakref_slot=True)
class SessionCounts:
    """The number of sessions that were dropped since the start, because a new session needed their place."""

    evictions: int = 0


class FetchSessions:
    """The fetch sessions of the broker: at most `slots` sessions. The sessions are in the order of their last use, the
    oldest use first."""

    def __init__(self, slots: int, rng: Rng, refresh_ms: int = REFRESH_MAX_MS) -> None:
        """Makes an empty cache of sessions. After `refresh_ms`, a partition is read again even if it has not
        changed.
        """
        self.slots = slots
        self._refresh_ms = min(refresh_ms, REFRESH_MAX_MS)
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}
        self.counts = SessionCounts()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(list(self._sessions.values()))

    async def open(self, request: FetchRequest, version: int, now_ms: int, pace: Pace) -> FetchScope:
        """Finds the partitions that a request reads and the rules for its answer."""
        if request.session_epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
            self._drop(request.session_id)
            wants_session = request.session_epoch == INITIAL_SESSION_EPOCH
            targets: dict[Key, FetchTarget] = {}
            for number, target in enumerate(_targets(request)):
                if number % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
                    await pace(PARTITIONS_AT_ONCE * PARTITION_COST)
                targets[target.key] = target
            return FetchScope(self, targets, request, version, session=None, wants_session=wants_session)
        session = self._sessions.get(request.session_id)
        if session is None:
            return _refused(self, request, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return _refused(self, request, version, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= TOPIC_ID_FROM):
            return _refused(self, request, version, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        epoch = session.epoch = 1 if session.epoch == SESSION_EPOCH_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        await _update(session, request, pace)
        session.wake_read_before(now_ms - self._refresh_ms)
        if not session.targets:
            self._drop(session.id)
            return FetchScope(self, {}, request, version, session=None, wants_session=False)
        return FetchScope(self, session.targets, request, version, session=session, epoch=epoch)

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def create(self, scope: FetchScope, now_ms: int) -> int:
        """Creates a session for a full fetch that has been answered. Returns NO_SESSION if there is no room."""
        is_follower = scope.replica_id >= 0
        if not self._has_room(len(scope.by_key), is_follower, now_ms):
            return NO_SESSION
        session_id = 1 + self._rng.randrange(_SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = 1 + self._rng.randrange(_SESSION_ID_MAX)
        session = FetchSession(
            id=session_id,
            uses_topic_ids=scope.version >= TOPIC_ID_FROM,
            is_follower=is_follower,
            created_ms=now_ms,
            last_used_ms=now_ms,
            targets=scope.by_key,
            active=dict.fromkeys(scope.by_key.values()),
        )
        self._sessions[session_id] = session
        return session_id

    def _has_room(self, size: int, is_follower: bool, now_ms: int) -> bool:
        if len(self._sessions) < self.slots:
            return True
        if self.slots <= 0:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MIN_AGE_MS:
            self._evict(oldest)
            return True
        candidates = [
            session
            for session in self._sessions.values()
            if (is_follower and not session.is_follower)
            or (
                session.is_follower == is_follower
                and len(session.targets) < size
                and now_ms - session.created_ms > EVICTION_MIN_AGE_MS
            )
        ]
        if not candidates:
            return False
        evicted = min(candidates, key=lambda session: (session.is_follower, len(session.targets)))
        self._evict(evicted)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.counts.evictions += 1
        self._drop(session.id)


class FetchScope:
    """One fetch request: the partitions to read, and the rules for its response."""

    __slots__ = (
        "_epoch",
        "_session",
        "_sessions",
        "_wants_session",
        "allowed",
        "by_key",
        "error_code",
        "replica_id",
        "request",
        "version",
    )

    def __init__(
        self,
        sessions: FetchSessions,
        targets: dict[Key, FetchTarget],
        request: FetchRequest,
        version: int,
        *,
        session: FetchSession | None,
        epoch: int = INITIAL_SESSION_EPOCH,
        wants_session: bool = False,
        error_code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.allowed: Container[str] | None = None
        """The topics that the client may read, or None if it may read every topic."""
        self.by_key = targets
        self.request = request
        self.replica_id = replica_of(request)
        self.version = version
        self.error_code = error_code
        self._sessions = sessions
        self._session = session
        self._epoch = epoch
        self._wants_session = wants_session

    def check_is_last(self) -> None:
        """Raises InvalidFetchSessionEpochException if the client has sent the next fetch of the session, on another
        connection. The session then has other partitions, whose permissions this fetch has not checked.

        Call this method after each wait, before the partitions of the session are used."""
        if self._session is not None and self._session.epoch != self._epoch:
            raise InvalidFetchSessionEpochException

    def targets(self) -> list[FetchTarget]:
        """The partitions to read now."""
        return list(self.by_key.values() if self._session is None else self._session.active)

    @property
    def watches(self) -> bool:
        """Whether the session remembers partitions that have nothing new, so that a fetch does not read them."""
        return self._session is not None and len(self._session.targets) >= WATCHED_FROM

    def rest(self, target: FetchTarget, partition: ParkedFetches, now_ms: int) -> None:
        """Makes a partition quiet. The next fetch reads the partition only if the partition has changed."""
        assert self._session is not None, "only a session remembers partitions"
        self._session.rest(target, partition, now_ms)

    def is_allowed_by(self, key: object | None) -> bool:
        """Whether a check with this key of the permissions has allowed the client to read all partitions of the
        session.
        """
        return key is not None and self._session is not None and self._session.allowed_by == key

    def keep_allowed(self, key: object | None) -> None:
        """Stores the key of the permissions with which the client may read all partitions of the session."""
        if self._session is not None:
            self._session.allowed_by = key

    def wake(self, target: FetchTarget) -> None:
        """Makes a quiet partition active, so that this fetch reads it."""
        if self._session is not None:
            self._session.wake(target)

    def wait(self, parked: ParkedFetch) -> None:
        """Makes the session notify a waiting fetch when a quiet partition changes."""
        if self._session is not None:
            self._session.parked = parked

    async def response(
        self, results: Results, endpoints: tuple[NodeEndpoint, ...], now_ms: int, pace: Pace
    ) -> FetchResponse:
        """Makes the response with the results that are new for the client."""
        if self.error_code is not ErrorCode.NONE:
            return FetchResponse(error_code=self.error_code)
        session = self._session
        session_id = NO_SESSION if session is None else session.id
        if session is None and self._wants_session and self.by_key:
            session_id = self._sessions.create(self, now_ms)
        news: Results = []
        for number, result in enumerate(results):
            if number % PARTITIONS_AT_ONCE == 0:
                await pace(min(PARTITIONS_AT_ONCE, len(results) - number) * PARTITION_COST)
            if session is None:
                _remember(*result)
                news.append(result)
            elif _is_news(session, *result):
                news.append(result)
        topics = await _by_topic(news, pace)
        if len(results) > PARTITIONS_AT_ONCE:
            await self._drop(results, news, pace, keeps_targets=session_id != NO_SESSION)
        return FetchResponse(session_id=session_id, responses=topics, node_endpoints=endpoints)

    async def _drop(self, results: Results, news: Results, pace: Pace, *, keeps_targets: bool) -> None:
        """Drops the results and the targets in slices, because freeing 200,000 objects together would block the event
        loop."""
        for some in (results, news):
            while some:
                await pace(PARTITIONS_AT_ONCE * PARTITION_COST)
                del some[-PARTITIONS_AT_ONCE:]
        while self.by_key and not keeps_targets:
            await pace(PARTITIONS_AT_ONCE * PARTITION_COST)
            for _ in range(min(PARTITIONS_AT_ONCE, len(self.by_key))):
                self.by_key.popitem()

    def without_records(self) -> FetchResponse:
        """The answer to a throttled client. The answer contains no partitions, and the session does not change
        (KIP-219)."""
        session_id = NO_SESSION if self._session is None else self._session.id
        return FetchResponse(session_id=session_id, error_code=self.error_code)


def _refused(
    sessions: FetchSessions, request: FetchRequest, version: int, error_code: ErrorCode
) -> FetchScope:
    return FetchScope(sessions, {}, request, version, session=None, error_code=error_code)


def _targets(request: FetchRequest) -> Iterable[FetchTarget]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield FetchTarget(topic.topic_id, topic.topic, partition)


async def _update(session: FetchSession, request: FetchRequest, pace: Pace) -> None:
    for number, target in enumerate(_targets(request)):
        if number % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
            await pace(PARTITIONS_AT_ONCE * PARTITION_COST)
        known = session.targets.get(target.key)
        if known is None:
            session.add(target)
        else:
            known.wants = target.wants
            session.wake(known)
            if session.is_follower:
                # A follower may have ignored the last answer, because it was cutting its log.
                known.told_high_watermark = -1
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            await pace(PARTITION_COST)
            session.remove((topic.topic_id or topic.topic, partition))


def _is_news(session: FetchSession, target: FetchTarget, read: PartitionData) -> bool:
    """Whether the response to an incremental fetch must contain this partition."""
    has_records = bool(read.records)
    news = (
        has_records
        or read.error_code is not ErrorCode.NONE
        or read.high_watermark != target.told_high_watermark
        or read.log_start_offset != target.told_log_start_offset
        or read.preferred_read_replica >= 0
        or read.diverging_epoch != _NOT_DIVERGING
    )
    _remember(target, read)
    if has_records and target in session.active:
        del session.active[target]
        session.active[target] = None
    return news


def _remember(target: FetchTarget, read: PartitionData) -> None:
    if read.error_code is ErrorCode.NONE:
        target.told_high_watermark = read.high_watermark
        target.told_log_start_offset = read.log_start_offset
    else:
        # After an error the partition is sent in every response, until it has no error.
        target.told_high_watermark = -1


async def _by_topic(results: Results, pace: Pace) -> tuple[FetchableTopicResponse, ...]:
    """Groups consecutive partitions of the same topic into one entry."""
    topics: list[FetchableTopicResponse] = []
    of_topic: list[PartitionData] = []
    for number, (target, read) in enumerate(results):
        if number % PARTITIONS_AT_ONCE == PARTITIONS_AT_ONCE - 1:
            await pace(PARTITIONS_AT_ONCE * PARTITION_COST)
        of_topic.append(read)
        is_last = number + 1 == len(results)
        following = target if is_last else results[number + 1][0]
        if is_last or following.topic_id != target.topic_id or following.topic != target.topic:
            topics.append(
                FetchableTopicResponse(
                    topic_id=target.topic_id, topic=target.topic, partitions=tuple(of_topic)
                )
            )
            of_topic = []
    return tuple(topics)
