"""One log directory: its state (online or offline), and the objects that its logs share.

The first OSError of any log in a directory takes the whole directory offline. After the error every call on a log of
this directory raises StorageError. Other directories stay in use. An error that reports too few descriptors or too
little memory is an exception: it is raised as ShortageError, and the directory stays online. This holds before a
change has begun. In the middle of a change, a shortage is a failure like any other.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from kcli.errors import ShortageError, StorageError
from kcli.model.java_text import natural
from kcli.model.observations import Observations
from kcli.runtime.descriptors import is_shortage
from kcli.runtime.disk import Disk
from kcli.runtime.limited_lines import LimitedLines
from kcli.storage.epoch_flushes import EpochFlushes
from kcli.storage.files import HandlePool

_log = logging.getLogger(__name__)

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"

MAX_NAME_LENGTH = 255
"""The longest file name that usual file systems allow."""


_SUFFIXED = re.compile(r"(\S+)-(\S+)\.(\S+)(-delete|-stray|-future)")

Background = Callable[[Callable[[], None]], object]
"""A function that starts blocking work, such as a flush, in another thread."""


@dataclass(frozen=True, slots=True)
class AppendWatch:
    """Measures the appends to the logs of a directory. `add` is called with the duration of each append in seconds."""

    now: Callable[[], float]
    add: Callable[[float], None]


class LogDirectory:
    """A directory of `log.dirs`, online until `failed` is called."""

    def __init__(
        self,
        path: str,
        pool: HandlePool,
        *,
        background: Background,
        monotonic: Callable[[], float],
        on_failure: Callable[[LogDirectory, StorageError], None] | None = None,
        flushes_ms: Observations | None = None,
    ) -> None:
        """Makes an object for a directory. `monotonic` is the clock for the delay of deletions. `flushes_ms` collects
        the duration of each flush of a log."""
        self.flushes_ms = flushes_ms or Observations()
        self.appends: AppendWatch | None = None
        self.path = path
        self.pool = pool
        self.disk: Disk = pool.disk
        self.background = background
        self.id: uuid.UUID | None = None
        self.error: StorageError | None = None
        self.open_logs = 0  # a new log is made in the directory with the fewest open logs
        self.deletions = DeletionQueue(self, monotonic)
        self.epochs = EpochFlushes(self)
        self._monotonic = monotonic
        self.checkpointing = threading.Lock()  # held while a thread writes checkpoints
        # Held by the background job and by a flush while they write the files of a new log.
        self.settling = threading.Lock()
        self._on_failure = on_failure
        self._guard = threading.Lock()
        self._shortages = LimitedLines()

    def failed(self, cause: Exception, *, half_done: bool = False) -> StorageError:
        """Takes the directory offline. Returns the error that the caller must raise.

        A shortage of descriptors or memory says nothing about the disk. The directory then stays online, unless
        `half_done` is True: a change has begun and cannot be repeated.
        """
        if is_shortage(cause) and not half_done:
            self._note_shortage(cause)
            return ShortageError(f"Log directory {self.path}: {cause}")
        if isinstance(cause, ShortageError):
            return cause
        error = (
            cause if isinstance(cause, StorageError) else StorageError(f"Log directory {self.path}: {cause}")
        )
        with self._guard:
            if self.error is not None:
                return self.error
            self.error = error
        _log.error("Log directory %s is offline: %s", self.path, cause)
        if self._on_failure is not None:
            self._on_failure(self, error)
        return error

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Guards a change that cannot be repeated after its first step. Every OSError in it takes the directory
        offline, even a shortage, because the files no longer agree with the log in memory."""
        try:
            yield
        except OSError as error:
            raise self.failed(error, half_done=True) from error

    def _note_shortage(self, cause: Exception) -> None:
        with self._guard:
            ending = self._shortages.ending(self._monotonic())
        if ending is not None:
            _log.error("A file of log directory %s cannot be used now: %s%s", self.path, cause, ending)

    def opened(self) -> None:
        """Counts a log that was opened. May be called in any thread."""
        with self._guard:
            self.open_logs += 1

    def closed(self, log_path: str) -> LogDirectory:
        """Counts a log that was closed. Returns an object that replaces the directory in the closed log. With it, every
        later call on the closed log raises an error that does not take the real directory offline."""
        with self._guard:
            self.open_logs -= 1
        directory = LogDirectory(self.path, self.pool, background=self.background, monotonic=self._monotonic)
        directory.error = StorageError(f"The log {log_path} is closed")
        # The new object shares these queues. New queues would refer to it, and it to them, which would be reference
        # cycles.
        directory.deletions, directory.epochs = self.deletions, self.epochs
        return directory

    def check(self) -> None:
        if self.error is not None:
            raise StorageError(f"Log directory {self.path} is offline: {self.error}")


class InDirectory(Protocol):
    @property
    def directory(self) -> LogDirectory: ...


S = TypeVar("S", bound=InDirectory)
P = ParamSpec("P")
R = TypeVar("R")


def on_disk(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorates a method that uses files. An OSError in the method takes the directory offline. The method raises
    StorageError if the directory is offline or goes offline."""

    @functools.wraps(method)
    def guarded(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.directory.error is not None:
            self.directory.check()
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            raise self.directory.failed(error) from error

    return guarded


class DeletionQueue:
    """The queue of files that were renamed to `.deleted` and of directories that were renamed to `-delete`.

    Each of them is removed after a delay of `file.delete.delay.ms`. During this time, readers of an old segment can
    finish. A jump of the wall clock does not change the delays.
    """

    def __init__(self, directory: LogDirectory, monotonic: Callable[[], float]) -> None:
        self._directory = directory
        self._monotonic = monotonic
        self._queue: list[tuple[int, str]] = []
        self._guard = threading.Lock()

    def add(self, paths: Iterable[str], delay_ms: int) -> None:
        due_ms = self._now_ms() + delay_ms
        with self._guard:
            for path in paths:
                heapq.heappush(self._queue, (due_ms, path))

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_due(self) -> bool:
        """Whether the delay of a file or directory is over."""
        with self._guard:
            return bool(self._queue) and self._queue[0][0] <= self._now_ms()

    def run(self) -> int:
        """Removes the files and directories whose delay is over. Returns their number. May block."""
        removed, now_ms = 0, self._now_ms()
        while self._directory.error is None:
            with self._guard:
                if not self._queue or self._queue[0][0] > now_ms:
                    break
                _due_ms, path = heapq.heappop(self._queue)
            try:
                if path.endswith(DELETE_SUFFIX):
                    self._directory.disk.remove_tree(path)
                else:
                    self._directory.disk.remove(path)
                removed += 1
            except FileNotFoundError:
                pass  # the directory of the file was deleted meanwhile
            except OSError as error:
                self._directory.failed(error)
        return removed

    def _now_ms(self) -> int:
        return round(self._monotonic() * 1000)


def partition_dir_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_dir_name(name: str) -> tuple[str, int, str] | None:
    """The topic, partition and suffix in the name of a partition's directory. The suffix is '', -delete, -stray or
    -future."""
    suffix = ""
    if name.endswith((DELETE_SUFFIX, STRAY_SUFFIX, FUTURE_SUFFIX)):
        match = _SUFFIXED.fullmatch(name)
        if match is None:
            return None
        suffix = match[4]
        name = name.rpartition(".")[0]
    topic, dash, partition = name.rpartition("-")
    number = natural(partition)
    if not dash or not topic or number is None:
        return None
    return topic, number, suffix


def suffixed_dir_name(topic: str, partition: int, unique: uuid.UUID, suffix: str) -> str:
    """Makes a directory name for a deleted partition, a stray partition (not in the metadata), or a future copy."""
    ending = f"-{partition}.{unique.hex}{suffix}"
    if suffix == FUTURE_SUFFIX:
        name = topic + ending
        if len(name) > MAX_NAME_LENGTH:
            raise ValueError(
                f"'{name}' is {len(name)} characters long; a directory may have {MAX_NAME_LENGTH}"
            )
        return name
    return topic[: MAX_NAME_LENGTH - len(ending)] + ending
