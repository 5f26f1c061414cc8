"""Loads a `PartitionLog` from its directory, after a clean stop or a crash.

As in Kafka, the steps are: complete or undo the cleaner's renames, open the segments, and restore epochs and producers.
After an unclean stop, records that may not be on the device are read again, and an incomplete batch at the end is
truncated.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence, Set
from dataclasses import dataclass

from kcli.config.topic import LogConfig
from kcli.errors import CorruptRecordError
from kcli.model.ids import FIRST_OFFSET, MAX_OFFSET, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import HEADER_SIZE, PREFIX_SIZE, read_header
from kcli.runtime.disk import Disk
from kcli.storage.checkpoint import (
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    read_partition_metadata,
)
from kcli.storage.directory import LogDirectory
from kcli.storage.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from kcli.storage.leader_epochs import LeaderEpochCache
from kcli.storage.log.local_log import LocalLog
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.recovery import OffsetOverflow, Recovery
from kcli.storage.log.segment import Segment
from kcli.storage.log.settings import StoreSettings
from kcli.storage.log.split import write_split

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadState:
    """The values that the checkpoints contain for one log. `clean` is True after a clean stop. If `must_keep` is True
    and the log lacks records before its recovery point, loading raises an error."""

    clean: bool
    recovery_point: Offset = FIRST_OFFSET
    log_start_offset: Offset = FIRST_OFFSET
    high_watermark: Offset = FIRST_OFFSET
    must_keep: bool = False


def create_log(
    directory: LogDirectory,
    name: str,
    key: TopicPartition,
    topic_id: uuid.UUID | None,
    config: LogConfig,
    settings: StoreSettings,
) -> PartitionLog:
    """Makes a new, empty log in a new directory, and makes the log durable."""
    log = make_log(directory, name, key, topic_id, config, settings)
    log.durability.settle()
    return log


def make_log(
    directory: LogDirectory,
    name: str,
    key: TopicPartition,
    topic_id: uuid.UUID | None,
    config: LogConfig,
    settings: StoreSettings,
) -> PartitionLog:
    """Makes a new, empty log like `create_log`. Until `settle` is called, the log is not durable, and a crash may
    remove it."""
    directory.disk.make_dir(f"{directory.path}/{name}")
    log = load_log(directory, name, key, config, settings, LoadState(clean=True))
    log.durability.begin(topic_id)
    return log


def load_log(
    directory: LogDirectory,
    name: str,
    key: TopicPartition,
    config: LogConfig,
    settings: StoreSettings,
    state: LoadState,
) -> PartitionLog:
    """Opens the log in `<directory>/<name>`. Raises OSError, or CorruptRecordError if recovery is impossible."""
    disk, path = directory.disk, f"{directory.path}/{name}"
    files = disk.list_names(path)
    if finish_swaps(disk, path, files):
        files = disk.list_names(path)
    segments, damaged = _open_segments(directory, path, files, settings, clean=state.clean)
    topic_id = read_partition_metadata(disk, f"{path}/{PARTITION_METADATA_FILE}")
    if not segments:
        segments = [_new_segment(directory, path, state.log_start_offset, config, settings)]
    local = LocalLog(directory, path, key, topic_id, config, settings, segments=segments, file_names=files)
    log_start_offset = max(state.log_start_offset, segments[0].base_offset)
    log = PartitionLog(local, LeaderEpochCache(disk, f"{path}/{LEADER_EPOCH_FILE}"), log_start_offset)
    had_snapshots = bool(local.snapshots.offsets())
    durable_end = MAX_OFFSET if state.clean else state.recovery_point
    if state.clean and not damaged and (end := _whole_end(segments[-1])) is not None:
        local.end_offset = end
    else:
        unsure = segments[-1].base_offset if state.clean else state.recovery_point
        recovery = Recovery(
            log, settings.now_ms(), flushed_offset=state.recovery_point, must_keep=state.must_keep
        )
        try:
            local.end_offset = recovery.run(min([unsure, *damaged]))
        except OffsetOverflow as overflow:
            write_split(overflow.segment, overflow.pieces)
            log.close(clean=False)
            return load_log(directory, name, key, config, settings, state)
        durable_end = min(durable_end, recovery.first_offset)
        had_snapshots = True
    if state.must_keep and log.log_end_offset < state.recovery_point:
        raise CorruptRecordError(
            f"{path} ends at offset {log.log_end_offset}, but everything before offset {state.recovery_point} was on "
            f"the device: put its files back from a copy, or remove the directory to begin without it"
        )
    _restore(log, state, settings, durable_end, trust_empty=state.clean and not had_snapshots)
    return log


def _whole_end(segment: Segment) -> Offset | None:
    """The offset after the last batch of a segment. None if the segment must be read again, because it is damaged or
    other bytes follow this batch.
    """
    try:
        offset, end = segment.tail()
    except CorruptRecordError as error:
        _log.warning("%s is read again: %s", segment.log.path, error)
        return None
    return offset if end == segment.size_bytes else None


def _restore(
    log: PartitionLog, state: LoadState, settings: StoreSettings, durable_end: Offset, *, trust_empty: bool
) -> None:
    """Sets the offsets, epochs and producers of a log whose segments are valid. All records before `durable_end` must
    be on the device."""
    if log.log_end_offset < state.log_start_offset:
        _log.warning(
            "%s ends at offset %d, before its log start offset %d; it starts again, empty, there",
            log.path,
            log.log_end_offset,
            state.log_start_offset,
        )
        log.leader_epochs.clear()
        log.truncate_fully_and_start_at(state.log_start_offset)
    log.durability.recovery_point = min(durable_end, log.log_end_offset)
    log.leader_epochs.truncate_end(log.log_end_offset)
    log.leader_epochs.truncate_start(log.log_start_offset)
    _remove_stray_snapshots(log.local)
    producers = log.producers.state
    if trust_empty:
        # If there is no snapshot after a clean stop, no producer with an id has written to the log, or the last broker
        # was an old Kafka without producer ids.
        for offset in [*(segment.base_offset for segment in log.segments[-2:]), log.log_end_offset]:
            producers.end_offset = offset
            log.producers.write_snapshot()
    elif len(producers) == 0 and producers.end_offset == log.log_end_offset:
        # Recovery has just read all records, and none came from a producer with an id.
        log.local.snapshots.remove_outside(log.log_start_offset, log.log_end_offset)
    else:
        log.producers.rebuild(settings.now_ms())
    log.high_watermark = log.log_start_offset
    log.set_high_watermark(max(state.high_watermark, log.log_start_offset))


def finish_swaps(disk: Disk, path: str, names: Sequence[str]) -> bool:
    """Removes `.deleted` files and unfinished files of the cleaner, and completes the cleaner's renames. This is the
    first step after a crash.

    `.cleaned` files are unfinished. Every `.swap` file at or after the lowest offset of the `.cleaned` files is
    unfinished too. The other `.swap` files are complete and replace the segments from which they were made. Returns
    True if any file was changed.
    """
    if not any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        return False
    deleted = [name for name in names if name.endswith(DELETED_SUFFIX)]
    for name in deleted:
        disk.remove(f"{path}/{name}")
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swapped = [name for name in names if name.endswith(SWAP_SUFFIX)]
    lowest_cleaned = min((_offset(name) for name in cleaned), default=None)
    unfinished = [name for name in swapped if lowest_cleaned is not None and _offset(name) >= lowest_cleaned]
    for name in cleaned + unfinished:
        disk.remove(f"{path}/{name}")
    whole = [name for name in swapped if name not in unfinished]
    if not whole:
        return bool(deleted or cleaned or unfinished)
    start, end = _swapped_range(disk, path, whole)
    for name in names:
        offset = offset_of(name)
        if name.endswith(SEGMENT_SUFFIXES) and offset is not None and start <= offset < end:
            disk.remove(f"{path}/{name}")
    for name in whole:
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_dir(path)
    return True


def _offset(name: str) -> Offset:
    offset = offset_of(name)
    if offset is None:
        raise CorruptRecordError(f"'{name}' is no segment file: it should begin with an offset of 20 digits")
    return offset


def _swapped_range(disk: Disk, path: str, names: list[str]) -> tuple[Offset, Offset]:
    """The lowest base offset and the highest end offset (exclusive) of the `.swap` segments."""
    logs = [name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if not logs:
        return FIRST_OFFSET, FIRST_OFFSET
    end = FIRST_OFFSET
    for name in logs:
        file = disk.open(f"{path}/{name}")
        try:
            content_end = file.size()
            position = 0
            while content_end - position > PREFIX_SIZE:
                header = read_header(file.read_at(position, HEADER_SIZE))
                end = max(end, header.next_offset)
                position += header.size_bytes
        finally:
            file.close()
    return min(_offset(name) for name in logs), end


def _open_segments(
    directory: LogDirectory, path: str, files: Sequence[str], settings: StoreSettings, *, clean: bool
) -> tuple[list[Segment], list[Offset]]:
    """Returns the segments in order, and the base offsets of the segments that must be read again."""
    segments, damaged = [], []
    names, now_ms = set(files), settings.now_ms()
    last_log = max((name for name in files if name.endswith(LOG_SUFFIX)), default="")
    for name in files:
        if name.endswith(LOG_SUFFIX):
            segment = Segment(directory.pool, path, _offset(name), created_ms=now_ms, sizes=None)
            segments.append(segment)
            stem = name.removesuffix(LOG_SUFFIX)
            deep = not clean or name == last_log
            if deep:
                segment.look(suffix for suffix in SEGMENT_SUFFIXES if stem + suffix in names)
            if not _is_sound(segment, names, stem, clean=clean, deep=deep):
                damaged.append(segment.base_offset)
        elif name.endswith(SEGMENT_SUFFIXES) and name.partition(".")[0] + LOG_SUFFIX not in names:
            directory.disk.remove(f"{path}/{name}")  # an index without its log file
    return segments, damaged


def _is_sound(segment: Segment, names: Set[str], stem: str, *, clean: bool, deep: bool) -> bool:
    """Whether the indexes of a segment are valid. The existence of the files and the transaction index are always
    checked. If `deep` is True, the sizes and ends of the other index files are checked too."""
    if stem + INDEX_SUFFIX not in names:
        _log.warning("%s has no offset index; it is rebuilt", segment.log.path)
        return False
    if stem + TIME_INDEX_SUFFIX not in names:
        segment.time_index.entries.handle.create()
    try:
        if stem + TXN_INDEX_SUFFIX in names:
            segment.txn_index.check(segment.base_offset)
        sound = not deep or segment.has_sane_indexes(clean=clean)
    except CorruptRecordError as error:
        _log.warning("%s is read again: %s", segment.log.path, error)
        return False
    if not sound:
        _log.warning("%s is read again: an index of it is not whole", segment.log.path)
    return sound


def _new_segment(
    directory: LogDirectory, path: str, base_offset: Offset, config: LogConfig, settings: StoreSettings
) -> Segment:
    segment = Segment(directory.pool, path, base_offset, created_ms=settings.now_ms(), sizes={})
    segment.create_files(config.segment_size_bytes if config.preallocate else 0)
    return segment


def _remove_stray_snapshots(local: LocalLog) -> None:
    """Removes producer snapshots at whose offset no segment begins. The newest snapshot stays if it is after the base
    offset of the last segment.
    """
    offsets = local.snapshots.offsets()
    if len(offsets) == 1 and offsets[0] >= local.segments[-1].base_offset:
        return  # as in most logs
    bases = {segment.base_offset for segment in local.segments}
    for offset in offsets:
        newest = offset == offsets[-1] and offset > local.segments[-1].base_offset
        if offset not in bases and not newest:
            local.snapshots.remove(offset)
