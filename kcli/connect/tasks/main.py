"""The life of a process that the worker has started: it runs one connector or one task."""

from __future__ import annotations

import gc
import logging
import resource
import socket
import threading
import traceback
from typing import Protocol, cast

from kcli.connect.tasks.channel import Channel, mapping
from kcli.connect.tasks.connector import serve
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.job import JobLoop
from kcli.connect.tasks.logs import log_to, set_levels
from kcli.connect.tasks.plugins import make_plugins
from kcli.connect.tasks.sinks.loop import SinkLoop
from kcli.connect.tasks.sources.loop import SourceLoop
from kcli.connect.tasks.spec import ConnectorSpec, TaskSpec, unpacked
from kcli.connect.tasks.traces import java_trace
from kcli.connectors.interface import Connector, JobTask, SinkTask, SourceTask
from kcli.formats.connect.errors import ConnectException

LOG = logging.getLogger("org.apache.kafka.connect.runtime.WorkerTask")


COLLECT_AFTER = 50_000
"""The number of new objects after which Python looks for garbage: more than a batch of records has."""


class Loop(Protocol):
    @property
    def name(self) -> str: ...
    def start(self) -> None: ...
    def run(self) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def run(sock: socket.socket) -> None:
    """Runs what the first frame says, until it ends or the worker stops it."""
    channel = Channel(sock)
    body = mapping(channel.first().body)
    log_to(channel, cast("dict[str, int]", body["levels"]))
    spec = unpacked(str(body["spec"]))
    _limit_memory(spec.memory_bytes_max)
    # A batch makes and frees many objects. A collection during a batch finds nothing, and takes half of its time.
    gc.set_threshold(COLLECT_AFTER)
    if isinstance(spec, ConnectorSpec):
        serve(spec, channel)
    else:
        _run_task(spec, channel)


def _limit_memory(bytes_max: int) -> None:
    """Limits the private memory of this process. An allocation beyond the limit raises MemoryError."""
    if bytes_max:
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_max, bytes_max))


def _run_task(spec: TaskSpec, channel: Channel) -> None:
    """Reports `built`, then `started`, and at the end `failed` or `stopped`."""
    control = Control(is_paused=spec.is_paused)
    channel.listen(lambda method, body: _handle(channel, control, method, body))
    failure: BaseException | None = None
    try:
        loop = _build(spec, channel, control)
    except BaseException as error:  # a plugin may raise SystemExit, which is no order of the worker
        failure = error
    else:
        channel.note("built")
        failure = _live(loop, channel, control)
    if failure is None:
        channel.note("stopped")
    else:
        channel.note("failed", {"trace": java_trace(failure)})


def _handle(channel: Channel, control: Control, method: str, body: object) -> None:
    if method == "levels":
        set_levels(cast("dict[str, int]", body))
    elif method == "lease":
        channel.lease_end_s = cast("float", body)
    else:
        control.handle(method, body)


def _build(spec: TaskSpec, channel: Channel, control: Control) -> Loop:
    """Makes the task and its converters and transformations."""
    connector = cast("type[Connector]", spec.plugin.load())
    task = connector.task_class()
    if isinstance(task, JobTask):
        return JobLoop(spec, channel, control, task)
    plugins = make_plugins(spec)
    if spec.source is not None:
        if not isinstance(task, SourceTask):
            raise ConnectException(f"{type(task).__qualname__} is not a SourceTask")
        return SourceLoop(spec, channel, control, task, plugins)
    if not isinstance(task, SinkTask):
        raise ConnectException(f"{type(task).__qualname__} is not a SinkTask")
    return SinkLoop(spec, channel, control, task, plugins)


def _live(loop: Loop, channel: Channel, control: Control) -> BaseException | None:
    """Runs a task to its end. Returns the error that has ended it, or None if the worker has stopped it."""
    ending = _Ending(loop)
    failure: BaseException | None = None
    try:
        if control.is_paused:
            channel.note("paused")
            control.wait_while_paused()
        if not control.is_stopping:
            ending.is_due = True
            if isinstance(loop, SourceLoop):
                control.on_stop = ending.stop  # ends a `poll` that waits
            loop.start()
            channel.note("started")
            loop.run()
    except BaseException as error:
        failure = error
        # A task that needs too much memory leaves some for the report and its end: the locals of its code are freed.
        traceback.clear_frames(error.__traceback__)
        _log_failure(loop, error, is_stopping=control.is_stopping)
    ending.stop()
    try:
        loop.close()
    except BaseException:
        LOG.warning("%s could not close its plugins", loop.name, exc_info=True)
    return None if control.is_stopping else failure


def _log_failure(loop: Loop, error: BaseException, *, is_stopping: bool) -> None:
    if is_stopping:
        # The order to stop may have closed what `poll` was waiting for.
        LOG.info("%s ended with an error while it stopped: %s", loop.name, error)
        return
    LOG.error(
        "%s Task threw an uncaught and unrecoverable exception. Task is being killed and will not recover until "
        "manually restarted",
        loop.name,
        exc_info=error,
    )


class _Ending:
    """Stops a task that was started, once: at the order of the worker, or when its loop has ended."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._stopping = threading.Lock()
        self.is_due = False

    def stop(self) -> None:
        with self._stopping:  # the process must not end while the other thread stops the task
            if not self.is_due:
                return
            self.is_due = False
            try:
                self._loop.stop()
            except BaseException:
                LOG.warning("Could not stop task", exc_info=True)
