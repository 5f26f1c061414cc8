"""The configurations of a group of workers, as the records of the config topic define them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.model import Config, TargetState, TaskId


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers (KIP-507). `created_ms` is in milliseconds since 1970."""

    key: bytes
    algorithm: str
    created_ms: int

    def __repr__(self) -> str:
        return f"SessionKey({self.algorithm}, created_ms={self.created_ms})"


@dataclass(frozen=True, slots=True)
class ConfigState:
    """A snapshot. `offset` is the offset after the last record that was read, or -1."""

    offset: int = -1
    connectors: Mapping[str, Config] = field(default_factory=dict)
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    tasks: Mapping[str, Sequence[Config]] = field(default_factory=dict)
    """The committed configurations of tasks by connector, in the order of their numbers. A connector whose set is
    inconsistent has no entry."""
    applied_configs: Mapping[str, Config] = field(default_factory=dict)
    """The configuration of a connector from which its last committed set of tasks was made."""
    inconsistent: frozenset[str] = frozenset()
    """Connectors whose last set of task configurations is incomplete, so that their tasks must not run."""
    task_count_records: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    """The number of the last set of task configurations by connector, which counts from 0 (KIP-618)."""
    pending_fencing: frozenset[str] = frozenset()
    """Connectors with new task configurations and no later task count record, whose producers must be fenced."""
    session_key: SessionKey | None = None

    def task_ids(self, connector: str) -> tuple[TaskId, ...]:
        return tuple(TaskId(connector, number) for number in range(len(self.tasks.get(connector, ()))))

    def task_config(self, task: TaskId) -> Config | None:
        configs = self.tasks.get(task.connector, ())
        return configs[task.task] if 0 <= task.task < len(configs) else None
