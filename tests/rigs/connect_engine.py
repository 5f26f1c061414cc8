"""An engine of Connect tasks with stores in memory, for tests that run tasks on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.config.plugin import Plugin, PluginType, load_class
from kcli.connect.config.worker import distributed_config
from kcli.connect.decisions.offset_records import OffsetRecords
from kcli.connect.model import Config, State, TargetState, TaskId
from kcli.connect.stores.store import OffsetStore, TaskProducer
from kcli.connect.workers.engine import WorkerEngine
from kcli.connect.workers.worker import TaskStart
from kcli.connectors.builtin import BUILT_IN, CONVERTER, TRANSFORM
from kcli.formats.connect.errors import ConnectException
from rigs import connect_plugins
from rigs.connect_notation import built_in

PLAIN = "rigs.PlainText"
JSON = "org.apache.kafka.connect.json.JsonConverter"
PATIENCE_S = 20.0


@dataclass(slots=True)
class MemoryOffsets:
    """Implements `OffsetStore`."""

    records: OffsetRecords = field(default_factory=OffsetRecords)

    @property
    def entries(self) -> Mapping[bytes, bytes]:
        return self.records.entries

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def refresh(self) -> None: ...

    def get(self, key: bytes) -> bytes | None:
        return self.records.entries.get(key)

    def keys(self, connector: str) -> Mapping[bytes, bytes]:
        return self.records.keys(connector)

    def stored_key(self, key: bytes) -> bytes | None:
        return self.records.stored_key(key)

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        for key, value in entries.items():
            self.records.replay(key, value)


@dataclass(slots=True)
class Statuses:
    """Implements `StatusListener`. Remembers the last state and all states."""

    last: dict[TaskId, tuple[State, str | None]] = field(default_factory=dict)
    history: list[tuple[TaskId, State]] = field(default_factory=list)
    topics: set[tuple[TaskId, str]] = field(default_factory=set)
    reconfigured: list[str] = field(default_factory=list)
    changes: asyncio.Event = field(default_factory=asyncio.Event)

    def changed(self, id: TaskId, state: State, *, trace: str | None, version: str | None) -> None:
        self.last[id] = (state, trace)
        self.history.append((id, state))
        self.changes.set()

    def used_topic(self, task: TaskId, topic: str) -> None:
        self.topics.add((task, topic))

    def reconfigure(self, connector: str) -> None:
        self.reconfigured.append(connector)

    async def reach(self, id: TaskId, *states: State) -> str | None:
        """Waits until the task has one of the states. Returns its trace."""
        async with asyncio.timeout(PATIENCE_S):
            while id not in self.last or self.last[id][0] not in states:
                self.changes.clear()
                await self.changes.wait()
        return self.last[id][1]


@dataclass(frozen=True, slots=True)
class TestPlugins:
    """Implements `Plugins` for a table of classes by their names in configurations."""

    names: Mapping[str, tuple[str, PluginType]]

    def all(self, *kinds: PluginType) -> Sequence[Plugin]:
        # The converters of the tests convert headers too, as those of Kafka do.
        taken = {*kinds} | ({PluginType.CONVERTER} if PluginType.HEADER_CONVERTER in kinds else set())
        return [self.find(name) for name, (_, kind) in self.names.items() if not kinds or kind in taken]

    def find(self, name: str, *kinds: PluginType, version: str | None = None) -> Plugin:
        if name not in self.names:
            raise ConnectException(f"Failed to find any class that matches {name}")
        python_name, kind = self.names[name]
        loaded = load_class(python_name, None)
        java = getattr(loaded, "java_class", None) or (getattr(loaded, "java_classes", ()) or (name,))[0]
        return Plugin(java, python_name, kind, getattr(loaded, "version", None) or "4.1.0", ())

    def class_named(self, name: str) -> str | None:
        return self.find(name).class_name if name in self.names else None


_RIG = connect_plugins.__name__
PLUGINS = TestPlugins(
    {
        **{
            name: (f"{kind.__module__}:{kind.__name__}", PluginType.CONVERTER)
            for name, kind in built_in(CONVERTER).items()
        },
        **{
            name: (place, PluginType.TRANSFORMATION)
            for place in BUILT_IN[TRANSFORM]
            for name in load_class(place, None).java_classes  # type: ignore[attr-defined]
        },
        "FileStreamSource": ("kcli.connectors.file.connectors:FileStreamSourceConnector", PluginType.SOURCE),
        "FileStreamSink": ("kcli.connectors.file.connectors:FileStreamSinkConnector", PluginType.SINK),
        "gold.CounterSource": (f"{_RIG}:CounterSource", PluginType.SOURCE),
        "gold.PickySink": (f"{_RIG}:PickySink", PluginType.SINK),
        "gold.Flaky": (f"{_RIG}:Flaky", PluginType.TRANSFORMATION),
        "rigs.Program": (f"{_RIG}:ProgramSink", PluginType.SINK),
        "rigs.Monitor": (f"{_RIG}:MonitorSource", PluginType.SOURCE),
        "rigs.Trouble": (f"{_RIG}:TroubleSource", PluginType.SOURCE),
        PLAIN: (f"{_RIG}:PlainText", PluginType.CONVERTER),
        "org.apache.kafka.connect.storage.SimpleHeaderConverter": (
            "kcli.formats.connect.simple_header:SimpleHeaderConverter",
            PluginType.HEADER_CONVERTER,
        ),
    }
)


@dataclass(slots=True)
class World:
    engine: WorkerEngine
    statuses: Statuses
    offsets: MemoryOffsets
    secrets: dict[str, str]
    """The values of placeholders. A test may add some."""

    async def start(
        self, name: str, config: Mapping[str, str], target: TargetState = TargetState.STARTED
    ) -> list[TaskId]:
        """Starts a connector and its tasks, as a herder does."""
        full: Config = {"name": name, **config}
        await self.engine.start_connector(name, full, target)
        configs = await self.engine.task_configs(name)
        starts = [
            TaskStart(TaskId(name, number), full, task, target, len(configs))
            for number, task in enumerate(configs)
        ]
        for start in starts:
            await self.engine.start_task(start)
        return [start.id for start in starts]

    def stored(self, connector: str) -> list[tuple[object, object]]:
        """The stored source offsets of a connector."""
        pairs = [(json.loads(key), json.loads(value)) for key, value in self.offsets.entries.items()]
        return [(key[1], value) for key, value in pairs if key[0] == connector]


@contextlib.asynccontextmanager
async def running(port: int, plugins: TestPlugins = PLUGINS, /, **worker: str) -> AsyncIterator[World]:
    """An engine on the broker at `port`. In the names of `worker`, an underscore stands for a dot."""
    properties = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "group.id": "workers",
        "config.storage.topic": "connect-configs",
        "status.storage.topic": "connect-statuses",
        "key.converter": PLAIN,
        "value.converter": PLAIN,
        "header.converter": PLAIN,
        "offset.flush.interval.ms": "200",
        "offset.storage.topic": "connect-offsets",
        "task.shutdown.graceful.timeout.ms": "3000",
    }
    properties |= {name.replace("_", "."): value for name, value in worker.items()}
    statuses, offsets = Statuses(), MemoryOffsets()

    async def offsets_of(_config: Config) -> OffsetStore:
        return offsets

    secrets: dict[str, str] = {}

    def resolve(config: Config) -> Config:
        return {key: value and secrets.get(value, value) for key, value in config.items()}

    engine = WorkerEngine(distributed_config(properties), plugins, offsets_of, statuses, resolve)
    try:
        await engine.start()
        yield World(engine, statuses, offsets, secrets)
    finally:
        await engine.close()
