"""The snapshots in `__cluster_metadata-0`: written by this node, or downloaded from the leader (KIP-630).

A snapshot is written as `<id>-<random>.checkpoint.part`, made durable and renamed. A download is written piece by piece
as `<id>.checkpoint.part`. An old snapshot is renamed to `….deleted` and removed a minute later, when no reader has the
file open any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.errors import CorruptRecordError, PositionOutOfRangeException, SnapshotNotFoundException
from kcli.metadata.snapshot_file import (
    BOOTSTRAP_SNAPSHOT_ID,
    CHECKPOINT_SUFFIX,
    DELETED_SUFFIX,
    PART_SUFFIX,
    Snapshot,
    SnapshotId,
    decode_snapshot,
    snapshot_id_of,
)
from kcli.model.ids import Offset, Position
from kcli.runtime.disk import Disk, File, read_file
from kcli.runtime.rng import Rng
from kcli.storage.directory import LogDirectory, on_disk


@dataclass(slots=True)
class _Download:
    snapshot_id: SnapshotId
    path: str
    file: File
    size_bytes: int = 0


class SnapshotFiles:
    """The snapshots of one metadata log. `ids` has the ids of the finished snapshots, the oldest first.

    All methods block. Only `write`, `read` and `read_part` may run in a thread of their own.
    """

    def __init__(self, directory: LogDirectory, path: str, rng: Rng, delete_delay_ms: int) -> None:
        """Removes the incomplete files of a crash. Raises StorageError."""
        self.directory = directory
        self._disk: Disk = directory.disk
        self._path = path
        self._rng = rng
        self._delete_delay_ms = delete_delay_ms
        self._download: _Download | None = None
        self.ids = self._clean_up()

    @on_disk
    def _clean_up(self) -> list[SnapshotId]:
        snapshot_ids = []
        for entry in self._disk.list_dir(self._path):
            if entry.name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
                self._disk.remove(f"{self._path}/{entry.name}")
                continue
            snapshot_id = snapshot_id_of(entry.name)
            if snapshot_id is not None:
                snapshot_ids.append(snapshot_id)
        return sorted(snapshot_ids)

    @property
    def newest(self) -> SnapshotId:
        """The id of the newest snapshot. Without snapshots, the id of the bootstrap snapshot."""
        return self.ids[-1] if self.ids else BOOTSTRAP_SNAPSHOT_ID

    @on_disk
    def read(self, snapshot_id: SnapshotId) -> Snapshot:
        """Reads a snapshot. Raises CorruptRecordError if it is damaged."""
        path = self._path_of(snapshot_id)
        return decode_snapshot(read_file(self._disk, path), path)

    @on_disk
    def read_part(self, snapshot_id: SnapshotId, position: Position, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot, and its bytes from `position` on. Raises SnapshotNotFoundException and
        PositionOutOfRangeException.

        The bootstrap snapshot is not served, because only this node may use it.
        """
        if snapshot_id not in self.ids or snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
            raise SnapshotNotFoundException
        try:
            file = self._disk.open(self._path_of(snapshot_id), read_only=True)
        except FileNotFoundError:
            raise SnapshotNotFoundException from None
        try:
            size = file.size()
            if not 0 <= position < size:
                raise PositionOutOfRangeException
            return size, file.read_at(position, min(max_bytes, size - position))
        finally:
            file.close()

    @property
    def size_bytes(self) -> int:
        names = {snapshot_id.file_name for snapshot_id in self.ids}
        return sum(entry.size_bytes for entry in self._disk.list_dir(self._path) if entry.name in names)

    @property
    @on_disk
    def newest_bytes(self) -> int:
        """The size of the newest snapshot. 0 without snapshots."""
        return self._disk.size(self._path_of(self.newest)) if self.ids else 0

    # Writing.

    @on_disk
    def write(self, snapshot_id: SnapshotId, batches: Iterable[bytes]) -> None:
        """Writes a snapshot, which is durable when this method returns. Call `added` to make it the newest snapshot."""
        stem = snapshot_id.file_name.removesuffix(CHECKPOINT_SUFFIX)
        part = f"{self._path}/{stem}-{self._rng.randrange(1 << 62)}{PART_SUFFIX}"
        file = self._disk.open(part, create=True)
        try:
            position = 0
            for batch in batches:
                file.write_at(Position(position), batch)
                position += len(batch)
            file.sync()
        finally:
            file.close()
        self._freeze(part, self._path_of(snapshot_id))
        self._disk.sync_dir(self._path)

    def added(self, snapshot_id: SnapshotId) -> None:
        self.ids = sorted({*self.ids, snapshot_id})

    @on_disk
    def download(self, snapshot_id: SnapshotId, position: Position, content: bytes) -> None:
        """Writes the next part of a download. A position of 0 begins a new download."""
        if position == 0:
            self.abandon_download()
            path = f"{self._path}/{snapshot_id.file_name.removesuffix(CHECKPOINT_SUFFIX)}{PART_SUFFIX}"
            self._download = _Download(snapshot_id, path, self._disk.open(path, create=True))
        download = self._download
        assert download is not None and (download.snapshot_id, download.size_bytes) == (snapshot_id, position)
        download.file.write_at(position, content)
        download.size_bytes += len(content)

    @on_disk
    def finish_download(self) -> Snapshot:
        """Checks the downloaded snapshot and makes it durable. Raises CorruptRecordError if it is damaged.

        Call `added` only when the log begins at the end of this snapshot. If `added` were called earlier, old snapshots
        could be deleted although the log still needs them.
        """
        download = self._download
        assert download is not None
        download.file.sync()
        try:
            snapshot = decode_snapshot(read_file(self._disk, download.path), download.path)
        except CorruptRecordError:
            self.abandon_download()
            raise
        path = self._path_of(download.snapshot_id)
        if download.path != path:
            self._freeze(download.path, path)
            download.path = path
        self._disk.sync_dir(self._path)
        download.file.close()
        self._download = (
            None  # changed last, so that this method can be repeated after a shortage of descriptors
        )
        return snapshot

    @on_disk
    def abandon_download(self) -> None:
        """Removes an unfinished download, because the leader has changed."""
        if self._download is not None:
            self._download.file.close()
            self._disk.remove(self._download.path)
            self._download = None

    def _freeze(self, part: str, path: str) -> None:
        self._disk.make_read_only(part)  # snapshots never change (KIP-630)
        self._disk.rename(part, path)

    # Deleting.

    def delete_before(self, offset: Offset) -> None:
        """Deletes the snapshots that end before `offset`."""
        while self.ids and self.ids[0].end_offset < offset:
            self.delete_oldest()

    @on_disk
    def delete_oldest(self) -> None:
        path = self._path_of(self.ids[0])
        deleted = path.removesuffix(CHECKPOINT_SUFFIX) + DELETED_SUFFIX
        self._disk.rename(path, deleted)
        self.directory.deletions.add([deleted], self._delete_delay_ms)
        self.ids = self.ids[1:]

    def _path_of(self, snapshot_id: SnapshotId) -> str:
        return f"{self._path}/{snapshot_id.file_name}"
