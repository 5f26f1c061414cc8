"""The answers to a task that asks for offsets or stores them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcli.connect.config.worker import distributed_config
from kcli.connect.decisions import json_values
from kcli.connect.decisions.offset_records import offset_key
from kcli.connect.model import Config
from kcli.connect.stores.log import MemoryLog
from kcli.connect.stores.offsets import ConnectorOffsets, Offsets
from kcli.connect.stores.store import OffsetStore, TaskProducer
from kcli.connect.workers.connector_offsets import ConnectorOffsets as WorkerConnectorOffsets
from kcli.connect.workers.offsets import (
    connector_offsets,
    connector_partitions,
    entries_of,
    get_offsets,
    put_offsets,
)
from kcli.connect.workers.plans import Plans
from kcli.protocol.records.schema import Json
from rigs.connect_engine import PLAIN, PLUGINS, MemoryOffsets
from rigs.loops import on_a_loop
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

WORKER = {
    "bootstrap.servers": "b:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "status.storage.topic": "s",
    "offset.storage.topic": "o",
    "key.converter": PLAIN,
    "value.converter": PLAIN,
}
SOURCE = {"name": "c", "connector.class": "gold.CounterSource"}


def keys(names: range) -> list[str]:
    return [offset_key("c", {"store": "s", "object": str(name)}).decode() for name in names]


@on_a_loop
async def test_a_key_without_an_offset_is_not_compared_with_all_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Offsets(MemoryLog())
    await store.start()
    await put_offsets(store, [[key, "1"] for key in keys(range(100))])
    new = keys(range(100, 110))
    encoded: list[Json] = []

    def counting(value: Json) -> bytes:
        encoded.append(value)
        return json_values.json_bytes(value)

    monkeypatch.setattr("kcli.connect.decisions.offset_records.json_bytes", counting)
    assert await get_offsets(store, new) == (None,) * len(new)
    await put_offsets(store, [[key, "2"] for key in new])
    assert len(encoded) <= 3 * len(new)
    assert await get_offsets(store, new) == ("2",) * len(new)


@on_a_loop
async def test_the_own_topic_of_a_connector_takes_precedence_in_each_order_of_fields() -> None:
    workers = Offsets(MemoryLog())
    own = Offsets(MemoryLog())
    store = ConnectorOffsets(own, workers)
    await workers.start()
    await store.start()
    key, other = '["c",{"x":1,"y":2}]', '["c",{"y":2,"x":1}]'
    await workers.put({key.encode(): b"old"})
    assert await get_offsets(store, [other]) == ("old",)
    await own.put({other.encode(): b"new"})
    assert await get_offsets(store, [key]) == ("new",)
    await store.stop()


class PutsNothing(MemoryOffsets):
    """The time of a write is that of the log."""

    async def put(
        self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None
    ) -> None: ...


@on_a_loop
async def test_the_offsets_of_many_partitions_are_read_and_changed_in_many_turns() -> None:
    store, count = Offsets(MemoryLog()), 3000
    await store.start()
    user_sets = [({"f": str(number)}, {"at": number}) for number in range(count)]
    with TurnCounter() as counter:
        entries = await entries_of(store, "c", user_sets)
    assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
    await store.put(entries)
    new, nowhere = keys(range(count)), PutsNothing()
    with TurnCounter() as counter:
        assert await connector_offsets(store, "c") == user_sets
        assert await connector_partitions(store, "c") == [partition for partition, _ in user_sets]
        assert await get_offsets(store, new) == (None,) * count
        await put_offsets(nowhere, [[key, "1"] for key in new])
    assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX


class Producers(MemoryOffsets):
    """`producers` are the producers of the writes, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: list[TaskProducer | None] = []

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        self.producers.append(producer)
        await super().put(entries)


@on_a_loop
async def test_offsets_are_changed_with_the_producer_of_the_first_task() -> None:
    store = Producers()

    async def offsets_of(_config: Config) -> OffsetStore:
        return store

    async def call(_name: str, _config: Config, _method: str, _body: object) -> object:
        return True

    plans = Plans(distributed_config({**WORKER, "exactly.once.source.support": "enabled"}), PLUGINS, dict)
    offsets = WorkerConnectorOffsets(plans, offsets_of, call)
    await offsets.alter("c", SOURCE, [({"f": "1"}, {"at": 1})])
    await offsets.alter("c", SOURCE, None)
    await offsets.alter("c", SOURCE, None)
    assert store.entries == {}
    producer = TaskProducer("g-c-0", "connector-producer-c-0")
    assert store.producers == [producer, producer], "without offsets, nothing is written"
