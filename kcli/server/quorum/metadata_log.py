"""`__cluster_metadata-0` on disk: the log, its snapshots, the quorum-state file.

All methods block, and only one owner may call them. `flush` and `write_snapshot` may run in a thread while the owner
appends. The leader appends records, and the other nodes append the leader's batches unchanged. After a change of the
leader, these nodes may have to remove uncommitted batches.
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
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.metadata.removed_topics import RemovedTopics
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot_file import (
    BOOTSTRAP_SNAPSHOT_ID,
    MAX_BATCH_BYTES,
    Snapshot,
    SnapshotId,
    encode_snapshot,
)
from kcli.model.ids import FIRST_LEADER_EPOCH, FIRST_OFFSET, BrokerId, LeaderEpoch, Offset
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
from kcli.raft.messages import EpochStart, SnapshotInstalled, Start, VotersAt
from kcli.raft.voters import ReplicaKey, Voter, VoterSet, voter_set
from kcli.runtime.clock import Clock
from kcli.runtime.disk import read_file
from kcli.runtime.rng import Rng
from kcli.server.quorum.election_file import read_election_state, write_election_state
from kcli.server.quorum.snapshot_files import SnapshotFiles
from kcli.storage.directory import on_disk
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.store import LogStore

_log = logging.getLogger(__name__)

PARTITION = 0
TOPIC_ID = uuid.UUID(int=1)
QUORUM_STATE_FILE = "quorum-state"
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch of the log: a buffer that contains the batch, the position of the batch in the buffer, and the header of
    the batch."""

    content: bytes
    position: int
    header: BatchHeader

    @property
    def controls(self) -> list[RaftControl]:
        """The records of a control batch, without records of unknown types."""
        decoded = [decode_control(item.key, item.value) for item in read_records(self.content, self.position)]
        return [control for control in decoded if isinstance(control, RaftControl)]

    def records(self) -> Iterator[MetadataRecord]:
        """Decodes the records one by one. A control batch has no records of the metadata."""
        if not self.header.is_control:
            for record in read_records(self.content, self.position):
                yield decode_metadata_record(record.value or b"")[0]

    def replay(self, replayer: ImageReplayer, records: Iterable[MetadataRecord]) -> MetadataDelta | None:
        """Replays the decoded records of the batch. Returns None for a control batch, and while a metadata transaction
        is open.
        """
        header = self.header
        epoch, timestamp_ms = header.partition_leader_epoch, header.max_timestamp_ms
        if header.is_control:
            replayer.skip(header.last_offset, epoch, timestamp_ms)
            return None
        return replayer.replay(
            records, last_offset=header.last_offset, epoch=epoch, timestamp_ms=timestamp_ms
        )


@dataclass(frozen=True, slots=True)
class DiskContent:
    """The content of the disk at a start: the raft node's state, the metadata of the newest snapshot, and the metadata
    of the whole log. The last records of the log are possibly not committed yet.
    """

    start: Start
    snapshot_image: MetadataImage
    replayer: ImageReplayer


class MetadataLog:
    """The metadata log, in the metadata log directory of a store."""

    def __init__(self, logs: LogStore, config: BrokerConfig, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._config = config
        self.log = _open(logs, config)
        self.directory = self.log.directory
        self._disk = logs.disk
        self._path = self.log.path
        self._bootstrap_path = f"{config.metadata_log_dir}/{BOOTSTRAP_FILE}"
        self.snapshots = SnapshotFiles(self.directory, self._path, rng, self.log.config.file_delete_delay_ms)
        self._restart_at_snapshot()
        # Bytes of the log that the newest snapshot does not cover.
        self.bytes_since_snapshot = 0
        # The removals that only older metadata shows, because snapshots of the leader have replaced this log.
        self.removed_by_snapshots = RemovedTopics()

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

    def _restart_at_snapshot(self) -> None:
        """Empties the log if it ends before the newest snapshot, or if its records contradict the snapshot."""
        newest = self.snapshots.newest
        if newest.end_offset > self.end_offset or (newest.end_offset and newest.epoch > self.epoch):
            self._start_at(newest)
        self.snapshots.delete_before(self.log.log_start_offset)
        if self.log.log_start_offset > self.snapshots.newest.end_offset:
            raise StorageError(
                f"{self._path} begins at offset {self.log.log_start_offset}, but no snapshot has the records before"
            )

    def _start_at(self, snapshot_id: SnapshotId) -> None:
        """Empties the log. The log begins again at the end of the snapshot, and its newest epoch is the epoch of the
        snapshot.
        """
        self.log.truncate_fully_and_start_at(snapshot_id.end_offset)
        self.log.leader_epochs.assign(snapshot_id.epoch, snapshot_id.end_offset)

    @on_disk
    def load(self, replayer: ImageReplayer) -> DiskContent:
        """Replays the newest snapshot, and then the log from the end of the snapshot. Raises CorruptRecordError if
        records are missing between the snapshot and the log.
        """
        kraft_version, voters = 0, _static_voters(self._config)
        history: list[VotersAt] = []
        start = self.log.log_start_offset
        newest = self.snapshots.newest
        if self.snapshots.ids:
            snapshot = self.snapshots.read(newest)
            replay_snapshot(replayer, newest, snapshot)
            start = max(start, newest.end_offset)
            if snapshot.voters is not None and snapshot.kraft_version > 0:
                snapshot_voters = VotersAt(
                    Offset(newest.end_offset - 1), snapshot.kraft_version, voter_set(snapshot.voters)
                )
                if newest == BOOTSTRAP_SNAPSHOT_ID:
                    kraft_version, voters = snapshot_voters.kraft_version, snapshot_voters.voters
                else:
                    history.append(snapshot_voters)
        image = replayer.image
        before = history[-1] if history else VotersAt(FIRST_OFFSET, kraft_version, voters)
        for batch in self.batches(start, self.end_offset):
            self.bytes_since_snapshot += batch.header.size_bytes
            if batch.header.is_control and (changed := _changed_voters(before, batch)) is not None:
                history.append(changed)
                before = changed
            batch.replay(replayer, batch.records())
        raft = Start(
            stored=self.read_election_state(),
            log_start=self.log.log_start_offset,
            log_end_offset=self.end_offset,
            epochs=self._epochs(),
            snapshots=tuple(self.snapshots.ids),
            voters=voters,
            kraft_version=kraft_version,
            voter_history=tuple(history),
        )
        return DiskContent(raft, image, replayer)

    def _epochs(self) -> tuple[EpochStart, ...]:
        return tuple(EpochStart(*entry) for entry in self.log.leader_epochs.entries)

    def batches(self, start: Offset, end: Offset) -> Iterator[LogBatch]:
        """Yields each batch whose last offset is in [start, end). Raises CorruptRecordError."""
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
                yield LogBatch(content, position, header)

    @on_disk
    def removed_topics(self, end: Offset) -> RemovedTopics:
        """Reads the removals of topics from the whole log before `end`, including the part before the newest snapshot.
        Adds the topics that snapshots of the leader have removed since the start.

        Blocks. The search ends at a damaged batch, because its records cannot be read.
        """
        removed = RemovedTopics()
        removed.add_all(self.removed_by_snapshots)
        try:
            for batch in self.batches(self.log.log_start_offset, min(end, self.end_offset)):
                if not batch.header.is_control:
                    removed.replay(
                        record.value or b"" for record in read_records(batch.content, batch.position)
                    )
        except CorruptRecordError as error:
            _log.warning("Topics removed later are not known: %s", error)
        return removed

    @on_disk
    def read_bootstrap(self) -> list[MetadataRecord]:
        """Reads the bootstrap records that `kcli storage format` wrote. Raises StorageError if the file is missing."""
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
        result = self.log.append(bytearray(batch), leader_epoch=epoch, now_ms=now_ms)
        self.bytes_since_snapshot += len(batch)
        return result.last_offset

    def append_received(self, batch: bytes, epoch: LeaderEpoch) -> None:
        """Appends a batch of the leader's log unchanged. Raises StorageError."""
        for _ in self.log.replicate(batch, leader_epoch=epoch, now_ms=self._clock.now_ms()):
            pass  # the leader's answer is small, so its steps need no pause
        self.bytes_since_snapshot += len(batch)

    def truncate(self, offset: Offset) -> None:
        """Drops the records from `offset` on, because the leader does not have them."""
        assert offset >= self.log.high_watermark, "committed records are never dropped"
        size_bytes = self.log.size_bytes
        self.log.truncate_to(offset)
        self.bytes_since_snapshot = max(0, self.bytes_since_snapshot - size_bytes + self.log.size_bytes)

    def flush(self) -> Offset:
        """Flushes the log. Returns the offset up to which the log survives a power failure. Blocks."""
        end_offset = self.end_offset
        self.log.durability.flush(end_offset)
        return end_offset

    # Snapshots.

    def write_snapshot(
        self, snapshot_id: SnapshotId, values: Iterable[bytes], timestamp_ms: int, voters: VotersAt
    ) -> None:
        """Writes a snapshot, which is durable when this method returns. Blocks. `timestamp_ms` is the time of its last
        batch."""
        batches = encode_snapshot(
            values,
            epoch=snapshot_id.epoch,
            last_contained_log_timestamp_ms=timestamp_ms,
            now_ms=self._clock.now_ms(),
            kraft_version=voters.kraft_version,
            voters=voters.voters.record(),
        )
        self.snapshots.write(snapshot_id, batches)

    def took_snapshot(self, snapshot_id: SnapshotId, bytes_covered: int) -> None:
        """Makes a written snapshot the newest snapshot. `bytes_covered` is the size of the part of the log that this
        snapshot covers."""
        self.snapshots.added(snapshot_id)
        self.bytes_since_snapshot = max(0, self.bytes_since_snapshot - bytes_covered)

    def install(self, snapshot_id: SnapshotId, snapshot: Snapshot) -> SnapshotInstalled:
        """Replaces the log by a downloaded snapshot. The log is then empty, and begins at the end of the snapshot."""
        self._start_at(snapshot_id)
        self.snapshots.added(snapshot_id)
        self.snapshots.delete_before(snapshot_id.end_offset)
        self.bytes_since_snapshot = 0
        if snapshot.voters is None:
            return SnapshotInstalled(snapshot_id, None, None)
        return SnapshotInstalled(snapshot_id, snapshot.kraft_version, voter_set(snapshot.voters))

    @on_disk
    def clean(self, retention_bytes: int, retention_ms: int) -> None:
        """Deletes the oldest snapshots by size and age, and then the part of the log before the oldest remaining
        snapshot.

        The newest snapshot is never deleted.
        """
        snapshots = self.snapshots
        while len(snapshots.ids) > 1:
            oldest, following = snapshots.ids[0], snapshots.ids[1]
            if not self._too_large(retention_bytes) and not self._too_old(oldest, retention_ms):
                return
            self.log.delete_records_before(following.end_offset)
            self.log.delete_old_segments(self._clock.now_ms())
            snapshots.delete_oldest()

    def _too_large(self, retention_bytes: int) -> bool:
        return 0 <= retention_bytes < self.log.size_bytes + self.snapshots.size_bytes

    def _too_old(self, snapshot_id: SnapshotId, retention_ms: int) -> bool:
        if retention_ms < 0:
            return False
        age_ms = self._clock.now_ms() - self.snapshots.read(snapshot_id).last_contained_log_timestamp_ms
        return age_ms > retention_ms


def replay_snapshot(replayer: ImageReplayer, snapshot_id: SnapshotId, snapshot: Snapshot) -> None:
    """Replays the records of a snapshot. The bootstrap snapshot (offset 0) has no records."""
    if snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
        return
    records = [decode_metadata_record(value)[0] for values in snapshot.batches for value in values]
    replayer.replay(
        records,
        last_offset=Offset(snapshot_id.end_offset - 1),
        epoch=snapshot_id.epoch,
        timestamp_ms=snapshot.last_contained_log_timestamp_ms,
    )


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


def _static_voters(config: BrokerConfig) -> VoterSet:
    """The voters of kraft.version 0, from controller.quorum.voters. The ids of their directories are unknown."""
    names = config.controller_listener_names
    listener = names[0] if names else ""
    return VoterSet(
        tuple(
            Voter(ReplicaKey(BrokerId(voter_id)), {listener: address})
            for voter_id, address in config.quorum_voters.items()
        )
    )


def _changed_voters(before: VotersAt, batch: LogBatch) -> VotersAt | None:
    """The voters and the kraft.version after a control batch. None if the batch changes neither."""
    kraft_version, voters = before.kraft_version, before.voters
    changed = False
    for control in batch.controls:
        if isinstance(control, KRaftVersionRecord):
            kraft_version, changed = control.k_raft_version, True
        elif isinstance(control, VotersRecord):
            voters, changed = voter_set(control), True
    return VotersAt(batch.header.base_offset, kraft_version, voters) if changed else None
