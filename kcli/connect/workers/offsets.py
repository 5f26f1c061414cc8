"""Source offsets by source partition, on a store of bytes."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.connect.decisions.offset_records import (
    Offset,
    Partition,
    offset_key,
    offset_value,
    read_offset,
    source_partition,
)
from kcli.connect.model import SourceOffsets
from kcli.connect.stores.store import OffsetStore
from kcli.formats.connect.errors import ConnectException
from kcli.model.pace import mapped
from kcli.runtime.turns import Turn

KEY_COST = 10
"""The microseconds to find the key of an offset that has another order of fields, or is new."""


def stored_key(store: OffsetStore, key: bytes) -> bytes:
    """Returns the key under which the store has the offset of a source partition.

    A Java worker wrote the fields of a partition in the order of a hash map. So another order is looked for, if the
    partition has several fields.
    """
    return store.stored_key(key) or key


async def get_offsets(store: OffsetStore, body: object) -> Sequence[str | None]:
    """Answers a task that asks for offsets by their keys."""

    def text(key: bytes) -> str | None:
        value = store.get(stored_key(store, key))
        return None if value is None else value.decode()

    return await mapped(Turn(), KEY_COST, _texts(body), text)


async def put_offsets(store: OffsetStore, body: object) -> None:
    """Stores the offsets of a task: pairs of a key and a value."""
    if not isinstance(body, list):
        raise ConnectException("a request without offsets")
    entries: dict[bytes, bytes | None] = {}
    pace = Turn()
    for key, value in body:
        await pace(KEY_COST)
        entries[stored_key(store, str(key).encode())] = None if value is None else str(value).encode()
    await store.put(entries)


async def connector_offsets(store: OffsetStore, connector: str) -> SourceOffsets:
    """All offsets of a connector."""

    def read(key: bytes) -> tuple[Partition, Offset] | None:
        source, offset = source_partition(key), read_offset(store.get(key))
        return None if source is None or offset is None else (source[1], offset)

    pairs = await mapped(Turn(), KEY_COST, store.keys(connector).values(), read)
    return [pair for pair in pairs if pair is not None]


async def connector_partitions(store: OffsetStore, connector: str) -> Sequence[Partition]:
    """All source partitions of a connector that have an offset."""
    sources = await mapped(Turn(), KEY_COST, store.keys(connector).values(), source_partition)
    return [source[1] for source in sources if source is not None]


async def entries_of(
    store: OffsetStore,
    connector: str,
    offsets: Sequence[tuple[Partition | None, Offset | None]],
) -> dict[bytes, bytes | None]:
    """The entries of the store for offsets that a user has set."""

    def entry(pair: tuple[Partition | None, Offset | None]) -> tuple[bytes, bytes | None]:
        partition, offset = pair
        return stored_key(store, offset_key(connector, partition)), offset_value(offset)

    return dict(await mapped(Turn(), KEY_COST, offsets, entry))


def _texts(body: object) -> list[bytes]:
    if not isinstance(body, list):
        raise ConnectException("a request without keys")
    return [str(key).encode() for key in body]
