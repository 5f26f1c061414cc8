"""The snapshots on disk: finished, downloading, damaged, and read in parts."""

from __future__ import annotations

import pytest

from kcli.errors import CorruptRecordError, PositionOutOfRangeException, SnapshotNotFoundException
from kcli.metadata.snapshot_file import BOOTSTRAP_SNAPSHOT_ID, SnapshotId, encode_snapshot
from kcli.runtime.rng import SystemRng
from kcli.server.quorum.snapshot_files import SnapshotFiles
from kcli.storage.directory import LogDirectory
from kcli.storage.files import HandlePool
from rigs.logs import ManualClock
from simulation.runtime.disk import SimDisk

PATH = "/data/__cluster_metadata-0"
ID = SnapshotId(40, 2)
CONTENT = b"".join(
    encode_snapshot([b"\x01\x14\x00\x00"], epoch=2, last_contained_log_timestamp_ms=5, now_ms=6)
)


@pytest.fixture
def disk() -> SimDisk:
    made = SimDisk(ManualClock().now_ms)
    made.make_dir("/data")
    made.make_dir(PATH)
    return made


def opened(disk: SimDisk) -> SnapshotFiles:
    directory = LogDirectory(
        "/data", HandlePool(disk), background=lambda work: work(), monotonic=ManualClock().monotonic
    )
    return SnapshotFiles(directory, PATH, SystemRng(1), 60_000)


def names(disk: SimDisk) -> list[str]:
    return sorted(entry.name for entry in disk.list_dir(PATH))


def test_a_written_snapshot_counts_when_it_is_added(disk: SimDisk) -> None:
    files = opened(disk)
    files.write(ID, [CONTENT])
    assert (files.ids, files.newest) == ([], BOOTSTRAP_SNAPSHOT_ID)
    files.added(ID)
    assert (files.ids, files.newest, files.size_bytes) == ([ID], ID, len(CONTENT))
    assert files.read(ID).last_contained_log_timestamp_ms == 5
    assert opened(disk).ids == [ID]


def test_a_download_is_a_snapshot_when_all_parts_are_there_and_it_is_added(disk: SimDisk) -> None:
    files = opened(disk)
    for position in range(0, len(CONTENT), 50):
        files.download(ID, position, CONTENT[position : position + 50])
        assert files.ids == []
    assert files.finish_download().last_contained_log_timestamp_ms == 5
    assert (files.ids, names(disk)) == ([], [ID.file_name])
    files.added(ID)
    assert files.ids == [ID]


def test_a_new_download_replaces_an_unfinished_one(disk: SimDisk) -> None:
    files = opened(disk)
    files.download(SnapshotId(30, 1), 0, b"half")
    files.download(ID, 0, CONTENT)
    assert names(disk) == [f"{ID.file_name}.part"]
    files.finish_download()
    assert names(disk) == [ID.file_name]


def test_a_damaged_download_is_removed(disk: SimDisk) -> None:
    files = opened(disk)
    files.download(ID, 0, CONTENT[:-1] + b"!")
    with pytest.raises(CorruptRecordError):
        files.finish_download()
    assert (files.ids, names(disk)) == ([], [])


def test_a_start_removes_incomplete_files(disk: SimDisk) -> None:
    opened(disk).download(ID, 0, CONTENT)
    assert opened(disk).ids == [] and names(disk) == []


def test_a_snapshot_is_read_in_parts(disk: SimDisk) -> None:
    files = opened(disk)
    files.write(ID, [CONTENT])
    files.added(ID)
    size = len(CONTENT)
    assert files.read_part(ID, 3, 10) == (size, CONTENT[3:13])
    assert files.read_part(ID, size - 1, 10) == (size, CONTENT[-1:])
    for position in (-1, size):
        with pytest.raises(PositionOutOfRangeException):
            files.read_part(ID, position, 10)
    for missing in (SnapshotId(41, 2), BOOTSTRAP_SNAPSHOT_ID):
        with pytest.raises(SnapshotNotFoundException):
            files.read_part(missing, 0, 10)


def test_a_deleted_snapshot_stays_on_disk_for_its_readers(disk: SimDisk) -> None:
    files = opened(disk)
    for snapshot_id in (SnapshotId(30, 1), ID):
        files.write(snapshot_id, [CONTENT])
        files.added(snapshot_id)
    files.delete_before(ID.end_offset)
    assert files.ids == [ID]
    assert names(disk) == [f"{SnapshotId(30, 1).file_name}.deleted", ID.file_name]
    with pytest.raises(SnapshotNotFoundException):
        files.read_part(SnapshotId(30, 1), 0, 10)
