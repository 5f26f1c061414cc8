"""The transaction index (`.txnindex`) lists the aborted transactions of a segment. If a segment has no aborted
transactions, this file does not exist."""

from __future__ import annotations

import os
import struct
import threading
from dataclasses import dataclass

from kcli.errors import CorruptRecordError
from kcli.model.ids import Offset, ProducerId
from kcli.runtime.disk import Disk, File
from kcli.storage.files import Handle

ENTRY = struct.Struct(">hqqqq")
VERSION = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction. `last_offset` is the offset of the abort marker. `last_stable_offset` is the last stable
    offset after this marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """The transaction index of one segment. The index is small, because aborts are rare. So it is always read as a
    whole."""

    __slots__ = ("_disk", "_entries", "_guard", "_has_durable_name", "_ready", "handle")

    def __init__(self, disk: Disk, handle: Handle, *, exists: bool) -> None:
        self._disk = disk
        self.handle = handle
        self._entries: list[AbortedTransaction] | None = None if exists else []
        self._guard = threading.Lock()
        self._ready: File | None = None  # the open file for the next `append`
        # The file is created with the first aborted transaction, after the segment's other names are on the
        # device.
        self._has_durable_name = False

    def entries(self) -> list[AbortedTransaction]:
        with self._guard:
            if self._entries is None:
                self._entries = self._load()
            return self._entries

    def prepare(self) -> None:
        """Opens the file for the next `append`, which then needs no descriptor. So a shortage of descriptors is known
        before the abort marker is written."""
        self.entries()
        self._ready = self.handle.create()

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries()
        assert not entries or entries[-1].last_offset < aborted.last_offset, "markers come in offset order"
        packed = ENTRY.pack(
            VERSION,
            aborted.producer_id,
            aborted.first_offset,
            aborted.last_offset,
            aborted.last_stable_offset,
        )
        file, self._ready = self._ready or self.handle.create(), None
        file.write_at(len(entries) * ENTRY.size, packed)
        entries.append(aborted)

    def truncate_to(self, offset: Offset) -> None:
        """Drops the transactions whose markers are at or after `offset`."""
        entries = self.entries()
        remaining = [entry for entry in entries if entry.last_offset < offset]
        if len(remaining) != len(entries):
            self.handle.create().truncate(len(remaining) * ENTRY.size)
            self._entries = remaining

    def reset(self) -> None:
        if self._disk.exists(self.handle.path):
            self.handle.create().truncate(0)
        self._entries = []

    def sync(self) -> None:
        if self.entries():
            self.handle.create().sync()
            if not self._has_durable_name:
                self._disk.sync_dir(os.path.dirname(self.handle.path))
                self._has_durable_name = True

    def exists(self) -> bool:
        return self._disk.exists(self.handle.path)

    def check(self, base_offset: Offset) -> None:
        """Raises CorruptRecordError if the file is damaged, or if an entry ends before the base offset of the
        segment.
        """
        for entry in self.entries():
            if entry.last_offset < base_offset:
                raise CorruptRecordError(
                    f"{self.handle.path}: aborted transaction of producer {entry.producer_id} ends at "
                    f"offset {entry.last_offset}, before the segment's base offset {base_offset}"
                )

    def _load(self) -> list[AbortedTransaction]:
        file = self.handle.file()
        content = file.read_at(0, file.size())
        if len(content) % ENTRY.size:
            raise CorruptRecordError(
                f"{self.handle.path}: {len(content)} bytes are not a multiple of the entry size, {ENTRY.size} bytes"
            )
        loaded = []
        for version, producer_id, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(content):
            if version != VERSION:
                raise CorruptRecordError(
                    f"{self.handle.path}: entry of version {version}, expected {VERSION}"
                )
            loaded.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
        return loaded
