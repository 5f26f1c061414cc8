"""Workers of Connect with real herders, stores and memberships, whose engines only note which work runs where."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.group.requests import GroupSettings
from kcli.connect.config.infos import ConfigInfos, KeyInfo
from kcli.connect.config.plugin import Plugin
from kcli.connect.decisions.assignment import configured_work
from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.session import SessionSettings, sign
from kcli.connect.errors import RestError
from kcli.connect.herders.distributed import DistributedHerder
from kcli.connect.herders.membership import WorkerGroup, WorkerMembership
from kcli.connect.herders.reports import StatusReports
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.model import (
    CONNECTOR,
    Config,
    ConnectorType,
    InternalSignature,
    SourceOffsets,
    State,
    TargetState,
    TaskId,
)
from kcli.connect.peers.forwarding import Forwarder
from kcli.connect.peers.internal_requests import InternalRequests
from kcli.connect.stores.internal_topics import InternalTopics
from kcli.connect.workers.worker import TaskStart
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.clock import Clock
from kcli.runtime.rng import SystemRng
from rigs.connect_cluster import group_config

TASKS_KEY = "tasks.max"
STOP_S = 0.5
"""The longest time in which an engine starts or stops something."""


class Ledger:
    """Which worker runs which work. Fails if two workers run the same work at the same time."""

    def __init__(self) -> None:
        self.owners: dict[TaskId, str] = {}
        self.unowned_since: dict[TaskId, float] = {}

    def start(self, id: TaskId, worker: str) -> None:
        owner = self.owners.get(id)
        assert owner in (None, worker), f"{worker} starts {id}, which {owner} runs"
        self.owners[id] = worker

    def stop(self, ids: Iterable[TaskId], worker: str) -> None:
        for id in ids:
            if self.owners.get(id) == worker:
                del self.owners[id]

    def of(self, worker: str) -> list[TaskId]:
        return sorted(id for id, owner in self.owners.items() if owner == worker)

    def longest_wait_s(self, state: ConfigState) -> float:
        """The time for which the work of this state has had no owner, at the longest. Call this every now and then."""
        now_s = asyncio.get_running_loop().time()
        unowned = [id for id in configured_work(state) if id not in self.owners]
        self.unowned_since = {id: self.unowned_since.get(id, now_s) for id in unowned}
        return max((now_s - since_s for since_s in self.unowned_since.values()), default=0.0)


class Engine:
    """Implements the engine's interface. Starts and stops take a while."""

    def __init__(self, worker: str, ledger: Ledger, reports: StatusReports, rng: random.Random) -> None:
        self._worker = worker
        self._ledger = ledger
        self._reports = reports
        self._rng = rng
        self._configs: dict[str, Config] = {}
        self.is_dead = False

    async def _take_time(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, STOP_S))

    def _start(self, id: TaskId) -> None:
        if not self.is_dead:
            self._ledger.start(id, self._worker)
            self._reports.changed(id, State.RUNNING)

    async def start_connector(self, name: str, config: Config, target: TargetState) -> None:
        await self._take_time()
        self._configs[name] = config
        self._start(TaskId(name, CONNECTOR))

    async def stop_connector(self, name: str) -> None:
        if self._configs.pop(name, None) is not None:
            await self._take_time()
            self._ledger.stop([TaskId(name, CONNECTOR)], self._worker)

    async def task_configs(self, name: str) -> Sequence[Config]:
        if name not in self._configs:
            raise ConnectException(f"Connector {name} does not run")
        return [{"task": str(number)} for number in range(int(self._configs[name][TASKS_KEY]))]

    async def start_task(self, start: TaskStart) -> bool:
        await self._take_time()
        self._start(start.id)
        return True

    async def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        if set(tasks) & set(self.task_ids()):
            await self._take_time()
        self._ledger.stop(tasks, self._worker)
        for task in tasks:
            self._reports.changed(task, State.UNASSIGNED)

    def lease(self, end_s: float) -> None: ...

    async def set_target_state(self, connector: str, target: TargetState) -> None: ...

    def connector_names(self) -> Sequence[str]:
        return list(self._configs)

    def task_ids(self) -> Sequence[TaskId]:
        return [id for id in self._ledger.of(self._worker) if id.task != CONNECTOR]

    def type_of(self, config: Config) -> ConnectorType:
        return ConnectorType.SOURCE

    async def offsets(self, name: str, config: Config) -> SourceOffsets:
        return []

    async def alter_offsets(self, name: str, config: Config, offsets: SourceOffsets | None) -> str:
        raise ConnectException("the engine has no offsets")

    def task_states(self) -> Mapping[TaskId, State]:
        return dict.fromkeys(self.task_ids(), State.RUNNING)

    def set_log_level(self, logger: str, level: int) -> None: ...

    async def close(self) -> None: ...


class NoValidator:
    """No request of these tests validates a configuration."""

    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]:
        return []

    async def plugin_config(self, name: str, version: str | None) -> Sequence[KeyInfo]:
        raise NotImplementedError

    async def validate(self, config: Config) -> ConfigInfos:
        raise NotImplementedError


class DirectRequests(InternalRequests):
    """Signed requests that call the herder of another worker directly."""

    def __init__(self, workers: dict[str, Worker]) -> None:
        super().__init__(Forwarder(), SessionSettings())
        self._workers = workers

    async def put_task_configs(
        self, leader_url: str | None, name: str, configs: Sequence[Config], key: SessionKey | None
    ) -> None:
        leader = self._workers.get(leader_url or "")
        if leader is None:
            raise RestError("the leader is gone", 409)
        signature = (
            None if key is None else InternalSignature(key.algorithm, sign(key, key.algorithm, b""), b"")
        )
        await leader.herder.put_task_configs(name, configs, signature)


class Worker:
    """One life of a worker. `workers` has all workers that live, by URL."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        workers: dict[str, Worker],
        config: ClientConfig,
        open_client: Callable[[ClientConfig], Client],
        clock: Clock,
        group: GroupSettings,
        max_delay_ms: int,
        seed: int,
    ) -> None:
        self.name = name
        self.url = f"http://{name}/"
        self._ledger = ledger
        self._workers = workers
        self._clients = [
            open_client(dataclasses.replace(config, client_id=client_id))
            for client_id in ("g-shared-admin", f"connect-{name}")
        ]
        admin, coordination = self._clients
        settings = group_config(
            config_storage_replication_factor="3",
            status_storage_replication_factor="3",
            offset_storage_replication_factor="3",
        )
        topics = InternalTopics(settings, config, admin, clock, open_client)
        self.configs, self.statuses = topics.configs(), topics.statuses()
        reports = StatusReports(self.statuses, name, tracks_topics=False)
        self.engine = Engine(name, ledger, reports, random.Random(seed))
        worker_group = WorkerGroup(group=group, url=self.url, max_delay_ms=max_delay_ms)
        membership = WorkerMembership(coordination, worker_group, self.configs, SystemRng(seed))
        session = SessionSettings()
        self.herder = DistributedHerder(
            HerderSettings(session=session, rebalance_delay_max_ms=max_delay_ms),
            HerderParts(
                configs=self.configs,
                statuses=self.statuses,
                reports=reports,
                engine=self.engine,
                membership=membership,
                validator=NoValidator(),
                requests=DirectRequests(workers),
                fence=_no_fence,
                clock=clock,
                random_bytes=random.Random(seed).randbytes,
            ),
            "c",
        )
        self.task = asyncio.create_task(self.herder.run())
        workers[self.url] = self

    async def stop(self) -> None:
        """Stops as after SIGTERM."""
        await self.herder.started()
        self.herder.stop()
        await self.task
        await self._end()

    async def kill(self) -> None:
        """Ends as after SIGKILL: all work stops at once, and the worker does not leave the group."""
        self.engine.is_dead = True
        self._ledger.stop(self._ledger.of(self.name), self.name)
        self.task.cancel()
        await asyncio.wait([self.task])
        await asyncio.gather(self.configs.stop(), self.statuses.stop())
        await self._end()

    async def _end(self) -> None:
        self._workers.pop(self.url, None)
        for client in self._clients:
            await client.close()


async def _no_fence(tasks: Sequence[TaskId]) -> None:
    raise AssertionError(f"no worker writes in transactions: {tasks}")
