"""Reads the metadata image from one file of the metadata log: a snapshot or a segment."""

from __future__ import annotations

import os

from kcli.errors import CorruptRecordError, KcliError
from kcli.metadata.delta import MetadataLogError
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot_file import decode_snapshot, snapshot_id_of
from kcli.model.ids import FIRST_LEADER_EPOCH, Offset
from kcli.protocol.batches.batch import crc_is_valid, iter_batches, read_records
from kcli.protocol.records.metadata import decode_metadata_record
from kcli.runtime.disk import SystemDisk, read_file
from kcli.storage.store.ownership import LOCK_FILE

SNAPSHOT_SUFFIX = ".checkpoint"


class SnapshotProblem(KcliError):
    """Raised if the file cannot be read as metadata, or if a node has locked its directory."""


def loaded_image(path: str) -> MetadataImage:
    """Returns the metadata image at the end of the file. Raises SnapshotProblem if it cannot be read."""
    disk = SystemDisk()
    directory = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    lock_path = f"{directory}/{LOCK_FILE}"
    lock = None
    # As in Kafka, only a log directory has a lock file. A copy of the file in another place has no lock.
    if os.path.exists(lock_path):
        try:
            lock = disk.lock(lock_path)
        except BlockingIOError as error:
            raise SnapshotProblem(
                f"Unable to lock {directory}. Please ensure that no broker or controller process is using this "
                "directory before proceeding."
            ) from error
        except OSError as error:
            raise SnapshotProblem(f"Unable to open {lock_path}: {error.strerror}") from error
    try:
        content = read_file(disk, path)
        return _snapshot(content, path) if path.endswith(SNAPSHOT_SUFFIX) else _segment(content, path)
    except OSError as error:
        raise SnapshotProblem(f"{path}: {error.strerror}") from error
    except (CorruptRecordError, MetadataLogError) as error:
        raise SnapshotProblem(f"{path} cannot be read: {error}") from error
    finally:
        if lock is not None:
            lock.release()


def _snapshot(content: bytes, path: str) -> MetadataImage:
    snapshot = decode_snapshot(content, path)
    records = [decode_metadata_record(value)[0] for values in snapshot.batches for value in values]
    # The name of a file such as bootstrap.checkpoint does not contain an end offset.
    snapshot_id = snapshot_id_of(os.path.basename(path))
    replayer = ImageReplayer(MetadataImage())
    replayer.replay(
        records,
        last_offset=Offset(max(snapshot_id.end_offset - 1, 0) if snapshot_id is not None else 0),
        epoch=snapshot_id.epoch if snapshot_id is not None else FIRST_LEADER_EPOCH,
        timestamp_ms=snapshot.last_contained_log_timestamp_ms,
    )
    return replayer.image


def _segment(content: bytes, path: str) -> MetadataImage:
    replayer = ImageReplayer(MetadataImage())
    for position, header in iter_batches(content):
        if not crc_is_valid(content, position, header):
            raise CorruptRecordError(f"the batch at offset {header.base_offset} has a wrong checksum")
        epoch, timestamp_ms = header.partition_leader_epoch, header.max_timestamp_ms
        if header.is_control:
            replayer.skip(header.last_offset, epoch, timestamp_ms)
            continue
        records = [
            decode_metadata_record(record.value or b"")[0] for record in read_records(content, position)
        ]
        replayer.replay(records, last_offset=header.last_offset, epoch=epoch, timestamp_ms=timestamp_ms)
    return replayer.image
