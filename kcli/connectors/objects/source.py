"""The source of objects: reads them to topics, and looks for new ones.

Each task lists the store, and reads the objects of its share. So a new object needs no new tasks. The objects of one
partition of a topic have one task, which reads them in the order of their offsets.
"""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from kcli.config.definition import ConfigError
from kcli.connectors.interface import Config, Offset, Partition, SourceConnector, SourceTask
from kcli.connectors.objects.codecs import read_values
from kcli.connectors.objects.formats import format_named
from kcli.connectors.objects.names import Layout
from kcli.connectors.objects.source_keys import SOURCE_KEYS, TASK_COUNT, TASK_NUMBER, TOPIC, SourceSettings
from kcli.connectors.objects.store import StoreError
from kcli.connectors.objects.store_keys import FORMAT, open_store, store_errors, store_url
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import parse_int

STORE, NAME = "store", "object"
"""The keys of a source partition."""
POSITION, COMPLETE = "position", "complete"
"""The keys of an offset: the records that were read, and whether the object has no more."""
_log = logging.getLogger("kcli.connectors.objects")
_WAIT_S = 1.0
_FAILURES_MAX = 10
"""The attempts in a row after which a task fails. They take about a minute."""
_PAUSE_S, _PAUSE_MAX_S = 0.1, 10.0
"""The first pause after an error of the store, which doubles each time, and the longest."""


@dataclass(slots=True)
class _OpenObject:
    """An object that is being read. `following` is the next value, or None after the last valid one."""

    name: str
    file: IO[bytes]
    values: Iterator[SchemaAndValue]
    position: int
    topic: str
    partition: int | None
    following: SchemaAndValue | None = None
    error: Exception | None = None

    def is_at_end(self) -> bool:
        return self.following is None

    def advance(self) -> SchemaAndValue | None:
        """Returns the next value, and reads the one after it."""
        current = self.following
        try:
            self.following = next(self.values, None)
        except Exception as error:  # the libraries of formats raise many classes
            self.following, self.error = None, error
        return current


class ObjectSourceTask(SourceTask):
    """Reads objects one after the other."""

    java_class = "io.confluent.connect.s3.source.S3SourceTask"

    def start(self, config: Config) -> None:
        self._settings = SourceSettings.of(config)
        values = SOURCE_KEYS.parse(config)
        self._store = open_store(values)
        self._url = store_url(values)
        self._number, self._count = parse_int(config[TASK_NUMBER]), parse_int(config[TASK_COUNT])
        self._stopped = threading.Event()
        self._done: set[str] = set()
        self._waiting: deque[tuple[str, int]] = deque()
        self._next_look = 0.0
        self._item: _OpenObject | None = None
        self._failures = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        try:
            item = self._item or self._next_object()
            if item is None:
                self._stopped.wait(min(_WAIT_S, max(0.0, self._next_look - time.monotonic())))
                return None
            records = self._read(item)
            if not records:
                self._close(item)
        except StoreError as error:
            self._wait_for_store(error)
            return None
        self._failures = 0
        return records or None

    def stop(self) -> None:
        self._stopped.set()

    def _read(self, item: _OpenObject) -> list[SourceRecord]:
        """The next records of an object. The last one has an offset that marks the object as complete."""
        source = self._partition(item.name)
        records: list[SourceRecord] = []
        while not item.is_at_end() and len(records) < self._settings.batch_records:
            current = item.advance()
            assert current is not None, "it was the following value"
            item.position += 1
            is_complete = item.is_at_end() and (item.error is None or self._leaves_out(item.error))
            offset = {POSITION: item.position, COMPLETE: is_complete}
            records.append(
                SourceRecord(
                    source, offset, item.topic, current.value, current.schema, partition=item.partition
                )
            )
        return records

    def _next_object(self) -> _OpenObject | None:
        """Opens the next object of this task. None if all were read."""
        if not self._waiting and time.monotonic() >= self._next_look:
            self._look()
        while self._waiting and not self._stopped.is_set():
            self._item = self._opened(*self._waiting[0])
            self._waiting.popleft()
            if self._item is not None:
                return self._item
        return None

    def _look(self) -> None:
        """Lists the objects that this task has not read."""
        listed = self._store.names(self._settings.pattern)
        self._next_look = time.monotonic() + self._settings.poll_s
        names = [
            name
            for name in listed
            if name not in self._done
            and share_of(self._settings.layout, name, self._count) == self._number
            and self._is_readable(name)
        ]
        offsets = self.context.offsets.offsets([self._partition(name) for name in names])
        for name, offset in zip(names, offsets, strict=True):
            if offset is not None and offset.get(COMPLETE):
                self._done.add(name)
            else:
                self._waiting.append((name, _position(offset)))
        if self._waiting:
            _log.info("Found %d objects to read", len(self._waiting))

    def _is_readable(self, name: str) -> bool:
        """Logs an object that has no known format or no topic, and leaves it out."""
        reason = None
        if self._settings.format_of(name) is None:
            reason = f"its extension names no format: set {FORMAT}"
        elif not self._settings.topic and self._settings.layout.first_record(name) is None:
            reason = f"its name has no topic: set {TOPIC}"
        if reason is not None:
            _log.warning("The object %s is not read, because %s", name, reason)
            self._done.add(name)
        return reason is None

    def _opened(self, name: str, position: int) -> _OpenObject | None:
        first = self._settings.layout.first_record(name)
        topic, partition = self._settings.topic, None
        if not topic:
            assert first is not None, "_is_readable has checked it"
            topic, partition = first.topic, first.partition
        format = self._settings.format_of(name)
        assert format is not None, "_is_readable has checked it"
        try:
            file = self._store.open(name)
        except FileNotFoundError:
            return None  # it was removed after the look
        item = _OpenObject(name, file, iter(()), position, topic, partition)
        try:
            item.values = read_values(format, file, position)
        except Exception as error:  # as in `advance`
            item.error = error
        item.advance()
        return item

    def _close(self, item: _OpenObject) -> None:
        """Ends an object without a further value. Raises its error, or logs it."""
        item.file.close()
        self._item = None
        if isinstance(item.error, StoreError):
            self._waiting.appendleft((item.name, item.position))
            raise item.error
        self._done.add(item.name)
        if item.error is None:
            return
        text = f"The object {item.name} is invalid after {item.position} records: {item.error}"
        if not self._leaves_out(item.error):
            raise ConnectException(text) from item.error
        _log.error("%s", text)

    def _leaves_out(self, error: Exception) -> bool:
        """Whether the rest of an object is left out because of its content."""
        return self._settings.ignores_errors and not isinstance(error, StoreError)

    def _wait_for_store(self, error: StoreError) -> None:
        """Waits before the store is tried again. Raises ConnectException after some attempts."""
        self._failures += 1
        if self._failures > _FAILURES_MAX:
            raise ConnectException(f"The store failed {self._failures} times: {error}") from error
        pause_s = min(_PAUSE_S * 2 ** (self._failures - 1), _PAUSE_MAX_S)
        _log.warning("The store has failed, and is tried again in %.1f s: %s", pause_s, error)
        self._stopped.wait(pause_s)

    def _partition(self, name: str) -> Partition:
        return {STORE: self._url, NAME: name}


def _position(offset: Offset | None) -> int:
    position = 0 if offset is None else offset.get(POSITION)
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise ConnectException(f"The stored offset {offset} has no valid {POSITION}")
    return position


def share_of(layout: Layout, name: str, count: int) -> int:
    """The number of the task that reads an object. All objects of one partition of a topic have the same task."""
    first = layout.first_record(name)
    unit = name if first is None else f"{first.topic}{layout.file_delimiter}{first.partition}"
    return zlib.crc32(unit.encode()) % count


class ObjectSourceConnector(SourceConnector):
    """Reads files of a directory or objects of a store to topics."""

    java_class = "io.confluent.connect.s3.source.S3SourceConnector"
    config_def = SOURCE_KEYS
    task_class = ObjectSourceTask

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [
            {**self.config, TASK_NUMBER: str(number), TASK_COUNT: str(max_tasks)}
            for number in range(max_tasks)
        ]

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        try:
            values = SOURCE_KEYS.parse(config)
        except ConfigError:
            return {}
        return store_errors(values, format_named(str(values[FORMAT])))

    def exactly_once_support(self, config: Config) -> bool | None:
        """An object does not change, and each record has the offset after it."""
        return True

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {STORE, NAME}:
                raise ConnectException(
                    f'Source partition {partition}: expected {{"{STORE}":URL,"{NAME}":NAME}}'
                )
            _position(offset)
        return True
