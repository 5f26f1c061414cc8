"""The tasks of FileStreamSource and FileStreamSink."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from kcli.connectors.file.lines import LineReader
from kcli.connectors.interface import Config, Offset, Offsets, SinkTask, SourceTask
from kcli.connectors.records import SinkRecord, SourceRecord
from kcli.formats.connect.charsets import UTF_8
from kcli.formats.connect.errors import ConnectException, RetriableException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.model.java_text import parse_int

WAIT_S = 1.0
"""The wait for new lines, or for the file itself."""
BATCH_LINES = 2000
"""The default of batch.size."""
WAITING_MAX_BYTES = 256 * 1024
"""The bytes after which a sink writes before its next flush."""
_FILE_MODE = 0o666
"""The mode of a new file, less the umask."""
FILE, TOPIC, BATCH_SIZE = "file", "topic", "batch.size"
FILENAME, POSITION = "filename", "position"
"""The key of a source partition, and the key of its offset: the number of characters that were read."""
_STRING = Schema(SchemaType.STRING)
_SOURCE_LOG = logging.getLogger("org.apache.kafka.connect.file.FileStreamSourceTask")


class FileStreamSourceTask(SourceTask):
    """Returns the lines of a file, or of the standard input if there is no file."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSourceTask"

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def start(self, config: Config) -> None:
        self._topic = str(config[TOPIC])
        self._batch_lines = parse_int(config.get(BATCH_SIZE) or str(BATCH_LINES))
        self._filename = config.get(FILE) or None
        self._partition: Mapping[str, object] = {FILENAME: self._filename}
        self._file: int | None = None
        self._reader: LineReader | None = None
        if self._filename is None:
            self._reader = LineReader(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)

    def poll(self) -> Sequence[SourceRecord] | None:
        reader = self._reader or self._open()
        if reader is None:
            return None
        try:
            lines = reader.read(self._batch_lines)
        except OSError as error:
            raise ConnectException(str(error)) from error
        if not lines:
            self._stopped.wait(WAIT_S)
            return None
        topic, partition, now_ms = self._topic, self._partition, time.time_ns() // 1_000_000
        has_file = self._filename is not None
        return [
            SourceRecord(
                partition,
                {POSITION: position if has_file else None},
                topic,
                text,
                _STRING,
                None,
                None,
                None,
                now_ms,
            )
            for text, position in lines
        ]

    def _open(self) -> LineReader | None:
        """Opens the file at the stored position. Waits a while if there is no file."""
        assert self._filename is not None
        try:
            self._file = os.open(self._filename, os.O_RDONLY)
        except FileNotFoundError:
            _SOURCE_LOG.warning(
                "Couldn't find file %s for FileStreamSourceTask, sleeping to wait for it to be created",
                self._filename,
            )
            self._stopped.wait(WAIT_S)
            return None
        except OSError as error:
            raise ConnectException(f"{error.strerror}: {self._filename}") from error
        position = _position(self.context.offsets.offset(self._partition))
        # As in Java, the position counts characters, but this skips bytes.
        os.lseek(self._file, position, os.SEEK_SET)
        self._reader = LineReader(self._file, position)
        return self._reader

    def stop(self) -> None:
        # Another thread may be reading, so the descriptor is closed with the process.
        self._stopped.set()


def _position(offset: Offset | None) -> int:
    position = None if offset is None else offset.get(POSITION)
    if position is None:
        return 0
    if not isinstance(position, int) or isinstance(position, bool):
        raise ConnectException("Offset position is the incorrect type")
    return position


class FileStreamSinkTask(SinkTask):
    """Appends each value as a line to a file, or writes it to the standard output of the worker.

    Bytes that the file has not taken stay in `_waiting`, because the offsets of their records must not be committed,
    and because the next bytes must not follow a part of a line.
    """

    java_class: ClassVar[str] = "org.apache.kafka.connect.file.FileStreamSinkTask"

    def start(self, config: Config) -> None:
        self._filename = config.get(FILE) or None
        self._waiting = bytearray()
        if self._filename is None:
            assert sys.__stdout__ is not None
            self._file = sys.__stdout__.fileno()
            return
        try:
            self._file = os.open(self._filename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _FILE_MODE)
        except OSError as error:
            raise ConnectException(
                f"Couldn't find or create file '{self._filename}' for FileStreamSinkTask"
            ) from error

    def put(self, records: Sequence[SinkRecord]) -> None:
        if len(self._waiting) >= WAITING_MAX_BYTES:
            try:
                self._write()
            except ConnectException as error:
                raise RetriableException(str(error)) from error  # before the records are taken
        if not records:
            return
        try:
            text = "\n".join([record.value for record in records])  # type: ignore[misc]  # a TypeError is expected
        except TypeError:
            text = "\n".join([java_string(record.value) for record in records])
        self._waiting += UTF_8.encode(text + "\n")
        if self._filename is None:
            self._write()  # someone may watch the terminal

    def flush(self, offsets: Offsets) -> None:
        self._write()

    def stop(self) -> None:
        if hasattr(self, "_file"):
            try:
                self._write()
            finally:
                if self._filename is not None:
                    os.close(self._file)

    def _write(self) -> None:
        """Writes all bytes that wait. Raises ConnectException, for example if the disk is full."""
        while self._waiting:
            try:
                size = os.write(self._file, self._waiting)
            except OSError as error:
                raise ConnectException(f"{self._filename or 'standard output'}: {error.strerror}") from error
            del self._waiting[:size]
