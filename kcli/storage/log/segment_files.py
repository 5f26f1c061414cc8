"""The files of one segment: a `.log` file and three indexes. The files open only when they are used.

So to open a log with thousands of segments, only the names of their files are listed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.model.ids import Offset
from kcli.runtime.disk import Disk
from kcli.storage.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Handle,
    HandlePool,
    offset_name,
)
from kcli.storage.log.index import OffsetIndex, TimeIndex
from kcli.storage.log.transaction_index import TransactionIndex

_LOOKING = threading.Lock()
"""A segment holds this lock while it opens its indexes or looks up the sizes of its files."""


@dataclass(frozen=True, slots=True)
class Indexes:
    offset: OffsetIndex
    time: TimeIndex
    txn: TransactionIndex


class SegmentFiles:
    """The files of a segment. `indexes` is None until `open_indexes`."""

    __slots__ = ("_base_offset", "_name_suffix", "_pool", "directory", "indexes", "log", "sizes")

    def __init__(
        self,
        pool: HandlePool,
        directory: str,
        base_offset: Offset,
        sizes: dict[str, int] | None,
        name_suffix: str,
    ) -> None:
        self._pool = pool
        self.directory = directory
        self._base_offset = base_offset
        self.sizes = sizes
        self._name_suffix = name_suffix
        self.log = self._handle(LOG_SUFFIX)
        self.indexes: Indexes | None = None

    @property
    def disk(self) -> Disk:
        return self._pool.disk

    def _handle(self, suffix: str) -> Handle:
        return Handle(self._pool, self._path(suffix))

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{offset_name(self._base_offset, suffix)}{self._name_suffix}"

    def open_indexes(self) -> Indexes:
        """Opens the indexes. Called only at their first use, because most segments are never read or written between
        two starts.
        """
        with _LOOKING:
            if self.indexes is None:
                sizes = self._present_sizes() if self.sizes is None else self.sizes
                self.indexes = Indexes(
                    OffsetIndex(self._handle(INDEX_SUFFIX), self._base_offset, sizes.get(INDEX_SUFFIX, 0)),
                    TimeIndex(
                        self._handle(TIME_INDEX_SUFFIX), self._base_offset, sizes.get(TIME_INDEX_SUFFIX, 0)
                    ),
                    TransactionIndex(
                        self.disk, self._handle(TXN_INDEX_SUFFIX), exists=TXN_INDEX_SUFFIX in sizes
                    ),
                )
            return self.indexes

    def _present_sizes(self) -> dict[str, int]:
        sizes = {}
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                sizes[suffix] = self.disk.size(self._path(suffix))
        return sizes

    def look(self, suffixes: Iterable[str]) -> int:
        """Looks up the sizes of the files now. `suffixes` are the suffixes of the files that exist. Returns the size of
        the `.log` file."""
        stem = self.log.path.removesuffix(LOG_SUFFIX)
        self.sizes = {suffix: self.disk.size(stem + suffix) for suffix in suffixes}
        return self.sizes.get(LOG_SUFFIX, 0)

    @property
    def is_unindexed(self) -> bool:
        """Whether the offset index is not open, but its size shows that it has no entry."""
        return self.indexes is None and self.sizes is not None and not self.sizes.get(INDEX_SUFFIX)

    def handles(self) -> tuple[Handle, ...]:
        indexes = self.indexes or self.open_indexes()
        return self.log, indexes.offset.entries.handle, indexes.time.entries.handle, indexes.txn.handle

    def create(self, preallocate_bytes: int) -> None:
        """Makes the empty files of a new segment. If a crash has left files with these names, empties them."""
        log, offset_index, time_index, _txn_index = self.handles()
        for handle in (log, offset_index, time_index):
            handle.create().truncate(0)
        self.open_indexes().txn.reset()
        if preallocate_bytes:
            log.create().truncate(preallocate_bytes)

    def remove(self) -> None:
        """Removes the files of a segment that is not in use."""
        self.close()
        for handle in self.handles():
            if self.disk.exists(handle.path):
                self.disk.remove(handle.path)

    def close(self) -> None:
        for handle in (self.log,) if self.indexes is None else self.handles():
            handle.close()

    def rename_deleted(self) -> list[str]:
        """Renames the files to names with `.deleted`. Returns the new paths."""
        paths = []
        for handle in self.handles():
            if self.disk.exists(handle.path):
                handle.rename(handle.path + DELETED_SUFFIX)
                paths.append(handle.path)
        return paths

    def rename_suffix(self, suffix: str, to: str) -> None:
        """Changes the suffix of the file names. When a cleaned segment is installed, `.cleaned` is changed to `.swap`,
        and then `.swap` is removed."""
        handles = self.handles()  # before the change, because this call may open files under their old names
        self._name_suffix = to
        for handle in handles:
            if self.disk.exists(handle.path):
                handle.rename(handle.path.removesuffix(suffix) + to)
            else:
                handle.path = handle.path.removesuffix(suffix) + to
