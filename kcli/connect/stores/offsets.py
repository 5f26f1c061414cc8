"""The offsets of source connectors: in a log of records, or in two logs for a connector with a topic of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kcli.connect.decisions.offset_records import OffsetRecords
from kcli.connect.stores.log import RecordLog
from kcli.connect.stores.store import OffsetStore, TaskProducer
from kcli.errors import KcliError

_log = logging.getLogger("kcli.connect.offsets")


class Offsets:
    """Implements `OffsetStore`."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log
        self._records = OffsetRecords()

    async def start(self) -> None:
        await self._log.start(lambda _, key, value: self._records.replay(key, value))

    async def stop(self) -> None:
        await self._log.stop()

    async def refresh(self) -> None:
        await self._log.read_to_end()

    def get(self, key: bytes) -> bytes | None:
        return self._records.entries.get(key)

    def keys(self, connector: str) -> Mapping[bytes, bytes]:
        return self._records.keys(connector)

    def stored_key(self, key: bytes) -> bytes | None:
        return self._records.stored_key(key)

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        if producer is None:
            await self._log.append(list(entries.items()), as_leader=False)
        else:
            await self._log.append_as(producer, list(entries.items()))


class ConnectorOffsets:
    """Implements `OffsetStore` for a connector with `offsets.storage.topic`: its own store, and that of the worker.

    The own store takes precedence. The worker's store has copies, so that the connector can go back to it.
    """

    def __init__(self, own: OffsetStore, workers: OffsetStore) -> None:
        """`workers` is used by other connectors too, and so this store does not start and stop it."""
        self._own = own
        self._workers = workers
        self._copies: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._own.start()

    async def stop(self) -> None:
        await asyncio.gather(*self._copies)
        await self._own.stop()

    async def refresh(self) -> None:
        await asyncio.gather(self._own.refresh(), self._workers.refresh())

    def get(self, key: bytes) -> bytes | None:
        own = self._own.get(key)
        return self._workers.get(key) if own is None else own

    def keys(self, connector: str) -> Mapping[bytes, bytes]:
        return {**self._workers.keys(connector), **self._own.keys(connector)}

    def stored_key(self, key: bytes) -> bytes | None:
        return self._own.stored_key(key) or self._workers.stored_key(key)

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        """Writes to the own store, and then copies in the background.

        A deleted offset is deleted in the worker's store first: if only the own store had deleted it, the copy in the
        worker's store would count again.
        """
        deleted = {key: value for key, value in entries.items() if value is None}
        if deleted:
            await asyncio.gather(*self._copies)  # so that an older copy does not come after the deletion
            await self._workers.put(deleted)
        await self._own.put(entries, producer)
        rest = {key: value for key, value in entries.items() if value is not None}
        if rest:
            copy = asyncio.create_task(self._copy(rest))
            self._copies.add(copy)
            copy.add_done_callback(self._copies.discard)

    async def _copy(self, entries: Mapping[bytes, bytes | None]) -> None:
        try:
            await self._workers.put(entries)
        except (KcliError, OSError) as error:
            _log.warning("Failed to write offsets to secondary backing store: %s", error)
