"""The offsets of a source task, which the worker reads and stores: many of them need several requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcli.connect.decisions.offset_records import offset_key, read_offset
from kcli.connect.tasks.channel import Channel
from kcli.connectors.interface import Offset, Partition

OFFSETS_PER_REQUEST = 1000
"""The most offsets in a request to the worker: few enough for a frame, and for a turn of the worker's event loop."""


@dataclass(frozen=True, slots=True)
class WorkerOffsets:
    """Reads offsets through the worker. Implements `OffsetReader`."""

    connector: str
    channel: Channel

    def offset(self, partition: Partition) -> Offset | None:
        return self.offsets((partition,))[0]

    def offsets(self, partitions: Iterable[Partition]) -> Sequence[Offset | None]:
        keys = [offset_key(self.connector, partition).decode() for partition in partitions]
        values: list[str | None] = []
        for start in range(0, len(keys), OFFSETS_PER_REQUEST):
            reply = self.channel.ask("get_offsets", keys[start : start + OFFSETS_PER_REQUEST])
            assert isinstance(reply, list)
            values += reply
        return [read_offset(None if value is None else value.encode()) for value in values]


def store_offsets(channel: Channel, entries: Mapping[bytes, bytes | None], timeout_s: float) -> None:
    """Stores offsets through the worker, within a time for all requests. Raises ConnectException."""
    deadline_s = time.monotonic() + timeout_s
    for pairs in request_bodies(entries):
        channel.ask("put_offsets", pairs, max(deadline_s - time.monotonic(), 0.0))


def request_bodies(entries: Mapping[bytes, bytes | None]) -> Iterator[list[list[str | None]]]:
    """Divides offsets into lists of pairs, a key and a value, of which each fits into a request."""
    pairs = [[key.decode(), None if value is None else value.decode()] for key, value in entries.items()]
    for start in range(0, len(pairs), OFFSETS_PER_REQUEST):
        yield pairs[start : start + OFFSETS_PER_REQUEST]
