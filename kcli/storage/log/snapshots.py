"""Reads, writes and removes the `.snapshot` files of a partition. Each file contains the state of producers at an
offset.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from kcli.errors import CorruptRecordError
from kcli.model.ids import Offset
from kcli.storage.files import DELETED_SUFFIX, SNAPSHOT_SUFFIX, HandlePool, offset_name, offset_of
from kcli.storage.log.producer_entries import MANY_PRODUCERS, SnapshotContent, read_snapshot
from kcli.storage.log.producer_state import ProducerState

UNFINISHED_SUFFIX = f".unfinished{DELETED_SUFFIX}"
"""The suffix of a snapshot that another thread has not completed yet."""


class ProducerSnapshots:
    """The snapshot files in the directory of one partition. `names` are the names of all files in the directory."""

    def __init__(self, pool: HandlePool, directory: str, names: Iterable[str]) -> None:
        self._pool = pool
        self._disk = pool.disk
        self._directory = directory
        offsets = (offset_of(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self._offsets = {offset for offset in offsets if offset is not None}
        self._doubtful: frozenset[Offset] = frozenset()
        # Snapshots of many producers, until another thread has written them.
        self._unwritten: dict[Offset, SnapshotContent] = {}
        self._guard = threading.Lock()
        self._writing = threading.Lock()  # held while a thread writes these snapshots

    def path(self, offset: Offset) -> str:
        return f"{self._directory}/{offset_name(offset, SNAPSHOT_SUFFIX)}"

    def offsets(self) -> list[Offset]:
        """The offsets of the snapshots in ascending order."""
        return sorted(self._offsets)

    @property
    def exist(self) -> bool:
        """Whether the directory has a snapshot."""
        return bool(self._offsets or self._doubtful or self._unwritten)

    def write(self, producers: ProducerState) -> None:
        """Writes the state at `producers.end_offset`, unless the last snapshot already has this offset.

        The file is not synced. If a crash leaves an incomplete file, its checksum is wrong, and the next start uses the
        snapshot before it.
        """
        offset = producers.end_offset
        if offset <= producers.last_snapshot_offset:
            return
        self._write(offset, producers.content().encode())
        producers.last_snapshot_offset = offset

    def write_soon(self, producers: ProducerState) -> None:
        """Writes the state at `producers.end_offset` like `write`. If there are many producers, only copies the state,
        and `sync` writes the file. The caller must then call `sync` in another thread.

        If a crash comes first, the next start uses the snapshot before it, and reads more batches.
        """
        offset = producers.end_offset
        if len(producers) < MANY_PRODUCERS:
            self.write(producers)
        elif offset > producers.last_snapshot_offset:
            self._unwritten[offset] = producers.content()
            producers.last_snapshot_offset = offset

    def is_unwritten(self, offset: Offset) -> bool:
        """Whether `sync` must first write the snapshot."""
        return offset in self._unwritten

    def _write(self, offset: Offset, content: bytes) -> None:
        exists = offset in self._offsets or offset in self._doubtful
        file = self._pool.open_once(self.path(offset), create=True)
        try:
            if not exists:
                file.write_at(0, content)
            elif file.read_at(0, len(content) + 1) != content:
                file.write_at(0, content)
                file.truncate(len(content))
        finally:
            file.close()
        self._offsets.add(offset)

    def write_waiting(self) -> None:
        """Writes the snapshots of which `write_soon` has kept a copy. May block, and may run in any thread.

        After a failure only the newest copy stays, because copies may be large. The next call tries again.
        """
        with self._writing:
            with self._guard:
                waiting = sorted(self._unwritten)
            try:
                for offset in waiting:
                    self._write_late(offset)
            except OSError:
                with self._guard:
                    for offset in sorted(self._unwritten)[:-1]:
                        del self._unwritten[offset]
                raise

    def forget_waiting(self) -> None:
        """Drops the copies of snapshots that are not written yet. After this, no thread writes them."""
        with self._guard:
            self._unwritten.clear()

    def _write_late(self, offset: Offset) -> None:
        """Writes a snapshot, unless it was removed meanwhile. The file has its name only when it is complete. Before,
        it has a name that every start removes, and that no removed snapshot has."""
        content = self._unwritten.get(offset)
        if content is None:
            return
        path = self.path(offset)
        unfinished = path + UNFINISHED_SUFFIX
        encoded = content.encode()
        file = self._pool.open_once(unfinished, create=True)
        try:
            file.write_at(0, encoded)
            file.truncate(len(encoded))
        finally:
            file.close()
        with self._guard:
            if self._unwritten.get(offset) is content:
                self._disk.rename(unfinished, path)
                self._offsets.add(offset)
                del self._unwritten[offset]
                return
        self._disk.remove(unfinished)

    def copy(self) -> ProducerSnapshots:
        """Returns a copy of this object, for a reader in another thread."""
        names = (offset_name(offset, SNAPSHOT_SUFFIX) for offset in self._offsets)
        return ProducerSnapshots(self._pool, self._directory, names)

    def load(
        self, producers: ProducerState, end_offset: Offset, now_ms: int, *, removes_invalid: bool = True
    ) -> None:
        """Loads the newest valid snapshot at or below `end_offset`. Invalid snapshots are removed, unless
        `removes_invalid` is False."""
        producers.clear()
        for offset in reversed(self.offsets()):
            if offset > end_offset:
                continue
            try:
                stored = read_snapshot(self._disk, self.path(offset))
            except CorruptRecordError:
                if removes_invalid:
                    self.remove(offset)
                continue
            producers.load(stored, offset, now_ms)
            return

    def doubt_after(self, offset: Offset) -> None:
        """Marks the snapshots after `offset` as doubtful, so that they are not loaded. Their files stay, because
        recovery replaces most of them. After the recovery, `remove_doubtful` removes the files that were not
        replaced."""
        self._doubtful = frozenset(
            snapshot_offset for snapshot_offset in self._offsets if snapshot_offset > offset
        )
        self._offsets -= self._doubtful

    def remove_doubtful(self) -> None:
        for offset in sorted(self._doubtful - self._offsets):
            self._disk.remove(self.path(offset))
        self._doubtful = frozenset()

    def remove(self, offset: Offset) -> None:
        self._disk.remove(self.path(offset))
        self._offsets.discard(offset)

    def remove_outside(self, log_start_offset: Offset, end_offset: Offset) -> None:
        """Removes snapshots that are never used: snapshots after the end of the log, and snapshots before its start.

        Unlike Kafka, this method keeps a snapshot at the start of the log. If retention has deleted all records, only
        this snapshot contains the producers after a restart. Without this snapshot, a batch that is sent again would be
        appended twice.
        """
        with self._guard:
            for offset in list(self._unwritten):
                if not log_start_offset <= offset <= end_offset:
                    del self._unwritten[offset]
        for offset in self.offsets():
            if not log_start_offset <= offset <= end_offset:
                self.remove(offset)

    def remove_all(self) -> None:
        self.forget_waiting()
        for offset in self.offsets():
            self.remove(offset)

    def rename_deleted(self, offset: Offset) -> list[str]:
        """Renames the snapshot at `offset` to a name with `.deleted`. Returns the new path in a list, which is empty if
        there is no such snapshot.
        """
        with self._guard:
            self._unwritten.pop(offset, None)
        if offset not in self._offsets:
            return []
        self._offsets.discard(offset)
        path = self.path(offset)
        self._disk.rename(path, path + DELETED_SUFFIX)
        return [path + DELETED_SUFFIX]

    def sync(self, offset: Offset) -> None:
        """Makes a snapshot durable. First writes it, if `write_soon` did not. May block, and may run in any thread."""
        self.write_waiting()
        if offset in self._offsets:
            file = self._pool.open_once(self.path(offset))
            try:
                file.sync()
            finally:
                file.close()
