"""SegmentBytes: readers of a log do not know where the bytes of a segment are."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.ids import Offset
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of, contents, numbered
from rigs.steps import last_of
from simulation.runtime.disk import SimDisk


@dataclass
class Elsewhere:
    """The bytes of a segment in another place than the log directory, from where they come only in a thread."""

    content: bytes
    path: str = "elsewhere"
    reads: list[int] = field(default_factory=list)

    def file(self) -> Elsewhere:
        return self

    def read_at(self, position: int, size: int) -> bytes:
        self.reads.append(position)
        return self.content[position : position + size]

    def read_cached_at(self, _position: int, _size: int) -> None:
        return None

    def read_cached_into(self, _position: int, _buffer: memoryview) -> None:
        return None


def log_with_moved_segment() -> tuple[PartitionLog, Elsewhere]:
    """A log whose first segment, with ten batches of two records, was moved and has no `.log` file any more."""
    made = LogRig(SimDisk())
    log = made.create()
    for nth in range(12):
        batch = batch_of(numbered(2, start=2 * nth), timestamp_ms=START_MS + nth)
        append_client(log, batch, leader_epoch=0, now_ms=START_MS)
        if nth == 9:
            log.roll()
    first = log.segments[0]
    first.forget()
    elsewhere = Elsewhere(first.log.file().read_at(0, first.size_bytes))
    first.files.close()
    made.disk.remove(first.files.log.path)
    first.log = elsewhere
    return log, elsewhere


def test_the_records_of_a_moved_segment_are_read() -> None:
    log, elsewhere = log_with_moved_segment()
    assert contents(log) == [(offset, b"%d" % offset) for offset in range(24)]
    assert elsewhere.reads


def test_a_moved_segment_is_read_in_a_thread() -> None:
    log, _ = log_with_moved_segment()
    part = log.read(Offset(4), 1000, end_offset=Offset(24))
    assert (part.size_bytes > 0, part.read_cached(), part.read_cached_into(0, memoryview(bytearray(9)))) == (
        True,
        None,
        None,
    )
    assert len(part.read()) == part.size_bytes


def test_timestamps_are_searched_in_a_moved_segment() -> None:
    log, _ = log_with_moved_segment()
    found = last_of(log.search_timestamp(START_MS + 3))
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (START_MS + 3, 6)
