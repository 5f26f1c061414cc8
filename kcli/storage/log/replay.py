"""Restores the state of a log's producers from the batches that are newer than the producer snapshot."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kcli.errors import CorruptRecordError, KafkaError
from kcli.model.ids import Offset
from kcli.storage.log.batch_search import headers_near
from kcli.storage.log.markers import read_marker
from kcli.storage.log.producer_state import ProducerState
from kcli.storage.log.segment import Segment
from kcli.storage.log.snapshots import ProducerSnapshots

_log = logging.getLogger(__name__)


def replay(
    segments: Iterable[Segment],
    producers: ProducerState,
    snapshots: ProducerSnapshots | None,
    *,
    start_offset: Offset,
    end_offset: Offset,
    to_snapshot: Collection[int] = (),
) -> None:
    """Updates the producers with the batches from `start_offset` up to `end_offset` (exclusive). The batches are not
    checked, because they are already in the log.

    Writes snapshots at the base offsets in `to_snapshot` and at the end, so that the next start has less to read. If
    `snapshots` is None, writes no snapshots.
    """
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        producers.end_offset = max(start_offset, segment.base_offset)
        if snapshots is not None and segment.base_offset in to_snapshot:
            snapshots.write(producers)
        if producers.end_offset < end_offset:
            _replay_segment(segment, producers)
    producers.end_offset = end_offset
    if snapshots is not None:
        snapshots.write(producers)


@dataclass(frozen=True, slots=True)
class ProducerRestoration:
    """Restores the producers of a log after a truncation. The restoration changes only its own `producers`, so it may
    run in any thread."""

    producers: ProducerState
    snapshots: ProducerSnapshots
    segments: Sequence[Segment]
    start_offset: Offset
    end_offset: Offset
    now_ms: int

    def run(self) -> None:
        """Reads the newest valid snapshot and the batches after it. May block. Raises OSError."""
        producers = self.producers
        self.snapshots.load(producers, self.end_offset, self.now_ms, removes_invalid=False)
        start_offset = max(producers.end_offset, self.start_offset)
        later = [
            segment
            for segment, following in zip_longest(self.segments, self.segments[1:])
            if following is None or following.base_offset > start_offset
        ]
        replay(later, producers, None, start_offset=start_offset, end_offset=self.end_offset)


def _replay_segment(segment: Segment, producers: ProducerState) -> None:
    """Updates the producers with the batches of one segment. Stops at a damaged batch, because the rest of the segment
    cannot be read."""
    start_offset = producers.end_offset
    try:
        _replay_batches(segment, producers, start_offset)
    except (CorruptRecordError, KafkaError) as error:
        _log.error("%s: producers are not known from the damaged batch on: %s", segment.log.path, error)


def _replay_batches(segment: Segment, producers: ProducerState, start_offset: Offset) -> None:
    for position, header in headers_near(segment, start_offset):
        if header.last_offset < start_offset or header.producer_id < 0:
            continue
        if not header.is_control:
            producers.update(header, header.base_offset)
            continue
        marker = read_marker(segment.log.file().read_at(position, header.size_bytes))
        if marker is not None:
            producers.update_marker(header, header.base_offset, marker)
