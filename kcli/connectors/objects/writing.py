"""Writes the records of one partition of a topic to objects.

The objects of a partition are stored together, one for each directory. Then the offset after their last record may be
committed. If the store fails, nothing of the open objects remains, and the task reads their records again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.connectors.objects.codecs import encoder
from kcli.connectors.objects.formats import Encoder
from kcli.connectors.objects.names import FirstRecord
from kcli.connectors.objects.projection import projection
from kcli.connectors.objects.rotation import Rotation
from kcli.connectors.objects.sink_keys import FAIL, SinkSettings
from kcli.connectors.objects.store import Store, Upload
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import Schema

OBJECTS_MAX = 1_000
"""The most open objects of a partition, because each takes memory until it is stored. It depends on the records alone,
so a task that reads them again makes the same objects."""
CHUNK_RECORDS = 10_000
"""The most values of an object that wait as Python objects for their conversion."""

Report = Callable[[SinkRecord, Exception], None]
"""Reports a record that cannot be written, or raises the error."""


@dataclass(slots=True)
class _OpenObject:
    schema: Schema | None
    upload: Upload
    encoder: Encoder
    values: list[object] = field(default_factory=list)

    def encode(self) -> None:
        if self.values:
            self.encoder.add(self.values)
            self.values = []


class PartitionWriter:
    """The open objects of a partition. `stored_offset` is the offset after the records that are stored."""

    def __init__(self, settings: SinkSettings, store: Store, on_stored: Callable[[], None]) -> None:
        self._on_stored = on_stored
        self._settings = settings
        self._store = store
        self._rotation = Rotation(settings.rotation)
        self._objects: dict[tuple[str, str], _OpenObject] = {}
        self._next_offset: int | None = None
        self.stored_offset: int | None = None

    def add(self, record: SinkRecord, now_ms: int, report: Report) -> None:
        """Adds a record. A record that is in an open object is left out.

        An offset before the stored ones begins again there: the topic may be a new one, or a user has set the offset.
        """
        offset = record.origin[2]
        if self.stored_offset is None:
            self.stored_offset = offset
        if self._next_offset is not None and offset < self._next_offset:
            if offset >= self.stored_offset:
                return
            self.discard()
            self.stored_offset = offset
        if record.value is None:
            self._skip_null(record, report)
        else:
            try:
                record_ms = self._settings.extract(record, now_ms) if self._settings.uses_times else None
                directory = self._settings.directory(record, record_ms or 0)
            except DataException as error:
                report(record, error)
            else:
                self._write(record, directory, record_ms)
        self._next_offset = offset + 1
        if self._rotation.is_full:
            self.store()
        elif not self._rotation.count:
            self.stored_offset = self._next_offset

    def end_batch(self, now_ms: int) -> None:
        """Converts the values of the batch, and stores objects whose time has come."""
        if self._rotation.is_due_by_clock(now_ms):
            self.store()
        for item in self._objects.values():
            item.encode()

    def store(self) -> None:
        """Stores the open objects."""
        for item in self._objects.values():
            item.encode()
            item.encoder.finish()
        for item in self._objects.values():
            item.upload.finish()
        self._objects = {}
        self._rotation.restart()
        self.stored_offset = self._next_offset
        self._on_stored()

    def discard(self) -> int | None:
        """Forgets the records that are not stored. Returns the offset from which to read them again."""
        for item in self._objects.values():
            item.upload.abort()
        self._objects = {}
        self._rotation.restart()
        self._next_offset = self.stored_offset
        return self.stored_offset

    def _skip_null(self, record: SinkRecord, report: Report) -> None:
        if self._settings.behavior_on_null == FAIL:
            report(
                record, ConnectException("Null valued records are not writeable with the current settings")
            )

    def _write(self, record: SinkRecord, directory: str, record_ms: int | None) -> None:
        key = record.topic, directory
        if self._rotation.is_due_before(directory, record_ms):
            self.store()
        item = self._objects.get(key)
        project = None
        if item is not None:
            project = projection(self._settings.compatibility, record.value_schema, item.schema)
            if project is None:
                self.store()
        if item is None or project is None:
            if len(self._objects) >= OBJECTS_MAX:
                self.store()
            self._objects[key] = item = self._open(record, directory)
            item.values.append(record.value)
        else:
            item.values.append(project(record.value))
        if len(item.values) >= CHUNK_RECORDS:
            item.encode()
        self._rotation.add(directory, record_ms)

    def _open(self, record: SinkRecord, directory: str) -> _OpenObject:
        settings = self._settings
        first = FirstRecord(*record.origin)
        name = settings.layout.name(record.topic, directory, first, settings.format.extension)
        upload = self._store.upload(name, settings.part_bytes, settings.upload_options)
        return _OpenObject(
            record.value_schema, upload, encoder(settings.format, record.value_schema, upload, name)
        )
