"""A herder of a group without the group: a test is the leader's assignor, the engine and the log of the group."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.decisions.json_values import Entry
from kcli.connect.decisions.session import SessionSettings
from kcli.connect.herders.distributed import DistributedHerder
from kcli.connect.herders.group import GroupAssignment, WorkListener
from kcli.connect.herders.reports import StatusReports
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.model import (
    CONNECTOR,
    Config,
    ConnectorType,
    SourceOffsets,
    State,
    TargetState,
    TaskId,
)
from kcli.connect.peers.forwarding import Forwarder
from kcli.connect.peers.internal_requests import InternalRequests
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.log import MemoryLog
from kcli.connect.stores.statuses import Statuses
from kcli.connect.workers.worker import TaskStart
from kcli.formats.connect.errors import ConnectException
from rigs.connect_workers import NoValidator
from rigs.logs import ManualClock
from rigs.loops import some_turns

ME, LEADER = "me", "other"
LEADER_URL = "http://other/"


class Log(MemoryLog):
    """`failures` are the next writes that fail. `is_slow`: the end of the log cannot be read."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.claims = 0
        self.is_slow = False

    async def claim(self) -> None:
        self.claims += 1

    async def append(self, entries: Sequence[Entry], *, as_leader: bool) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectException("fenced")
        await super().append(entries, as_leader=as_leader)

    async def read_to_end(self) -> None:
        if self.is_slow:
            raise TimeoutError


class Membership:
    """Implements `GroupMembership`. A test calls `listener`, as the group would."""

    member_id = ME
    is_sessioned = True
    is_eager = False
    protocol = "sessioned"

    def __init__(self) -> None:
        self.rejoins: list[str] = []
        self.owners: dict[TaskId, str] = {}
        self.gave_up = 0
        self.listener: WorkListener
        self._left = asyncio.Event()

    async def run(self, listener: WorkListener) -> None:
        self.listener = listener
        await self._left.wait()

    def rejoin(self, reason: str) -> None:
        self.rejoins.append(reason)

    async def leave(self, reason: str) -> None:
        self._left.set()

    def owner_url(self, id: TaskId) -> str | None:
        return self.owners.get(id)

    async def give_up_work(self) -> None:
        self.gave_up += 1


class Engine:
    """Implements `Engine`. `calls` are its calls in their order."""

    def __init__(self, reports: StatusReports) -> None:
        self.calls: list[str] = []
        self.kind = ConnectorType.SOURCE
        self.hold: asyncio.Event | None = None
        """A start of a task waits for it."""
        self.refusals: list[str] = []
        """The errors of starts of tasks with exactly once."""
        self._reports = reports
        self._connectors: dict[str, Config] = {}
        self._tasks: dict[TaskId, State] = {}

    async def start_connector(self, name: str, config: Config, target: TargetState) -> None:
        self.calls.append(f"start {name}")
        self._connectors[name] = config
        self._reports.changed(TaskId(name, CONNECTOR), State.RUNNING)

    async def stop_connector(self, name: str) -> None:
        self.calls.append(f"stop {name}")
        self._connectors.pop(name, None)

    async def task_configs(self, name: str) -> Sequence[Config]:
        return [{"task": str(number)} for number in range(int(self._connectors[name].get("tasks") or 1))]

    async def start_task(self, start: TaskStart) -> bool:
        self.calls.append(f"start {start.id}")
        if self.hold is not None:
            await self.hold.wait()
        try:
            if start.fence is not None:
                await start.fence()
            if start.may_start is not None:
                await start.may_start()
        except Exception as error:
            self.refusals.append(str(error))
            return False
        self._tasks[start.id] = State.RUNNING
        self._reports.changed(start.id, State.RUNNING)
        return True

    async def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        self.calls.extend(f"stop {task}" for task in tasks)
        for task in tasks:
            self._tasks.pop(task, None)

    def lease(self, end_s: float) -> None: ...

    async def set_target_state(self, connector: str, target: TargetState) -> None:
        self.calls.append(f"{target.value} {connector}")

    def connector_names(self) -> Sequence[str]:
        return list(self._connectors)

    def task_ids(self) -> Sequence[TaskId]:
        return list(self._tasks)

    def task_states(self) -> Mapping[TaskId, State]:
        return self._tasks

    def type_of(self, config: Config) -> ConnectorType:
        return self.kind

    async def offsets(self, name: str, config: Config) -> SourceOffsets:
        return []

    async def alter_offsets(self, name: str, config: Config, offsets: SourceOffsets | None) -> str:
        self.calls.append(f"alter {name}")
        return "altered"

    def set_log_level(self, logger: str, level: int) -> None: ...

    async def close(self) -> None: ...


class Requests(InternalRequests):
    """Requests to the leader, of which `sent` has a line each."""

    def __init__(self) -> None:
        super().__init__(Forwarder(), SessionSettings())
        self.sent: list[str] = []

    async def fence(self, leader_url: str | None, name: str, key: SessionKey | None) -> None:
        self.sent.append(f"fence {name} at {leader_url}")

    async def put_task_configs(
        self, leader_url: str | None, name: str, configs: Sequence[Config], key: SessionKey | None
    ) -> None:
        self.sent.append(f"{len(configs)} tasks of {name} to {leader_url}")


@dataclass(slots=True)
class LoneHerder:
    """A herder and everything around it. `fenced` are the tasks whose producers were fenced, a list for each call."""

    settings: HerderSettings = field(default_factory=lambda: HerderSettings(SessionSettings()))
    log: Log = field(default_factory=Log)
    clock: ManualClock = field(default_factory=ManualClock)
    membership: Membership = field(default_factory=Membership)
    requests: Requests = field(default_factory=Requests)
    fenced: list[list[str]] = field(default_factory=list)
    on_fence: Callable[[], object] = field(default=lambda: None)
    configs: Configs = field(init=False)
    engine: Engine = field(init=False)
    herder: DistributedHerder = field(init=False)
    _generation: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        statuses = Statuses(MemoryLog(), self.clock)
        reports = StatusReports(statuses, "me:8083", tracks_topics=False)
        self.configs, self.engine = Configs(self.log), Engine(reports)
        parts = HerderParts(
            configs=self.configs,
            statuses=statuses,
            reports=reports,
            engine=self.engine,
            membership=self.membership,
            validator=NoValidator(),
            requests=self.requests,
            fence=self._fence,
            clock=self.clock,
            random_bytes=bytes,
        )
        self.herder = DistributedHerder(self.settings, parts, "cluster")

    async def _fence(self, tasks: Sequence[TaskId]) -> None:
        self.fenced.append([str(task) for task in tasks])
        self.on_fence()

    async def assign(self, *work: str | TaskId, is_leader: bool = True, **changes: object) -> None:
        """Ends a rebalance, and those that the herder joins at once. `work` are names of connectors, and tasks."""
        leader, url = (ME, "http://me/") if is_leader else (LEADER, LEADER_URL)
        assignment = GroupAssignment(
            leader=leader,
            leader_url=url,
            connectors=frozenset(name for name in work if isinstance(name, str)),
            tasks=frozenset(task for task in work if isinstance(task, TaskId)),
        )
        self.membership.rejoins.append("")
        while self.membership.rejoins:
            self.membership.rejoins.clear()
            self._generation += 1
            now = replace(assignment, offset=self.configs.state.offset)
            await self.membership.listener.assigned(
                replace(now, **changes),
                self._generation,
            )
            await steps()

    async def create(self, name: str, tasks: int) -> None:
        """Writes a connector whose tasks had an earlier generation. The group has seen it, and no worker runs it."""
        await self.put(name, tasks)
        await self.configs.put_task_count_record(name, tasks)
        await self.put(name, tasks)
        await self.assign()

    async def put(self, name: str, tasks: int, **config: str) -> None:
        """Writes a connector with tasks, as an earlier leader."""
        await self.configs.put_connector(name, {"name": name, "tasks": str(tasks), **config}, None)
        await self.configs.put_task_configs(name, [{"task": str(number)} for number in range(tasks)])


async def steps() -> None:
    """Lets the herder do everything that it can do without waiting for a time."""
    await some_turns(50)


@contextlib.asynccontextmanager
async def lone_herder(
    *,
    exactly_once: bool = False,
    claims_config_topic: bool = False,
    any_worker_writes_tasks: bool = False,
) -> AsyncIterator[LoneHerder]:
    settings = HerderSettings(
        SessionSettings(),
        exactly_once=exactly_once,
        claims_config_topic=claims_config_topic,
        any_worker_writes_tasks=any_worker_writes_tasks,
    )
    it = LoneHerder(settings)
    running = asyncio.create_task(it.herder.run())
    await it.herder.started()
    await steps()
    try:
        yield it
    finally:
        it.log.is_slow = False
        it.herder.stop()
        await running
