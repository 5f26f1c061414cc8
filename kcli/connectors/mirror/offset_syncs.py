"""Offset syncs: which offset in the target belongs to an offset in the source, and when a new sync is due.

A source partition has millions of records, and a store has 64 syncs of it. The newest sync is entry 0. The syncs of
later entries are older, and the distance between them grows: the store is exact for recent offsets, and coarse for old
ones. Two rules hold for the upstream offsets `u` of the entries:

- near: u[i] <= u[j] + 2^j - 2^i for i < j, so a later entry is not too old for its place;
- apart: u[i] >= u[i+1] + 2^max(i-2, 0) for two different entries, so the entries reach far back.

A translation is never ahead of the records that were copied. It may be behind them, so a consumer may read records
twice, but never misses one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcli.connectors.mirror.records import OffsetSync
from kcli.model.topic_partition import TopicPartition

ENTRIES = 64
"""One entry for each bit of an offset."""
TOO_OLD = -1
"""The translation of an offset before the oldest known sync."""
SYNCS_MAX = 1000
"""The most syncs in a batch: far below the size that a broker accepts."""
WAITING_MAX = 10_000
"""With more waiting syncs, only the newest of each partition is written. They wait if their topic is unavailable."""

Entries = Sequence[OffsetSync]


class OffsetSyncStore:
    """The syncs of all source partitions. They are added in the order in which they were written."""

    def __init__(self, *, keeps_history: bool) -> None:
        """With `keeps_history`, the syncs that are added before `loaded` are all used.

        Without it, only the last of them is used. A task that does not know its earlier checkpoints needs this, because
        its translation of an old offset could be before the earlier translation.
        """
        self._entries: dict[TopicPartition, Entries] = {}
        self._keeps_history = keeps_history
        self._is_loaded = False

    @property
    def is_loaded(self) -> bool:
        return self._is_loaded

    def loaded(self) -> None:
        """All syncs that existed at the start are added."""
        self._is_loaded = True

    def add(self, sync: OffsetSync) -> None:
        entries = self._entries.get(sync.partition)
        uses_last_only = not self._is_loaded and not self._keeps_history
        if entries is None or uses_last_only or sync.upstream_offset < entries[0].upstream_offset:
            # The source has begun again at a lower offset, so its earlier syncs are invalid.
            self._entries[sync.partition] = [sync] * ENTRIES
        else:
            self._entries[sync.partition] = _inserted(entries, sync)

    def translate(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        """Returns the offset in the target from which a group must read, or TOO_OLD.

        Returns None if the store is not loaded, or has no sync of the partition.
        """
        entries = self._entries.get(partition)
        if not self._is_loaded or entries is None:
            return None
        for sync in entries:
            if sync.upstream_offset == upstream_offset:
                return sync.downstream_offset
            if sync.upstream_offset < upstream_offset:
                # Every record after the sync stands behind it in the target, at an unknown distance of at least 1.
                return sync.downstream_offset + 1
        return TOO_OLD

    def entries(self, partition: TopicPartition) -> Entries:
        return self._entries.get(partition, ())


def _inserted(old: Entries, sync: OffsetSync) -> Entries:
    """Puts a sync at entry 0. The entries after it are replaced as long as they have become too old for their place."""
    new = [sync, *old[1:]]
    replacement = sync
    nth = 0
    """The next entry of `old` that may move to a later place."""
    for place in range(1, ENTRIES):
        replacement, nth = _replacement(new, old, place, replacement, nth)
        if _near(new, new[place], place):
            break  # the rest is unchanged, so its rules hold
        new[place] = replacement
    return new


def _replacement(
    new: Entries, old: Entries, place: int, replacement: OffsetSync, nth: int
) -> tuple[OffsetSync, int]:
    """Chooses the sync that may stand at `place`: an old sync if one satisfies all rules there."""
    while True:
        candidate = old[nth]
        is_apart = _apart(new[place - 1], candidate, place - 1)
        is_apart_from_next = place + 1 == ENTRIES or _apart(candidate, new[place + 1], place)
        fits = is_apart and is_apart_from_next and _near(new, candidate, place)
        if fits:
            replacement = candidate
        # Such a sync fits at no later place either.
        is_useless = not is_apart or (nth + 1 < ENTRIES and candidate is old[nth + 1])
        if fits or is_useless:
            nth += 1
        if not is_useless or nth >= place:
            return replacement, nth


def _near(new: Entries, sync: OffsetSync, place: int) -> bool:
    """Whether `sync` is recent enough for `place`. Compared with the entry before it, which is the strictest rule."""
    before = new[place - 1]
    return (
        before is sync
        or before.upstream_offset <= sync.upstream_offset + (1 << place) - (1 << (place - 1))
    )  # fmt: skip


def _apart(sync: OffsetSync, older: OffsetSync, place: int) -> bool:
    """Whether a sync at `place` is far enough from the older sync at the next place."""
    return sync is older or sync.upstream_offset >= older.upstream_offset + (1 << max(place - 2, 0))


class _Copied:
    """The last record of a source partition that was copied, and the last sync of the partition."""

    __slots__ = ("downstream", "sync_downstream", "upstream")

    def __init__(self) -> None:
        self.upstream = -1
        self.downstream = -1
        self.sync_downstream = -1

    def is_due(self, upstream: int, downstream: int, lag_max: int) -> bool:
        is_due = (
            self.sync_downstream == -1
            or downstream - (self.sync_downstream + 1) >= lag_max
            or upstream - self.upstream != 1  # offsets without records, such as markers
            or downstream < self.downstream  # the target was truncated
        )
        if is_due:
            self.sync_downstream = downstream
        self.upstream, self.downstream = upstream, downstream
        return is_due


class OffsetSyncQueue:
    """The syncs that a task must write: at once, or when the worker commits offsets.

    A sync that is not due is written at the next commit, so that the sync of an idle partition becomes exact.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._copied: dict[TopicPartition, _Copied] = {}
        self._due: list[OffsetSync] = []
        self._delayed: dict[TopicPartition, OffsetSync] = {}

    def copied(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        """A record of the source stands in the target."""
        state = self._copied.get(partition)
        if state is None:
            state = self._copied[partition] = _Copied()
        sync = OffsetSync(partition, upstream, downstream)
        if state.is_due(upstream, downstream, self._lag_max):
            self._delayed.pop(partition, None)
            self._add([sync])
        else:
            self._delayed[partition] = sync

    def commit(self) -> None:
        """The syncs that are not due become due."""
        self._add(list(self._delayed.values()))
        self._delayed.clear()

    def take(self) -> list[OffsetSync]:
        """Takes up to SYNCS_MAX syncs that are due, in the order in which they became due."""
        taken, self._due = self._due[:SYNCS_MAX], self._due[SYNCS_MAX:]
        return taken

    def give_back(self, syncs: Sequence[OffsetSync]) -> None:
        """The syncs could not be written, so they are taken again before the others."""
        self._due[:0] = syncs

    def _add(self, syncs: Sequence[OffsetSync]) -> None:
        self._due += syncs
        if len(self._due) > WAITING_MAX:
            self._due = list({sync.partition: sync for sync in self._due}.values())
