"""Offsets of connectors that users read, change and reset (KIP-875)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kcli.connect.model import CONNECTOR, Config, ConnectorType, SourceOffsets, TaskId
from kcli.connect.stores.store import OffsetStore
from kcli.connect.workers import offsets as source_offsets
from kcli.connect.workers import sink_offsets
from kcli.connect.workers.admin import admin_client
from kcli.connect.workers.connector_run import CallError
from kcli.connect.workers.plans import Plans, Texts
from kcli.formats.connect.errors import ConnectException

OffsetsOf = Callable[[Config], Awaitable[OffsetStore]]
"""The store of the source offsets of a connector, by its configuration. An empty configuration means the worker's."""

Call = Callable[[str, Config, str, object], Awaitable[object]]
"""Calls a method of a connector that does not run: name, configuration, method, arguments."""


class ConnectorOffsets:
    """Source offsets are in a store, and those of a sink in its consumer group."""

    def __init__(self, plans: Plans, offsets_of: OffsetsOf, call: Call) -> None:
        self._plans = plans
        self._offsets_of = offsets_of
        self._call = call

    def _type_of(self, config: Config) -> ConnectorType:
        return self._plans.type_of(self._plans.resolve(config))

    async def read(self, name: str, config: Config) -> SourceOffsets:
        """The offsets of a connector, as a REST answer shows them."""
        resolved = self._plans.resolved(config)
        if self._type_of(config) is ConnectorType.SOURCE:
            store = await self._offsets_of(resolved)
            await store.refresh()
            return await source_offsets.connector_offsets(store, name)
        async with admin_client(self._plans.admin(TaskId(name, CONNECTOR), resolved)) as client:
            committed = await sink_offsets.group_offsets(client, self._plans.sink_group(name, resolved))
        return sink_offsets.to_request(committed)

    async def alter(self, name: str, config: Config, offsets: SourceOffsets | None) -> str:
        """Changes offsets. None resets all of them. Returns the message for the user. Raises ConnectException."""
        resolved = self._plans.resolved(config)
        try:
            if self._type_of(config) is ConnectorType.SOURCE:
                is_sure = await self._alter_source(name, resolved, offsets)
            else:
                is_sure = await self._alter_sink(name, resolved, offsets)
        except CallError as error:
            if error.java_class == "java.lang.UnsupportedOperationException":
                raise ConnectException(
                    f"Failed to modify offsets for connector {name} because it doesn't support external modification "
                    "of offsets"
                ) from error
            raise
        done = "reset" if offsets is None else "altered"
        if is_sure:
            return f"The offsets for this connector have been {done} successfully"
        return (
            f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if "
            f"this connector manages offsets externally, they will need to be manually {done} in the system that the "
            "connector uses."
        )

    async def _alter_source(self, name: str, config: Texts, offsets: SourceOffsets | None) -> bool:
        store = await self._offsets_of(config)
        await store.refresh()
        if offsets is None:
            partitions = await source_offsets.connector_partitions(store, name)
            offsets = [(partition, None) for partition in partitions]
        body = [[partition, offset] for partition, offset in offsets]
        is_sure = await self._call(name, config, "alter_offsets", body)
        entries = await source_offsets.entries_of(store, name, offsets)
        if entries:
            # As in Java, the producer of the first task writes them, so that no zombie of it writes after them.
            await store.put(entries, self._plans.task_producer(TaskId(name, 0)))
        return bool(is_sure)

    async def _alter_sink(self, name: str, config: Texts, offsets: SourceOffsets | None) -> bool:
        group = self._plans.sink_group(name, config)
        async with admin_client(self._plans.admin(TaskId(name, CONNECTOR), config)) as client:
            if offsets is None:
                committed = await sink_offsets.group_offsets(client, group)
                changes: sink_offsets.GroupOffsets = dict.fromkeys(committed)
            else:
                changes = sink_offsets.from_request(offsets)
            body = [[partition.topic, partition.partition, offset] for partition, offset in changes.items()]
            is_sure = await self._call(name, config, "alter_offsets", body)
            if offsets is None:
                await sink_offsets.delete_group(client, name, group)
            else:
                await sink_offsets.alter_group(client, name, group, changes)
        return bool(is_sure)
