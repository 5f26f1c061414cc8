"""The loop of a sink task: poll, convert, transform, put, and commit offsets (WorkerSinkTask in Java)."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.conversion import SinkConversion
from kcli.connect.tasks.metrics import Attributes, Sizes, TaskMetrics, Total
from kcli.connect.tasks.plugins import Plugins
from kcli.connect.tasks.reports import DeadLetters, SinkErrorReporter, reporters
from kcli.connect.tasks.sinks.consuming import UNKNOWN_OFFSET, SinkConsumer
from kcli.connect.tasks.sinks.context import SinkContext
from kcli.connect.tasks.sinks.offsets import SinkOffsets
from kcli.connect.tasks.spec import TaskSpec
from kcli.connect.tasks.tolerance import Stopping, Tolerance, is_retriable
from kcli.connect.tasks.topics import UsedTopics
from kcli.connectors.interface import Offsets as GivenOffsets
from kcli.connectors.interface import SinkTask
from kcli.connectors.records import SinkRecord
from kcli.errors import KafkaError
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition

LOG = logging.getLogger("org.apache.kafka.connect.runtime.WorkerSinkTask")


class SinkLoop:
    """Runs a sink task until the worker stops it, or it fails."""

    def __init__(
        self, spec: TaskSpec, channel: Channel, control: Control, task: SinkTask, plugins: Plugins
    ) -> None:
        self._spec = spec
        self._channel = channel
        self._control = control
        self._task = task
        self._plugins = plugins
        self._tolerance = Tolerance(spec.errors, control)
        self._conversion: SinkConversion
        self._consumer: SinkConsumer
        self._context: SinkContext
        self._letters: DeadLetters | None = None
        self._offsets = SinkOffsets()
        self._batch: Sequence[SinkRecord] = ()
        self._after_batch: dict[TopicPartition, int] = {}
        self._waits_for_retry = False
        self._is_paused = False
        self._next_commit = 0.0
        self._commit_number = 0
        self._commits: deque[_Commit] = deque()
        self._used_topics = UsedTopics(channel)
        self._metrics = TaskMetrics()
        self._read, self._sent = Total(), Total()
        self._completed, self._skipped = Total(), Total()
        self._put_ms, self._active = Sizes(), Sizes()

    @property
    def name(self) -> str:
        return f"WorkerSinkTask{{id={self._spec.id}}}"

    def start(self) -> None:
        """Connects and starts the task."""
        sink = self._spec.sink
        assert sink is not None
        errors = self._tolerance
        errors.reporters, self._letters = reporters(self._spec, self._channel, errors.counts)
        self._conversion = SinkConversion(self._plugins, errors, reportable=bool(errors.reporters))
        self._consumer = SinkConsumer(sink, self)
        config = dict(self._spec.plugin.config)
        reporter = SinkErrorReporter(errors, self._letters) if errors.reporters else None
        self._context = SinkContext(config, self._consumer, self._is_held, reporter)
        self._task.context = self._context
        self._consumer.subscribe()
        self._task.start(config)
        self._next_commit = time.monotonic() + self._interval_s
        LOG.info("%s Sink task finished initialization and start", self.name)

    def run(self) -> None:
        try:
            while not self._control.is_stopping:
                self._iterate()
        except Stopping:
            self._end()
        except BaseException:
            try:
                self._end()
            except Exception as error:
                LOG.warning("%s failed to close its partitions", self.name, exc_info=error)
            raise
        else:
            self._end()

    def _end(self) -> None:
        """Commits what the task has written, and leaves the group."""
        try:
            self._close(list(self._offsets.current))
        finally:
            self._consumer.close()

    @property
    def _interval_s(self) -> float:
        return self._spec.offset_flush_interval_ms / 1000

    def _iterate(self) -> None:
        now = time.monotonic()
        if not self._commits and (self._context.wants_commit or now >= self._next_commit):
            self._commit(list(self._offsets.current), closing=False)
            self._next_commit = now + self._interval_s
            self._context.wants_commit = False
        if self._commits and now >= self._commits[0].started + self._spec.offset_flush_timeout_ms / 1000:
            LOG.warning("%s Commit of offsets timed out", self.name)
            late = self._commits.popleft()
            late.timed_out = True
            self._metrics.committed(now - late.started, failed=True)
        self._apply_pause()
        self._poll(max(self._next_commit - now, 0.0))
        self._report()

    def _apply_pause(self) -> None:
        """Pauses or resumes all partitions, as the worker wants."""
        if self._control.is_paused == self._is_paused:
            return
        self._is_paused = self._control.is_paused
        if self._is_paused:
            self._consumer.pause(self._consumer.assignment)
            self._context.wants_commit = True
        elif not self._waits_for_retry:
            self._resume_all()
        self._channel.note("paused" if self._is_paused else "resumed")

    def _is_held(self) -> bool:
        return self._is_paused or self._waits_for_retry

    def _resume_all(self) -> None:
        self._consumer.resume(self._consumer.assignment - self._context.paused)

    def _poll(self, timeout_s: float) -> None:
        self._rewind()
        if self._context.timeout_ms > 0:
            timeout_s = min(timeout_s, self._context.timeout_ms / 1000)
            self._context.timeout_ms = -1
        messages = self._consumer.poll(timeout_s, self._is_interrupted)
        if messages:
            self._read.value += len(messages)
            self._after_batch |= {
                TopicPartition(message.topic(), message.partition()): message.offset() + 1
                for message in messages
            }
            self._use_topics()
            # A waiting batch stays, because `_after_batch` includes its offsets.
            self._batch = [*self._batch, *self._conversion.convert(messages)]
        self._put()

    def _is_interrupted(self) -> bool:
        """Whether the wait for records must end: the worker or the task wants something."""
        return (
            self._control.is_stopping
            or self._context.wants_commit
            or self._control.is_paused != self._is_paused
        )

    def _use_topics(self) -> None:
        self._used_topics.add({partition.topic for partition in self._after_batch})

    def _put(self) -> None:
        self._metrics.batch_size.add(len(self._batch))
        started = time.monotonic()
        try:
            self._task.put(self._batch)
        except Exception as error:
            self._handle_put_error(error)
            return
        self._put_ms.add((time.monotonic() - started) * 1000)
        self._sent.value += len(self._batch)
        # A partition that was revoked meanwhile is not in `current` any more.
        self._offsets.current |= {
            partition: offset
            for partition, offset in self._after_batch.items()
            if partition in self._offsets.current
        }
        self._after_batch = {}
        self._batch = ()
        if self._waits_for_retry:
            self._waits_for_retry = False
            if not self._is_paused:
                self._resume_all()

    def _handle_put_error(self, error: Exception) -> None:
        if is_retriable(error):
            LOG.error("%s RetriableException from SinkTask:", self.name, exc_info=error)
            self._waits_for_retry = True
            self._consumer.pause(self._consumer.assignment)
            return
        LOG.error(
            "%s Task threw an uncaught and unrecoverable exception. Task is being killed and will not recover until "
            "manually restarted. Error: %s",
            self.name,
            error,
            exc_info=error,
        )
        raise ConnectException("Exiting WorkerSinkTask due to unrecoverable exception.") from error

    def _rewind(self) -> None:
        """Reads on from the offsets that the task has set."""
        rewinds, self._context.rewinds = self._context.rewinds, {}
        for partition, offset in rewinds.items():
            if partition in self._consumer.assignment:
                self._consumer.seek(partition, offset)
                self._offsets.assigned({partition: offset})

    def _commit(self, partitions: Collection[TopicPartition], *, closing: bool) -> None:
        """Commits what the task permits for these partitions: in the background, except when they are closed."""
        offsets = self._offsets.of(partitions)
        if not offsets:
            return
        if self._letters is not None:
            self._letters.flush()  # an offset must not be committed before the dead letter of its record is written
        self._commit_number += 1
        started = time.monotonic()
        try:
            offered = self._task.pre_commit(dict(offsets))
        except Exception as error:
            self._handle_commit_error(error, partitions, closing=closing)
            self._metrics.committed(time.monotonic() - started, failed=True)
            return
        finally:
            if closing:
                self._task.close(list(partitions))
        committable = self._offsets.committable(self.name, _by_partition(offered), partitions)
        if not committable:
            self._metrics.committed(time.monotonic() - started, failed=False)
            return
        commit = _Commit(self._commit_number, started, committable)
        if closing:
            self._completed_commit(commit, self._consumer.commit(committable))
        else:
            self._commits.append(commit)
            self._consumer.commit_in_background(
                committable, lambda error: self._completed_commit(commit, error)
            )

    def _handle_commit_error(
        self, error: Exception, partitions: Collection[TopicPartition], *, closing: bool
    ) -> None:
        if closing:
            LOG.warning("%s Offset commit failed during close", self.name, exc_info=error)
            return
        LOG.error("%s Offset commit failed, rewinding to last committed offsets", self.name, exc_info=error)
        for partition in partitions:
            if (offset := self._offsets.committed.get(partition)) is not None:
                if offset == UNKNOWN_OFFSET:
                    raise ConnectException(
                        f"The last committed offset of {partition} is not known"
                    ) from error
                self._consumer.seek(partition, offset)
                self._offsets.current[partition] = offset

    def _completed_commit(self, commit: _Commit, error: KafkaError | None) -> None:
        """Takes the result of a commit. A result after the time-out changes nothing."""
        if commit.timed_out:
            self._skipped.value += 1
            return
        if commit in self._commits:
            self._commits.remove(commit)
        failed = error is not None
        self._metrics.committed(time.monotonic() - commit.started, failed=failed)
        if failed:
            LOG.error(
                "%s Commit of offsets threw an unexpected exception for sequence number %s: %s",
                self.name, commit.number, commit.offsets, exc_info=error,
            )  # fmt: skip
            return
        self._completed.value += 1
        self._offsets.committed |= {
            partition: offset
            for partition, offset in commit.offsets.items()
            if partition in self._offsets.committed
        }

    # The consumer calls these three methods while it polls.

    def assigned(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Opens partitions. Returns the offsets from which to read, which the task may change."""
        self._offsets.assigned(offsets)
        self._task.open(list(offsets))
        rewinds, self._context.rewinds = self._context.rewinds, {}
        places = {partition: rewinds.get(partition, offset) for partition, offset in offsets.items()}
        self._offsets.assigned(places)
        return places

    def positioned(self) -> None:
        """The consumer reads from its new partitions now, unless they must be paused."""
        if self._is_held():
            self._consumer.pause(self._consumer.assignment)
        else:
            self._context.paused &= self._consumer.assignment
            self._consumer.pause(self._context.paused)

    def revoked(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """Closes partitions. If they are lost, another task may have them already, so nothing is committed."""
        if lost:
            self._task.close(list(partitions))
            self._forget(partitions)
        else:
            self._close(partitions)

    def _close(self, partitions: Collection[TopicPartition]) -> None:
        self._commit(partitions, closing=True)
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._offsets.removed(partitions)
        self._context.paused.difference_update(partitions)
        gone = set(partitions)
        self._after_batch = {
            partition: offset for partition, offset in self._after_batch.items() if partition not in gone
        }
        self._batch = [
            record
            for record in self._batch
            if TopicPartition(record.original_topic, record.original_partition) not in gone
        ]

    def stop(self) -> None:
        """Closes what the task has opened, when the loop has ended."""
        self._task.stop()
        if self._letters is not None:
            self._letters.flush()

    def close(self) -> None:
        self._plugins.close()

    def _report(self) -> None:
        self._active.add(len(self._batch))
        self._metrics.report(self._channel, self._tolerance.counts, "sink-task-metrics", self._own_metrics)

    def _own_metrics(self) -> Attributes:
        return {
            **self._read.attributes("sink-record-read"),
            **self._sent.attributes("sink-record-send"),
            **self._put_ms.attributes("put-batch", "-time-ms"),
            **self._active.attributes("sink-record-active-count"),
            **self._completed.attributes("offset-commit-completion"),
            **self._skipped.attributes("offset-commit-skip"),
            "sink-record-active-count": len(self._batch),
            "partition-count": len(self._offsets.current),
            "offset-commit-seq-no": self._commit_number,
        }


@dataclass(slots=True, eq=False)
class _Commit:
    """A commit in the background."""

    number: int
    started: float
    offsets: dict[TopicPartition, int]
    timed_out: bool = False


def _by_partition(offsets: GivenOffsets | None) -> dict[TopicPartition, int]:
    return {TopicPartition(*partition): offset for partition, offset in (offsets or {}).items()}
