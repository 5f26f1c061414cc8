"""The loop of a source task: poll, transform, convert, send, and store offsets (WorkerSourceTask in Java)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.conversion import SourceConversion
from kcli.connect.tasks.metrics import Attributes, Sizes, TaskMetrics, Total
from kcli.connect.tasks.plugins import Plugins
from kcli.connect.tasks.reports import reporters
from kcli.connect.tasks.sources.at_least_once import AtLeastOnce, Delivery
from kcli.connect.tasks.sources.exactly_once import ExactlyOnce
from kcli.connect.tasks.sources.producing import RecordProducer
from kcli.connect.tasks.sources.worker_offsets import WorkerOffsets
from kcli.connect.tasks.spec import TaskSpec
from kcli.connect.tasks.tolerance import Stopping, Tolerance, is_retriable
from kcli.connect.tasks.topics import TopicCreation
from kcli.connectors.interface import Config, OffsetReader, SourceTask, TransactionContext
from kcli.connectors.records import SourceRecord

LOG = logging.getLogger("org.apache.kafka.connect.runtime.AbstractWorkerSourceTask")


PAUSED_TURN_S = 1.0
"""The time between two looks at acknowledgements while a task is paused."""


@dataclass(slots=True)
class SourceContext:
    """What a source task may ask for. Implements `SourceTaskContext`."""

    config: Config
    offsets: OffsetReader
    transaction: TransactionContext | None


class SourceLoop:
    """Runs a source task until the worker stops it, or it fails."""

    def __init__(
        self, spec: TaskSpec, channel: Channel, control: Control, task: SourceTask, plugins: Plugins
    ) -> None:
        self._spec = spec
        self._channel = channel
        self._control = control
        self._task = task
        self._plugins = plugins
        self._tolerance = Tolerance(spec.errors, control)
        self._conversion = SourceConversion(plugins, self._tolerance)
        self._metrics = TaskMetrics()
        self._polled = Total()
        self._written = Total()
        self._poll_ms = Sizes()
        self._active = Sizes()
        self._delivery: Delivery
        self._class = "ExactlyOnceWorkerSourceTask" if self._transactional else "WorkerSourceTask"

    @property
    def _transactional(self) -> bool:
        return self._spec.source is not None and self._spec.source.transaction_boundary is not None

    @property
    def name(self) -> str:
        return f"{self._class}{{id={self._spec.id}}}"

    def start(self) -> None:
        """Connects and starts the task."""
        spec, channel, task = self._spec, self._channel, self._task
        source = spec.source
        assert source is not None
        producer = RecordProducer(source.producer, self._control)
        topics = TopicCreation(channel, source.topic_groups)
        self._tolerance.reporters, _ = reporters(spec, channel, self._tolerance.counts)
        transaction = None
        if self._transactional:
            exactly = ExactlyOnce(spec, channel, task, producer, topics, self._metrics)
            exactly.initialize()
            channel.ask("refresh_offsets")
            self._delivery, transaction = exactly, exactly.boundaries
        else:
            self._delivery = AtLeastOnce(
                spec, channel, task, producer, topics, self._tolerance, self._metrics
            )
        config = dict(spec.plugin.config)
        task.context = SourceContext(config, WorkerOffsets(spec.connector, channel), transaction)
        task.start(config)
        LOG.info("%s Source task finished initialization and start", self.name)

    def run(self) -> None:
        try:
            while not self._control.is_stopping:
                self._delivery.turn()
                self._report()
                if self._control.is_paused:
                    self._pause()
                    continue
                records = self._poll()
                if records is not None:
                    self._metrics.batch_size.add(len(records))
                    self._polled.value += len(records)
                    self._delivery.send(records, self._conversion.convert(records))
        except Stopping:
            self._delivery.finish(failed=False)
        except BaseException:
            try:
                self._delivery.finish(failed=True)
            except Exception as error:
                LOG.warning("%s could not end its work", self.name, exc_info=error)
            raise
        else:
            self._delivery.finish(failed=False)

    def _poll(self) -> Sequence[SourceRecord] | None:
        started = time.monotonic()
        try:
            records = self._task.poll()
        except Exception as error:
            if not is_retriable(error):
                raise
            LOG.warning(
                "%s failed to poll records from SourceTask. Will retry operation.", self.name, exc_info=error
            )
            return None
        if records is not None:
            self._poll_ms.add((time.monotonic() - started) * 1000)
        return records

    def _pause(self) -> None:
        self._channel.note("paused")
        started = time.monotonic()
        while self._control.is_paused and not self._control.is_stopping:
            # Records that were sent before may still be acknowledged, and their offsets are stored.
            self._delivery.turn()
            self._report()
            self._control.wait(PAUSED_TURN_S)
        self._metrics.paused_s += time.monotonic() - started
        if not self._control.is_stopping:
            self._channel.note("resumed")

    def _report(self) -> None:
        self._written.value = self._delivery.written
        self._active.add(self._delivery.active)
        self._metrics.report(self._channel, self._tolerance.counts, "source-task-metrics", self._own_metrics)

    def _own_metrics(self) -> Attributes:
        own = {
            **self._polled.attributes("source-record-poll"),
            **self._written.attributes("source-record-write"),
            **self._poll_ms.attributes("poll-batch", "-time-ms"),
            **self._active.attributes("source-record-active-count"),
            "source-record-active-count": self._delivery.active,
        }
        if isinstance(self._delivery, ExactlyOnce):
            own |= self._delivery.transaction_sizes.attributes("transaction-size")
            own["transaction-size-min"] = self._delivery.transaction_sizes.minimum()
        return own

    def close(self) -> None:
        self._plugins.close()

    def stop(self) -> None:
        """Asks the task to end `poll`. Called from the thread that reads the channel, and at the end of a failure."""
        self._task.stop()
