"""The interface between a herder and its membership in a group of workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kcli.connect.model import TaskId


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The work of this worker after a rebalance: everything that it owns now, also what it has owned before."""

    leader: str = ""
    leader_url: str | None = None
    offset: int = -1
    """The offset of the config topic that the leader has used."""
    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()
    has_failed: bool = False
    """Whether the leader could not assign, because the configurations of the members differ."""
    has_revoked: bool = False
    """Whether this worker has given up work, so that it must join again."""
    delay_ms: int = 0
    """The time until the leader assigns the work of workers that have gone."""


@dataclass(frozen=True, slots=True)
class Work:
    """Connectors and tasks that run."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = field(default_factory=frozenset)

    def without(self, connectors: Collection[str], tasks: Collection[TaskId]) -> Work:
        return Work(self.connectors - frozenset(connectors), self.tasks - frozenset(tasks))


class WorkListener(Protocol):
    """Receives rebalances, one call after another."""

    async def assigned(self, assignment: GroupAssignment, generation: int) -> None: ...

    def lease(self, end_s: float) -> None:
        """This worker owns its work until this time of the event loop. Later calls prolong the lease."""
        ...

    async def revoked(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        """Returns when this work has stopped and its statuses are written."""
        ...


class GroupMembership(Protocol):
    """A member of the group of workers. It joins the group in `run`, and stays in it until `leave`."""

    @property
    def member_id(self) -> str: ...

    @property
    def is_sessioned(self) -> bool:
        """Whether the protocol of the group is `sessioned`, so that requests between workers are signed."""
        ...

    @property
    def is_eager(self) -> bool: ...

    @property
    def protocol(self) -> str:
        """The name of the protocol of the group, such as `sessioned`."""
        ...

    async def run(self, listener: WorkListener) -> None: ...

    def rejoin(self, reason: str) -> None: ...

    async def leave(self, reason: str) -> None: ...

    def owner_url(self, id: TaskId) -> str | None:
        """The URL of the worker that has a connector (task -1) or a task. Only the leader knows it."""
        ...

    async def give_up_work(self) -> None:
        """Forgets the assignment, so that the next JoinGroup claims nothing."""
        ...
