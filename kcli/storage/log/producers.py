"""The producers of a log: their state at the log end, its snapshots, and its restoration after a truncation.

A truncation drops the state, because reading the batches before the new log end may take long. The state is restored at
its next use, or earlier in another thread (`begin_restoring`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from kcli.model.ids import Offset
from kcli.storage.directory import LogDirectory, on_disk
from kcli.storage.log.local_log import LocalLog
from kcli.storage.log.lookup import segments_from
from kcli.storage.log.markers import read_marker
from kcli.storage.log.producer_entries import ProducerEntry
from kcli.storage.log.producer_state import ProducerState
from kcli.storage.log.replay import ProducerRestoration, replay
from kcli.storage.log.segment import Segment
from kcli.storage.log.validation import PlacedBatch


class LogProducers:
    """The producers of one log. `ready` is their state at the log end, or None after a truncation until it is
    restored."""

    __slots__ = ("_high_watermark", "_local", "_log_start_offset", "ready")

    def __init__(self, local: LocalLog, log_start_offset: Offset) -> None:
        self._local = local
        # Both offsets are only needed to restore the state.
        self._log_start_offset = self._high_watermark = log_start_offset
        self.ready: ProducerState | None = self._new_state()

    @property
    def directory(self) -> LogDirectory:
        return self._local.directory

    @property
    def state(self) -> ProducerState:
        """The state at the log end. After a truncation, the first use restores it, which may block."""
        state = self.ready
        return self.restore() if state is None else state

    def _new_state(self) -> ProducerState:
        settings = self._local.settings
        return ProducerState(
            str(self._local.topic_partition), settings.producer_expiration_ms, settings.producer_ids
        )

    # --- users of the state

    def active(self) -> Iterator[ProducerEntry]:
        """The producers at the time of the call. The iterator may be used later, and in another thread."""
        return self.state.entries()

    def remove_expired(self, now_ms: int) -> Generator[None, None, int]:
        """Drops the producers that were idle for longer than `producer.id.expiration.ms`, in steps. Returns their
        number."""
        return self.state.remove_expired(now_ms)

    def expire_after(self, expiration_ms: int) -> None:
        """Sets a new `producer.id.expiration.ms`. A state that is restored later takes it from the settings."""
        if self.ready is not None:
            self.ready.expiration_ms = expiration_ms

    # --- offsets of the log

    def on_high_watermark(self, offset: Offset) -> None:
        self._high_watermark = offset
        state = self.ready
        if state is not None and state.undecided:
            state.on_high_watermark(offset)

    def on_log_start(self, offset: Offset) -> None:
        self._log_start_offset = offset

    def truncated(self, log_start_offset: Offset, high_watermark: Offset) -> None:
        """Drops the state and the snapshots after a truncation. The caller holds the lock of the log."""
        self.ready = None
        self._log_start_offset, self._high_watermark = log_start_offset, high_watermark
        self._local.snapshots.remove_outside(log_start_offset, self._local.end_offset)

    # --- restoring

    @on_disk
    def restore(self) -> ProducerState:
        """Restores the state, unless it is restored. May block."""
        # The cleaner's thread uses the producers too, so it may be the first that needs them.
        with self._local.lock:
            if self.ready is None:
                state = self._new_state()
                self._read(state, self._local.settings.now_ms())
                state.on_high_watermark(self._high_watermark)
                self.ready = state
            return self.ready

    def begin_restoring(self) -> ProducerRestoration | None:
        """Returns the work that restores the state after a truncation, for another thread. Returns None if the state
        need not be restored.

        The owner may use the log while the work runs. Then `end_restoring` takes the result.
        """
        if self.ready is not None:
            return None
        local = self._local
        return ProducerRestoration(
            self._new_state(),
            local.snapshots.copy(),
            segments_from(local.segments, self._log_start_offset),
            self._log_start_offset,
            local.end_offset,
            local.settings.now_ms(),
        )

    def end_restoring(self, restored: ProducerRestoration, truncations: int) -> None:
        """Takes the restored state, unless the log was truncated or has restored it itself since `begin_restoring`.
        `truncations` is the number of truncations at that time."""
        with self._local.lock:
            if self.ready is None and self._local.truncations == truncations:
                self.ready = restored.producers
                restored.producers.on_high_watermark(self._high_watermark)

    def rebuild(self, now_ms: int) -> None:
        """Replaces the state by the newest valid snapshot and the batches after it."""
        self._read(self.state, now_ms)

    def _read(self, state: ProducerState, now_ms: int) -> None:
        local = self._local
        start_offset, end_offset = self._log_start_offset, local.end_offset
        local.snapshots.remove_outside(start_offset, end_offset)
        local.snapshots.load(state, end_offset, now_ms)
        if state.last_snapshot_offset == end_offset:
            return  # as after a clean stop
        replay(
            segments_from(local.segments, state.end_offset),
            state,
            local.snapshots,
            start_offset=max(state.end_offset, start_offset),
            end_offset=end_offset,
            to_snapshot={segment.base_offset for segment in local.segments[-2:]},
        )

    # --- snapshots

    def write_snapshot(self) -> None:
        """Writes the state for the next start. Writes nothing if there are no producers, no earlier snapshot and only
        one segment. In this case, no snapshot is needed: a start after a clean stop concludes that there are no
        producers, and a start after a crash reads the last segment."""
        state, snapshots = self.state, self._local.snapshots
        snapshots.write_waiting()
        if len(state) > 0 or len(self._local.segments) > 1 or snapshots.exist:
            snapshots.write(state)

    def write_snapshot_at(self, offset: Offset) -> None:
        """Moves the end of the state to `offset` and writes a snapshot. If there are many producers, another thread
        writes the file later."""
        state = self.state
        state.end_offset = offset
        self._local.snapshots.write_soon(state)


def prepare_index(state: ProducerState, batches: Sequence[PlacedBatch], segment: Segment) -> None:
    """Opens the transaction index before a write, if one of the batches is an abort marker that adds an entry to it. So
    no shortage of descriptors can come after the write. A replicated run may have the whole transaction."""
    opened: set[int] = set()
    for batch in batches:
        header = batch.header
        if header.is_transactional and not header.is_control:
            opened.add(header.producer_id)
        elif header.is_control and header.has_producer_id:
            marker = read_marker(b"".join(batch.buffers))
            is_abort = marker is not None and not marker.commit
            if is_abort and (header.producer_id in opened or state.has_open_transaction(header.producer_id)):
                segment.txn_index.prepare()
                return


def note_producer(state: ProducerState, batch: PlacedBatch, segment: Segment) -> None:
    """Updates the producers with a written batch. If the batch is an abort marker, adds the aborted transaction to the
    transaction index."""
    header = batch.header
    if not header.is_control:
        state.update(header, batch.base_offset)
        return
    marker = read_marker(b"".join(batch.buffers))
    if marker is not None:
        aborted = state.update_marker(header, batch.base_offset, marker)
        if aborted is not None:
            segment.txn_index.append(aborted)
