"""Whatever is done to a log, in whatever order, it holds what a list of batches would."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcli.config.topic import LogConfig
from kcli.protocol.batches.batch import iter_batches
from kcli.storage.log.log import PartitionLog
from rigs.examples import examples
from rigs.logs import START_MS, LogRig, append_client, append_replicated, batch_of, contents
from rigs.steps import last_of
from simulation.runtime.disk import SimDisk

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ModelBatch:
    base_offset: int
    values: tuple[bytes, ...]
    timestamp_ms: int
    epoch: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogMachine(RuleBasedStateMachine):
    log: PartitionLog
    rig: LogRig

    @initialize(
        segment_bytes=st.integers(200, 2000),
        index_interval=st.integers(0, 500),
        segment_ms=st.sampled_from([50, 10_000]),
        preallocate=st.booleans(),
    )
    def create(self, segment_bytes: int, index_interval: int, segment_ms: int, preallocate: bool) -> None:
        config = LogConfig(
            internal_segment_bytes=segment_bytes,
            index_interval_bytes=index_interval,
            segment_ms=segment_ms,
            retention_bytes=3 * segment_bytes,
            retention_ms=DAY_MS,
            preallocate=preallocate,
            file_delete_delay_ms=0,
        )
        self.rig = LogRig(SimDisk(), config=config)
        self.log = self.rig.create()
        self.batches: list[ModelBatch] = []
        self.start = self.end = self.high_watermark = self.epoch = 0

    # --- what a leader does

    @rule(
        values=st.lists(st.binary(max_size=12), min_size=1, max_size=4),
        later_ms=st.integers(-30, 30),
        new_epoch=st.booleans(),
    )
    def append(self, values: list[bytes], later_ms: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        batch = ModelBatch(self.end, tuple(values), START_MS + later_ms, self.epoch)
        result = append_client(
            self.log,
            batch_of(values, timestamp_ms=batch.timestamp_ms),
            leader_epoch=self.epoch,
            now_ms=START_MS,
        )
        assert (result.base_offset, result.last_offset) == (self.end, batch.next_offset - 1)
        self.batches.append(batch)
        self.end = batch.next_offset

    @rule(gap=st.integers(0, 50), values=st.lists(st.binary(max_size=5), min_size=1, max_size=3))
    def replicate(self, gap: int, values: list[bytes]) -> None:
        batch = ModelBatch(self.end + gap, tuple(values), START_MS, self.epoch)
        content = batch_of(values, base_offset=batch.base_offset, leader_epoch=self.epoch)
        append_replicated(self.log, content, leader_epoch=-1, now_ms=START_MS)
        self.batches.append(batch)
        self.end = batch.next_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(up=st.integers(0, 20))
    def commit(self, up: int) -> None:
        self.high_watermark = min(self.high_watermark + up, self.end)
        self.log.set_high_watermark(self.high_watermark)

    # --- what takes away

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.high_watermark))
        self.start = max(self.start, offset)
        assert self.log.delete_records_before(offset) == self.start

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        if offset == self.end:
            self.log.truncate_to(offset)
            return
        first_base = self.log.segments[0].base_offset
        self.log.truncate_to(offset)
        kept = [batch for batch in self.batches if batch.next_offset <= offset]
        self.batches = kept if offset >= first_base else []
        self.end = offset
        self.start = min(self.start, offset) if offset >= first_base else offset
        self.high_watermark = min(self.high_watermark, self.end)

    @rule(later_ms=st.sampled_from([0, DAY_MS + 100]))
    def retain(self, later_ms: int) -> None:
        before = self.log.size_bytes
        self.log.delete_old_segments(START_MS + later_ms)
        assert self.log.size_bytes <= before
        moved = self.log.log_start_offset
        assert self.start <= moved <= max(self.high_watermark, self.start)
        self.start = moved
        self.batches = [batch for batch in self.batches if batch.next_offset > moved]
        self.rig.directory.deletions.run()

    # --- what should change nothing

    @rule()
    def flush(self) -> None:
        self.log.durability.flush()
        assert self.log.durability.recovery_point == self.end

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        point, start, end = (
            self.log.durability.recovery_point,
            self.log.log_start_offset,
            self.log.log_end_offset,
        )
        empty_end = self.log.segments[-1].base_offset
        self.log.close(clean=clean)
        self.log = self.rig.load(clean=clean, recovery_point=point, log_start_offset=start)
        last = max([empty_end, start, *(batch.next_offset for batch in self.batches)])
        if self.log.log_end_offset != end:
            # A gap at the end, left by a truncation inside a batch, is no place on disk: Kafka forgets it, too.
            assert self.log.log_end_offset == last
            self.end = last
            self.start = self.log.log_start_offset
        self.log.set_high_watermark(min(self.high_watermark, self.end))
        self.high_watermark = self.log.high_watermark

    @precondition(lambda self: self.batches)
    @rule()
    def forget(self) -> None:
        """The tail is looked up in indexes and files, as after a restart."""
        for segment in self.log.segments:
            segment.forget()

    # --- what must hold

    @invariant()
    def bounds(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.log_start_offset <= log.last_stable_offset == log.high_watermark <= log.log_end_offset

    @invariant()
    def segments_are_in_order(self) -> None:
        segments = self.log.segments
        assert segments
        for segment, following in pairwise(segments):
            assert segment.base_offset < following.base_offset
            assert segment.tail()[0] <= following.base_offset

    @invariant()
    def records(self) -> None:
        expected = [
            (batch.base_offset + nth, value)
            for batch in self.batches
            for nth, value in enumerate(batch.values)
            if batch.base_offset + nth >= self.start
        ]
        assert contents(self.log, max_bytes=300, may_end_early=True) == expected

    @invariant()
    def times(self) -> None:
        for after_ms in (-31, -1, 0, 5):
            wanted = START_MS + after_ms
            found = last_of(self.log.search_timestamp(wanted))
            hits = [
                max(batch.base_offset, self.start)
                for batch in self.batches
                if batch.timestamp_ms >= wanted and batch.next_offset > self.start
            ]
            assert (None if found is None else found.offset) == (min(hits) if hits else None)

    @invariant()
    def epochs(self) -> None:
        for batch in self.batches:
            if batch.base_offset >= self.start:
                assert self.log.leader_epochs.epoch_for_offset(batch.base_offset) == batch.epoch
        content = b"".join(
            self.log.segments[nth].log.file().read_at(0, self.log.segments[nth].size_bytes)
            for nth in range(len(self.log.segments))
        )
        assert all(header.partition_leader_epoch <= self.epoch for _, header in iter_batches(content))


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=examples(100),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
