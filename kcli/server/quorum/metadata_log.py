"""`__cluster_metadata-0` on disk: the log, its snapshots, the quorum-state file.

All methods block, and only one owner may call them. `flush` and `write_snapshot` may run in a thread while the owner
appends. A snapshot is written as `<id>-<random>.checkpoint.part`, made durable and renamed. An old snapshot is renamed
to `….deleted` and removed a minute later, when no reader has the file open any more (KIP-630).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.topic import LogConfig
from kcli.controller.bootstrap import BOOTSTRAP_FILE, decode_bootstrap
from kcli.errors import CorruptRecordError, StorageError
from kcli.metadata.removed_topics import RemovedTopics
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot_file import (
    BOOTSTRAP_SNAPSHOT_ID,
    DELETED_SUFFIX,
    MAX_BATCH_BYTES,
    PART_SUFFIX,
    Snapshot,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    snapshot_id_of,
)
from kcli.model.ids import FIRST_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.batches.batch import (
    BatchHeader,
    Record,
    crc_is_valid,
    encode_batch,
    iter_batches,
    read_records,
)
from kcli.protocol.batches.control import (
    KRaftVersionRecord,
    RaftControl,
    VotersRecord,
    decode_control,
    encode_raft_batch,
)
from kcli.protocol.records.metadata import MetadataRecord, decode_metadata_record
from kcli.raft.election_state import ElectionState
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet, voter_set
from kcli.runtime.clock import Clock
from kcli.runtime.disk import read_file
from kcli.runtime.rng import Rng
from kcli.server.quorum.election_file import read_election_state, write_election_state
from kcli.storage.directory import on_disk
from kcli.storage.log.log import AppendOrigin, PartitionLog
from kcli.storage.store.store import LogStore

_log = logging.getLogger(__name__)

PARTITION = 0
TOPIC_ID = uuid.UUID(int=1)
QUORUM_STATE_FILE = "quorum-state"
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class QuorumVoters:
    """The voters of the quorum. `in_log` is False if only the snapshot of `format` or the configuration names them."""

    kraft_version: int = 0
    voters: VoterSet = NO_VOTERS
    in_log: bool = False


class MetadataLog:
    """The metadata log, in the metadata log directory of a store."""

    def __init__(self, logs: LogStore, config: BrokerConfig, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._config = config
        self.log = _open(logs, config)
        self.directory = self.log.directory
        self._disk = logs.disk
        self._path = self.log.path
        self._bootstrap_path = f"{config.metadata_log_dir}/{BOOTSTRAP_FILE}"
        self.snapshots = self._clean_up()
        # Bytes of the log that the newest snapshot does not cover.
        self.bytes_since_snapshot = 0

    @property
    def end_offset(self) -> Offset:
        return self.log.log_end_offset

    @property
    def epoch(self) -> LeaderEpoch:
        """The epoch of the newest record; 0 for an empty log."""
        return max(self.log.leader_epochs.latest_epoch, FIRST_LEADER_EPOCH)

    @property
    def directory_id(self) -> uuid.UUID:
        directory_id = self.directory.id
        assert directory_id is not None, "the store has given every directory an id"
        return directory_id

    # Starting.

    @on_disk
    def _clean_up(self) -> list[SnapshotId]:
        """Removes incomplete files that a crash left. Returns the snapshots, oldest first."""
        found = []
        for entry in self._disk.list_dir(self._path):
            if entry.name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
                self._disk.remove(f"{self._path}/{entry.name}")
                continue
            snapshot_id = snapshot_id_of(entry.name)
            if snapshot_id is not None:
                found.append(snapshot_id)
        found.sort()
        newest = found[-1] if found else BOOTSTRAP_SNAPSHOT_ID
        if newest.end_offset > self.end_offset or (newest.end_offset and newest.epoch > self.epoch):
            # The log ends before the snapshot, or has other records. The snapshot takes precedence.
            self.log.truncate_fully_and_start_at(newest.end_offset)
        for snapshot_id in [old for old in found if old.end_offset < self.log.log_start_offset]:
            self._delete(snapshot_id)
            found.remove(snapshot_id)
        return found

    @on_disk
    def load(self, replayer: ImageReplayer) -> QuorumVoters:
        """Replays the newest snapshot and then the log from its end. Raises CorruptRecordError if records are missing
        in between."""
        quorum_voters = _static_voters(self._config)
        start = self.log.log_start_offset
        if self.snapshots:
            newest = self.snapshots[-1]
            snapshot = self._read(newest)
            _replay_snapshot(replayer, newest, snapshot)
            quorum_voters = _from_snapshot(quorum_voters, newest, snapshot)
            start = max(start, newest.end_offset)
        for controls in self._replay_log(replayer, start):
            quorum_voters = _from_controls(quorum_voters, controls)
        return quorum_voters

    def _read(self, snapshot_id: SnapshotId) -> Snapshot:
        path = f"{self._path}/{snapshot_id.file_name}"
        return decode_snapshot(read_file(self._disk, path), path)

    def _replay_log(self, replayer: ImageReplayer, start: Offset) -> Iterator[list[RaftControl]]:
        """Replays the log from `start`. Yields the control records of each control batch."""
        for content, position, header in self._batches(start, self.end_offset):
            self.bytes_since_snapshot += header.size_bytes
            epoch, timestamp_ms = header.partition_leader_epoch, header.max_timestamp_ms
            if header.is_control:
                decoded = [decode_control(item.key, item.value) for item in read_records(content, position)]
                yield [control for control in decoded if isinstance(control, RaftControl)]
                replayer.skip(header.last_offset, epoch, timestamp_ms)
                continue
            values = [record.value or b"" for record in read_records(content, position)]
            records = [decode_metadata_record(value)[0] for value in values]
            replayer.replay(records, last_offset=header.last_offset, epoch=epoch, timestamp_ms=timestamp_ms)

    def _batches(self, start: Offset, end: Offset) -> Iterator[tuple[bytes, int, BatchHeader]]:
        """(bytes, position in them, header) of each batch in [start, end). Raises CorruptRecordError."""
        offset = start
        while offset < end:
            content = self.log.read(offset, READ_BYTES, end_offset=end).read()
            for position, header in iter_batches(content):
                if header.last_offset < start:
                    continue
                if not crc_is_valid(content, position, header):
                    raise CorruptRecordError(
                        f"{self._path}: the batch at offset {header.base_offset} has a wrong checksum"
                    )
                offset = header.next_offset
                yield content, position, header

    @on_disk
    def removed_topics(self, end: Offset) -> RemovedTopics:
        """Reads the removals of topics from the whole log before `end`, including the part before the newest snapshot.

        Blocks. A damaged batch ends the search, because its records cannot be read.
        """
        removed = RemovedTopics()
        try:
            for content, position, header in self._batches(self.log.log_start_offset, end):
                if not header.is_control:
                    removed.replay(record.value or b"" for record in read_records(content, position))
        except CorruptRecordError as error:
            _log.warning("Topics removed later are not known: %s", error)
        return removed

    @on_disk
    def read_bootstrap(self) -> list[MetadataRecord]:
        """Reads the bootstrap records that `format` wrote. Raises StorageError if the file is missing."""
        try:
            content = read_file(self._disk, self._bootstrap_path)
        except FileNotFoundError:
            raise StorageError(
                f"{self._bootstrap_path} does not exist and the metadata log is empty: format the directory first "
                "(kcli storage format)"
            ) from None
        return decode_bootstrap(content, self._bootstrap_path)

    # The quorum-state file.

    @on_disk
    def read_election_state(self) -> ElectionState | None:
        return read_election_state(self._disk, f"{self._path}/{QUORUM_STATE_FILE}")

    @on_disk
    def write_election_state(self, state: ElectionState) -> None:
        """Writes the quorum-state file. The file is durable when this method returns."""
        write_election_state(self._disk, f"{self._path}/{QUORUM_STATE_FILE}", state)

    # Appending.

    def append_records(self, values: Sequence[bytes], epoch: LeaderEpoch, now_ms: int) -> Offset:
        """Appends one batch. Returns its last offset. Raises StorageError."""
        records = [Record(timestamp_ms=now_ms, value=value) for value in values]
        batch = encode_batch(records, base_offset=self.end_offset, leader_epoch=epoch)
        return self._append(batch, epoch, now_ms)

    def append_controls(self, controls: tuple[RaftControl, ...], epoch: LeaderEpoch, now_ms: int) -> Offset:
        batch = encode_raft_batch(
            controls, base_offset=self.end_offset, leader_epoch=epoch, timestamp_ms=now_ms
        )
        return self._append(batch, epoch, now_ms)

    def _append(self, batch: bytes, epoch: LeaderEpoch, now_ms: int) -> Offset:
        result = self.log.append(
            bytearray(batch), leader_epoch=epoch, origin=AppendOrigin.RAFT, now_ms=now_ms
        )
        self.bytes_since_snapshot += len(batch)
        return result.last_offset

    def flush(self) -> Offset:
        """Flushes the log. Returns the offset up to which it survives a power failure. Blocks."""
        end_offset = self.end_offset
        self.log.flush(end_offset)
        return end_offset

    # Snapshots.

    @on_disk
    def write_snapshot(
        self, snapshot_id: SnapshotId, values: Iterable[bytes], timestamp_ms: int, quorum_voters: QuorumVoters
    ) -> None:
        """Writes a snapshot, which is durable when this method returns. Blocks. `timestamp_ms` is the time of its last
        batch."""
        batches = encode_snapshot(
            values,
            epoch=snapshot_id.epoch,
            last_contained_log_timestamp_ms=timestamp_ms,
            now_ms=self._clock.now_ms(),
            kraft_version=quorum_voters.kraft_version,
            voters=quorum_voters.voters.record(),
        )
        stem = snapshot_id.file_name.removesuffix(".checkpoint")
        part = f"{self._path}/{stem}-{self._rng.randrange(1 << 62)}{PART_SUFFIX}"
        file = self._disk.open(part, create=True)
        try:
            position = 0
            for batch in batches:
                file.write_at(position, batch)
                position += len(batch)
            file.sync()
        finally:
            file.close()
        self._disk.make_read_only(part)  # snapshots never change (KIP-630)
        self._disk.rename(part, f"{self._path}/{snapshot_id.file_name}")
        self._disk.sync_dir(self._path)

    def took_snapshot(self, snapshot_id: SnapshotId, bytes_covered: int) -> None:
        """Makes a written snapshot the newest snapshot. `bytes_covered` is the size of the part of the log that this
        snapshot covers."""
        self.snapshots.append(snapshot_id)
        self.bytes_since_snapshot -= bytes_covered

    @on_disk
    def clean(self, retention_bytes: int, retention_ms: int) -> None:
        """Deletes the oldest snapshots by size and age, and then the part of the log before the oldest remaining
        snapshot.

        The newest snapshot is never deleted.
        """
        while len(self.snapshots) > 1:
            oldest, following = self.snapshots[0], self.snapshots[1]
            if not self._too_large(retention_bytes) and not self._too_old(oldest, retention_ms):
                return
            self.log.delete_records_before(following.end_offset)
            self.log.delete_old_segments(self._clock.now_ms())
            self._delete(oldest)
            del self.snapshots[0]

    def _too_large(self, retention_bytes: int) -> bool:
        if retention_bytes < 0:
            return False
        names = {snapshot_id.file_name for snapshot_id in self.snapshots}
        sizes = (entry.size_bytes for entry in self._disk.list_dir(self._path) if entry.name in names)
        return self.log.size_bytes + sum(sizes) > retention_bytes

    def _too_old(self, snapshot_id: SnapshotId, retention_ms: int) -> bool:
        if retention_ms < 0:
            return False
        age_ms = self._clock.now_ms() - self._read(snapshot_id).last_contained_log_timestamp_ms
        return age_ms > retention_ms

    def _delete(self, snapshot_id: SnapshotId) -> None:
        path = f"{self._path}/{snapshot_id.file_name}"
        deleted = path.removesuffix(".checkpoint") + DELETED_SUFFIX
        self._disk.rename(path, deleted)
        due_ms = self._clock.now_ms() + self.log.config.file_delete_delay_ms
        self.directory.deletions.add([deleted], due_ms)


def _open(logs: LogStore, config: BrokerConfig) -> PartitionLog:
    small = config["internal.metadata.log.segment.bytes"]
    assert small is None or isinstance(small, int)
    log_config = LogConfig(
        cleanup_policy=("delete",),
        # The log has no retention of its own, because only its snapshots decide which part may be deleted.
        retention_bytes=-1,
        retention_ms=-1,
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        segment_ms=config.integer("metadata.log.segment.ms"),
        max_message_bytes=MAX_BATCH_BYTES,
        segment_index_bytes=config.integer("log.index.size.max.bytes"),
        internal_segment_bytes=small,
        file_delete_delay_ms=config.integer("internal.metadata.delete.delay.millis"),
    )
    log = logs.create(CLUSTER_METADATA_TOPIC, PARTITION, TOPIC_ID, log_config)
    log.update_config(log_config)
    return log


def _static_voters(config: BrokerConfig) -> QuorumVoters:
    """The voters of kraft.version 0, from controller.quorum.voters. The ids of their directories are unknown."""
    names = config.controller_listener_names
    listener = names[0] if names else ""
    voters = tuple(
        Voter(ReplicaKey(BrokerId(voter_id)), {listener: address})
        for voter_id, address in config.quorum_voters.items()
    )
    return QuorumVoters(voters=VoterSet(voters))


def _replay_snapshot(replayer: ImageReplayer, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
    if snapshot_id.end_offset == 0:
        return
    records = [decode_metadata_record(value)[0] for values in snapshot.batches for value in values]
    replayer.replay(
        records,
        last_offset=Offset(snapshot_id.end_offset - 1),
        epoch=snapshot_id.epoch,
        timestamp_ms=snapshot.last_contained_log_timestamp_ms,
    )


def _from_snapshot(quorum_voters: QuorumVoters, snapshot_id: SnapshotId, snapshot: Snapshot) -> QuorumVoters:
    if snapshot.voters is None or snapshot.kraft_version == 0:
        return quorum_voters
    in_log = snapshot_id != BOOTSTRAP_SNAPSHOT_ID
    return QuorumVoters(snapshot.kraft_version, voter_set(snapshot.voters), in_log)


def _from_controls(quorum_voters: QuorumVoters, controls: Iterable[RaftControl]) -> QuorumVoters:
    kraft_version, voters, in_log = quorum_voters.kraft_version, quorum_voters.voters, quorum_voters.in_log
    for control in controls:
        if isinstance(control, KRaftVersionRecord):
            kraft_version = control.k_raft_version
        elif isinstance(control, VotersRecord):
            voters, in_log = voter_set(control), True
    return QuorumVoters(kraft_version, voters, in_log)
