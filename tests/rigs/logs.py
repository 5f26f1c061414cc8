"""Parts for tests of partition logs: a clock that the test moves, a log on any disk, and functions that make
batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.config.topic import LogConfig
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, LeaderEpoch, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches
from kcli.protocol.batches.batch import read_records as records_in
from kcli.protocol.batches.compression import Codec
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.runtime.disk import Disk
from kcli.runtime.rng import SystemRng
from kcli.storage.directory import Background, LogDirectory
from kcli.storage.files import HandlePool
from kcli.storage.log.late_opening import opening_of
from kcli.storage.log.log import AppendResult, PartitionLog
from kcli.storage.log.producer_state import Verification
from kcli.storage.log.settings import StoreSettings
from kcli.storage.log.validation import UnopenedBatch
from kcli.storage.store.loader import LoadState, create_log, load_log
from kcli.storage.store.store import LogStore, run_inline
from rigs.steps import last_of

START_MS = 1_800_000_000_000
"""The time of a new ManualClock, in milliseconds."""


class ManualClock:
    """A `Clock` that moves only when a test sets it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms
        self.skew_ms = 0
        """The milliseconds by which the wall clock has jumped. The monotonic clock does not jump."""

    def now_ms(self) -> int:
        return self.ms + self.skew_ms

    def monotonic(self) -> float:
        return self.ms / 1000


def batch_of(
    values: Iterable[bytes | None],
    *,
    key: bytes | None = b"k",
    timestamp_ms: int = START_MS,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
) -> bytes:
    """Returns a batch as a client sends it. If `base_offset` and `leader_epoch` are given, returns a batch as a
    leader's log contains it."""
    return encode_batch(
        [Record(-1, timestamp_ms, key, value, (), NO_SEQUENCE) for value in values],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker_of(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    timestamp_ms: int = START_MS,
) -> bytes:
    """Returns a batch with the commit or abort marker of a transaction."""
    return encode_marker_batch(
        EndTransactionMarker(committed=commit, coordinator_epoch=coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=timestamp_ms,
    )


class LogRig:
    """A partition log on a disk of the test's choice. The test can close the log and open it again."""

    def __init__(
        self,
        disk: Disk,
        path: str = "/data",
        config: LogConfig | None = None,
        *,
        clock: ManualClock | None = None,
        topic: str = "t",
        handle_capacity: int = 64,
        background: Background = run_inline,
    ) -> None:
        self.disk = disk
        self.path = path
        self.topic = topic
        self._key = TopicPartition(topic, 0)
        self.config = config or LogConfig()
        self.clock = clock or ManualClock()
        disk.make_dir(path)
        self._handle_capacity = handle_capacity
        self._background = background
        self._rng = SystemRng(7)
        self.directory = self._directory()

    def _directory(self) -> LogDirectory:
        return LogDirectory(
            self.path,
            HandlePool(self.disk, self._handle_capacity),
            background=self._background,
            monotonic=self.clock.monotonic,
        )

    @property
    def settings(self) -> StoreSettings:
        return StoreSettings(self.clock.now_ms, self._rng.randrange, producer_expiration_ms=86_400_000)

    def create(self) -> PartitionLog:
        return create_log(self.directory, f"{self.topic}-0", self._key, None, self.config, self.settings)

    def load(self, *, clean: bool, recovery_point: int = 0, log_start_offset: int = 0) -> PartitionLog:
        """Opens the log again, as a new process would."""
        self.directory = self._directory()
        state = LoadState(clean, Offset(recovery_point), Offset(log_start_offset))
        return load_log(self.directory, f"{self.topic}-0", self._key, self.config, self.settings, state)


def append_client(
    log: PartitionLog,
    records: Buffer,
    *,
    leader_epoch: int,
    now_ms: int,
    verification: Verification | None = None,
) -> AppendResult:
    """Appends a batch of a client as its leader does. A batch that takes long is opened in the calling thread."""
    batch = log.check_client_batch(records, now_ms)
    if isinstance(batch, UnopenedBatch):
        batch = last_of(opening_of(batch))
    return log.append_checked(
        batch, leader_epoch=LeaderEpoch(leader_epoch), now_ms=now_ms, verification=verification
    )


def append_replicated(log: PartitionLog, records: Buffer, *, leader_epoch: int, now_ms: int) -> None:
    """Appends batches of the leader's log as a follower does."""
    for _ in log.replicate(records, leader_epoch=LeaderEpoch(leader_epoch), now_ms=now_ms):
        pass


def flush_logs(store: LogStore) -> None:
    """Flushes the logs in service. May block."""
    for log in store.all_logs():
        log.durability.flush()


def open_files(store: LogStore) -> int:
    """The number of open files of the segments in service."""
    segments = [segment for log in store.all_logs() for segment in log.segments]
    return sum(handle.open_file is not None for segment in segments for handle in segment.files.handles())


def contents(
    log: PartitionLog, *, max_bytes: int = 1 << 20, may_end_early: bool = False
) -> list[tuple[int, bytes | None]]:
    """Returns (offset, value) of every record of the log except control records. Reads the log in parts.

    If `may_end_early` is True, records before the log end may be missing, because a crash has lost them.
    """
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, max_bytes, end_offset=log.log_end_offset).read()
        if may_end_early and not piece:
            break
        assert piece, f"nothing at offset {offset}, before the log end {log.log_end_offset}"
        for position, header in iter_batches(piece):
            if not header.is_control:
                records = records_in(piece, position)
                found += [(record.offset, record.value) for record in records if record.offset >= offset]
            offset = header.next_offset
    return found


def numbered(count: int, *, start: int = 0) -> Sequence[bytes]:
    return [b"%d" % number for number in range(start, start + count)]
