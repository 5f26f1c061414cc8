"""The loop of a task whose records another program moves: it follows the program, and copies its offsets."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Protocol

from kcli.connect.decisions.offset_records import offset_key, offset_value
from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.group_commits import GroupCommits
from kcli.connect.tasks.metrics import TaskMetrics
from kcli.connect.tasks.sources.worker_offsets import store_offsets
from kcli.connect.tasks.spec import SinkSpec, TaskSpec
from kcli.connect.tasks.tolerance import ErrorCounts
from kcli.connect.tasks.topics import UsedTopics
from kcli.connectors.interface import Config, JobProgress, JobTask, Offsets
from kcli.formats.connect.errors import ConnectException

LOG = logging.getLogger("org.apache.kafka.connect.runtime.WorkerTask")

CHECK_S = 0.5
"""The time between two looks at the program."""


class Commits(Protocol):
    """Commits offsets of a group in the background."""

    def commit(self, offsets: Offsets) -> None: ...
    def turn(self) -> bool: ...
    def close(self, timeout_s: float) -> None: ...


@dataclass(slots=True)
class JobContext:
    """What a task of a program may ask for. Implements `JobTaskContext`."""

    config: Config
    client: Config


class JobLoop:
    """Follows a program until the worker stops the task, or the program fails."""

    def __init__(self, spec: TaskSpec, channel: Channel, control: Control, task: JobTask) -> None:
        self._spec = spec
        self._channel = channel
        self._control = control
        self._task = task
        self._metrics = TaskMetrics()
        self._topics = UsedTopics(channel)
        self._commits: Commits | None = None
        self._stored = JobProgress()
        self._due = 0.0

    @property
    def name(self) -> str:
        return f"WorkerJobTask{{id={self._spec.id}}}"

    def start(self) -> None:
        """Starts the program."""
        spec = self._spec
        if spec.sink is not None:
            client = spec.sink.consumer
            self._commits = self._group(spec.sink)
        else:
            assert spec.source is not None
            client = spec.source.producer
            if spec.source.transaction_boundary is not None and not self._channel.ask("may_start"):
                raise ConnectException(
                    f"Task {spec.id} is of an older generation, and another one replaces it"
                )
        config = dict(spec.plugin.config)
        self._task.context = JobContext(config, client)
        self._task.start(config)

    def _group(self, sink: SinkSpec) -> Commits:
        return GroupCommits(sink.consumer)

    def run(self) -> None:
        try:
            while not self._control.is_stopping:
                if self._control.is_paused:
                    self._pause()
                    continue
                self._task.check()
                self._copy_if_due()
                self._metrics.report(self._channel, ErrorCounts(), self._group_of_metrics, dict)
                self._control.wait(CHECK_S)
            self._task.stop()
        finally:
            self._copy()  # what the program has done in its last moments
            if self._commits is not None:
                self._commits.close(self._spec.offset_flush_timeout_ms / 1000)

    @property
    def _group_of_metrics(self) -> str:
        return "sink-task-metrics" if self._spec.sink is not None else "source-task-metrics"

    def _pause(self) -> None:
        """Stops the program, because it cannot rest, and starts it again when the task is resumed."""
        self._task.stop()
        self._copy()
        self._channel.note("paused")
        started = time.monotonic()
        self._control.wait_while_paused()
        self._metrics.paused_s += time.monotonic() - started
        if not self._control.is_stopping:
            self._task.start(dict(self._spec.plugin.config))
            self._channel.note("resumed")

    def _copy_if_due(self) -> None:
        if self._commits is not None and not self._commits.turn():
            self._stored = JobProgress()  # the next copy repeats the commit
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._spec.offset_flush_interval_ms / 1000
            self._copy()

    def _copy(self) -> None:
        """Copies the offsets. An error only delays the copy, because the program has its own offsets."""
        started = time.monotonic()
        progress = self._task.progress()
        self._topics.add(progress.topics)
        if progress == self._stored:
            return
        try:
            if self._commits is not None:
                self._commits.commit(progress.topic_offsets)
            elif progress.source_offsets:
                self._store(progress)
        except ConnectException:
            LOG.warning("%s Failed to copy the offsets of the program", self.name, exc_info=True)
            self._metrics.committed(time.monotonic() - started, failed=True)
        else:
            self._stored = progress
            self._metrics.committed(time.monotonic() - started, failed=False)

    def _store(self, progress: JobProgress) -> None:
        """Stores source offsets through the worker."""
        entries = {
            offset_key(self._spec.connector, partition): offset_value(offset)
            for partition, offset in progress.source_offsets
        }
        store_offsets(self._channel, entries, self._spec.offset_flush_timeout_ms / 1000)

    def stop(self) -> None:
        """Stops the program, if the loop has not done it."""
        self._task.stop()

    def close(self) -> None:
        """Nothing is open, because the program converts its records itself."""
