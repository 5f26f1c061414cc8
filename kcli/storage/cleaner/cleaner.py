"""Selects the log that most needs compaction, and installs the segments that a pass has written.

A pass (`one_pass`) is one run of the cleaner over one log. It reads sealed segments and writes `.cleaned` segments. The
owner of the log may append during the pass. When a pass has written a segment, the cleaner takes the log's lock and
replaces the source segments by the new segment, unless the log has changed. After a crash, the next start removes
`.cleaned` files and installs `.swap` files (`loader.finish_swaps`). The file `cleaner-offset-checkpoint` contains the
offset up to which each log is clean.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass

from kcli.errors import CorruptRecordError, KafkaError, StorageError
from kcli.model.ids import Offset
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.storage.checkpoint import CLEANER_OFFSET_FILE, read_offsets, write_offsets
from kcli.storage.cleaner.candidates import Candidate, candidate_of, is_unchanged, plan_of
from kcli.storage.cleaner.plan import (
    CleanedSegment,
    CleanerLimits,
    CleaningDone,
    CleaningEvent,
    CleaningPlan,
)
from kcli.storage.directory import LogDirectory
from kcli.storage.files import CLEANED_SUFFIX, SWAP_SUFFIX
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.segment import Segment
from kcli.storage.store.store import LogStore

_log = logging.getLogger("kcli.storage.LogCleaner")

RunPass = Callable[[CleaningPlan, CleanerLimits], Generator[CleaningEvent, None, None]]
"""A function that runs a pass. It raises CorruptRecordError if the log cannot be cleaned, OSError if the disk fails,
and CleaningStopped if the pass is stopped."""

DEFAULT_LIMITS = CleanerLimits(
    dedupe_buffer_bytes=128 << 20, load_factor=0.9, io_buffer_bytes=512 << 10, bytes_per_second=float("inf")
)


class CleaningStopped(Exception):
    """Raised to end a pass early without an error, because the broker stops or the log has changed."""


CHANGED = "it has changed meanwhile"


@dataclass(frozen=True, slots=True)
class CleaningResult:
    topic: str
    partition: int
    end_offset: Offset
    bytes_before: int
    bytes_after: int
    bytes_read: int
    buffer_use: float


@dataclass(frozen=True, slots=True)
class Dirtiest:
    """The largest share of dirty bytes, and the largest delay of a pass in milliseconds, among the logs that needed a
    pass at the last search."""

    dirty_ratio: float = 0.0
    overdue_ms: int = 0


class LogCleaner:
    """Cleans all logs of a store that have `compact` in their `cleanup.policy`. Several threads may run passes at the
    same time."""

    def __init__(
        self, store: LogStore, *, limits: CleanerLimits = DEFAULT_LIMITS, run_pass: RunPass | None = None
    ) -> None:
        """Makes a cleaner. If `run_pass` is None, a pass runs in this process, in the calling thread."""
        self.limits = limits
        self.dirtiest = Dirtiest()
        self._store = store
        self._run_pass = run_pass or self._run_here
        self._guard = threading.Lock()
        self._in_progress: set[TopicPartition] = set()
        # A log stays in this set until the broker restarts, as in Kafka. The set has logs and not names, because a new
        # log of the same name is cleanable. It is a weak set, so that deleted logs can be freed.
        self._uncleanable: weakref.WeakSet[PartitionLog] = weakref.WeakSet()
        self._truncations: weakref.WeakKeyDictionary[PartitionLog, int] = weakref.WeakKeyDictionary()

    def uncleanable(self) -> tuple[PartitionLog, ...]:
        """The logs that are not cleaned again before a restart of the broker, because a pass over them found damage."""
        # Each log is looked up, because another thread may add to the set, and iteration would fail.
        return tuple(log for log in self._store.all_logs() if log in self._uncleanable)

    def clean(self, now_ms: int) -> list[CleaningResult]:
        """Runs passes, always over the dirtiest log, until no log needs a pass or a pass does not succeed. May
        block.
        """
        results = []
        while (result := self.clean_dirtiest(now_ms)) is not None:
            results.append(result)
        return results

    def clean_dirtiest(self, now_ms: int, run_pass: RunPass | None = None) -> CleaningResult | None:
        """Runs one pass over the dirtiest log: the log with the largest share of bytes to clean. Returns None if no log
        needs a pass, or if the pass was stopped or failed. May block."""
        with self._guard:
            candidate = self._dirtiest(now_ms)
            if candidate is None:
                return None
            self._in_progress.add(candidate.key)
        try:
            return self._try(candidate, now_ms, run_pass or self._run_pass)
        finally:
            with self._guard:
                self._in_progress.discard(candidate.key)

    def _run_here(self, plan: CleaningPlan, limits: CleanerLimits) -> Generator[CleaningEvent, None, None]:
        from kcli.storage.cleaner.one_pass import CleaningPass  # loads numpy

        return CleaningPass(plan, limits, self._store.disk).run()

    # --- which log

    def _dirtiest(self, now_ms: int) -> Candidate | None:
        candidates = []
        checkpoints: dict[str, dict[TopicPartition, Offset]] = {}
        for log in self._compacted():
            try:
                directory = log.directory
                if directory.path not in checkpoints:
                    checkpoints[directory.path] = self._checkpoint(directory)
                first_dirty = self._first_dirty_offset(log, checkpoints[directory.path])
                candidate = candidate_of(log, first_dirty, now_ms)
            except OSError as error:
                log.directory.failed(error)
            except StorageError as error:
                _log.info("%s is not compacted: %s", log.path, error)
            else:
                if candidate is not None:
                    candidates.append(candidate)
        self.dirtiest = Dirtiest(
            max((candidate.dirty_ratio for candidate in candidates), default=0.0),
            max((candidate.overdue_ms for candidate in candidates), default=0),
        )
        return max(candidates, key=lambda candidate: candidate.dirty_ratio, default=None)

    def _compacted(self) -> Iterable[PartitionLog]:
        for log in self._store.all_logs():
            usable = log.directory.error is None and log.topic != CLUSTER_METADATA_TOPIC
            if (
                usable
                and log.config.compact
                and TopicPartition(log.topic, log.partition) not in self._in_progress
                and log not in self._uncleanable
            ):
                yield log

    def _first_dirty_offset(self, log: PartitionLog, checkpoint: dict[TopicPartition, Offset]) -> Offset:
        """The offset up to which the log is clean. After a truncation, the log is dirty from its start, because new
        records may have replaced cleaned records."""
        truncations = log.local.truncations
        if self._truncations.setdefault(log, 0) != truncations:
            self._truncations[log] = truncations
            self._note_cleaned(log, log.log_start_offset)
            return log.log_start_offset
        noted = checkpoint.get(TopicPartition(log.topic, log.partition), log.log_start_offset)
        if log.log_start_offset <= noted <= log.log_end_offset:
            return noted
        # Retention often moves the log start past the clean offset. This is no reason for a warning.
        if not (noted < log.log_start_offset and log.config.delete):
            _log.warning(
                "%s: %s says it is clean up to offset %d, but it holds %d to %d: it is cleaned from its start",
                log.path,
                CLEANER_OFFSET_FILE,
                noted,
                log.log_start_offset,
                log.log_end_offset,
            )
        self._note_cleaned(log, log.log_start_offset)
        return log.log_start_offset

    # --- one pass

    def _try(self, candidate: Candidate, now_ms: int, run_pass: RunPass) -> CleaningResult | None:
        log = candidate.log
        try:
            return self._clean(candidate, now_ms, run_pass)
        except (KafkaError, CorruptRecordError) as error:
            _log.error("%s cannot be compacted and is left alone until restart: %s", log.path, error)
            self._uncleanable.add(log)
        except CleaningStopped as error:
            _log.info("%s is not compacted: %s", log.path, error)
        except StorageError as error:
            _log.error("%s is not compacted: %s", log.path, error)
        self._discard(log)
        return None

    def _clean(self, candidate: Candidate, now_ms: int, run_pass: RunPass) -> CleaningResult | None:
        """Runs a pass. Raises CorruptRecordError or KafkaError if the log is damaged, StorageError if the disk
        fails."""
        log = candidate.log
        left = {segment.base_offset: segment for segment in candidate.segments}
        bytes_before = 0
        try:
            with closing(run_pass(plan_of(candidate, now_ms), self.limits)) as events:
                for event in events:
                    match event:
                        case CleanedSegment():
                            old = [left.pop(base_offset) for base_offset in event.replaced]
                            bytes_before += sum(segment.size_bytes for segment in old)
                            self._install(candidate, old, event, now_ms)
                        case CleaningDone():
                            if not is_unchanged(candidate, ()):
                                raise CleaningStopped(CHANGED)
                            self._note_cleaned(log, event.end_offset)
                            return self._result(log, event, bytes_before)
        except OSError as error:
            if is_unchanged(candidate, left.values()):
                raise log.directory.failed(error) from error
            raise CleaningStopped(CHANGED) from error
        raise CleaningStopped("the pass has ended early")

    def _result(self, log: PartitionLog, done: CleaningDone, bytes_before: int) -> CleaningResult:
        _log.info(
            "%s is clean up to offset %d: %d keys, %d of %d records and %d of %d bytes were kept",
            log.path,
            done.end_offset,
            done.keys,
            done.records_kept,
            done.records_read,
            done.bytes_kept,
            done.bytes_read,
        )
        for grown in done.grown:
            _log.warning(
                "%s: the batch that ends at offset %d has %d bytes after cleaning, more than max.message.bytes (%d)",
                log.path,
                grown.last_offset,
                grown.size_bytes,
                log.config.max_message_bytes,
            )
        return CleaningResult(
            log.topic,
            log.partition,
            done.end_offset,
            bytes_before,
            done.bytes_kept,
            done.bytes_read,
            done.buffer_use,
        )

    def _install(
        self, candidate: Candidate, old: Sequence[Segment], made: CleanedSegment, now_ms: int
    ) -> None:
        """Replaces the source segments by the cleaned segment. Raises CleaningStopped if the log has changed."""
        log = candidate.log
        cleaned = Segment(
            log.directory.pool,
            log.path,
            made.base_offset,
            created_ms=now_ms,
            sizes=made.sizes,
            name_suffix=CLEANED_SUFFIX,
        )
        with log.local.lock:
            if not is_unchanged(candidate, old):
                raise CleaningStopped(CHANGED)
            cleaned.files.rename_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
            log.local.replace_segments(old, cleaned)
            cleaned.files.rename_suffix(SWAP_SUFFIX, "")
        cleaned.files.disk.sync_dir(log.path)

    def _discard(self, log: PartitionLog) -> None:
        """Removes the files of a pass that was stopped."""
        directory = log.directory
        if directory.error is not None:
            return  # the log is offline or closed, so the next start removes the files
        try:
            for entry in directory.disk.list_dir(log.path):
                if entry.name.endswith(CLEANED_SUFFIX):
                    directory.disk.remove(f"{log.path}/{entry.name}")
        except OSError as error:
            directory.failed(error)

    # --- how far it was cleaned

    def _checkpoint(self, directory: LogDirectory) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(directory.disk, f"{directory.path}/{CLEANER_OFFSET_FILE}")
        except CorruptRecordError as error:
            _log.warning("%s: the file is ignored, and every log is dirty", error)
            return {}

    def _note_cleaned(self, log: PartitionLog, end_offset: Offset) -> None:
        directory = log.directory
        directory.check()
        with directory.checkpointing:
            offsets = self._checkpoint(directory)
            offsets[TopicPartition(log.topic, log.partition)] = end_offset
            write_offsets(directory.disk, f"{directory.path}/{CLEANER_OFFSET_FILE}", offsets)
