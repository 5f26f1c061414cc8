"""The settings of a herder in a group, and the parts of its worker that it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kcli.connect.decisions.session import SessionSettings
from kcli.connect.herders.group import GroupMembership
from kcli.connect.herders.reports import StatusReports
from kcli.connect.herders.validator import Validator
from kcli.connect.model import TaskId
from kcli.connect.peers.internal_requests import InternalRequests
from kcli.connect.stores.store import ConfigStore, StatusStore
from kcli.connect.workers.worker import Engine
from kcli.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """Times are in milliseconds."""

    session: SessionSettings
    sync_timeout_ms: int = 3_000
    unsync_backoff_ms: int = 300_000
    rebalance_delay_max_ms: int = 300_000
    exactly_once: bool = False
    claims_config_topic: bool = False
    """Whether the leader writes in transactions: exactly.once.source.support is preparing or enabled."""
    any_worker_writes_tasks: bool = False
    """Whether a worker that is not the leader writes the configurations of tasks to the config topic itself."""


@dataclass(frozen=True, slots=True)
class HerderParts:
    """The parts of a worker that its herder uses."""

    configs: ConfigStore
    statuses: StatusStore
    reports: StatusReports
    engine: Engine
    membership: GroupMembership
    validator: Validator
    requests: InternalRequests
    fence: Callable[[Sequence[TaskId]], Awaitable[None]]
    """Fences the producers of tasks, so that their open transactions end."""
    clock: Clock
    random_bytes: Callable[[int], bytes]
