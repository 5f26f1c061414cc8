"""The file in which a single worker keeps its offsets, in the form of Java's workers (offset.storage.file.filename)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kcli.connect.decisions.offset_records import OffsetRecords
from kcli.connect.stores.java_map import InvalidMap, TruncatedMap, decode_map, encode_map
from kcli.connect.stores.store import TaskProducer
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.disk import Disk, replace_file

FILE_BYTES_MAX = 256 << 20
"""The largest file that is read. With 200 bytes an offset, this is enough for a million source partitions."""

_log = logging.getLogger("org.apache.kafka.connect.storage.FileOffsetBackingStore")


class OffsetFile:
    """Implements `OffsetStore`. Each `put` writes the whole file. A crash leaves the old or the new file.

    As in Java, a deleted offset stays in the file, without a value.
    """

    def __init__(self, path: str, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._content: dict[bytes | None, bytes | None] = {}
        self._records = OffsetRecords()
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Raises ConnectException for a file with other content."""
        _log.info("Starting FileOffsetBackingStore with file %s", self._path)
        self._content = await asyncio.to_thread(self._read)
        for key, value in self._content.items():
            self._records.replay(key, value)

    def _read(self) -> dict[bytes | None, bytes | None]:
        try:
            if self._disk.size(self._path) > FILE_BYTES_MAX:
                raise ConnectException(f"{self._path} has more than {FILE_BYTES_MAX} bytes")
            return decode_map(self._disk.read(self._path))
        except FileNotFoundError:
            return {}
        except TruncatedMap as error:
            # Java's worker, which does not write the file atomically, begins without offsets then.
            _log.warning(
                "The worker begins without offsets, because %s is not complete: %s", self._path, error
            )
            return {}
        except (InvalidMap, OSError) as error:
            raise ConnectException(str(error)) from error

    async def stop(self) -> None:
        async with self._writing:
            _log.info("Stopped FileOffsetBackingStore")

    async def refresh(self) -> None:
        return

    def get(self, key: bytes) -> bytes | None:
        return self._records.entries.get(key)

    def keys(self, connector: str) -> Mapping[bytes, bytes]:
        return self._records.keys(connector)

    def stored_key(self, key: bytes) -> bytes | None:
        return self._records.stored_key(key)

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        """Raises ConnectException if the file cannot be written. Then the offsets are still in memory, as in Java."""
        assert producer is None, "a worker without a group has no exactly once"
        async with self._writing:
            for key, value in entries.items():
                self._content[key] = value
                self._records.replay(key, value)
            encoded = encode_map(self._content)
            try:
                await asyncio.to_thread(replace_file, self._disk, self._path, encoded)
            except OSError as error:
                raise ConnectException(str(error)) from error
