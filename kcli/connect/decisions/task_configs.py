"""Decisions about the configurations of a connector and its tasks."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.model import Config, TaskId
from kcli.model.java_order import map_order, string_hash


def task_configs_changed(state: ConfigState, connector: str, configs: Sequence[Config]) -> bool:
    """Whether the tasks must be configured again.

    A change of the connector's own configuration counts too, because converters and transformations of its tasks may
    depend on it (KAFKA-9228).
    """
    if list(configs) != list(state.tasks.get(connector, ())):
        return True
    return state.applied_configs.get(connector) != state.connectors.get(connector)


def tasks_to_fence(state: ConfigState, connector: str) -> Sequence[TaskId]:
    """The tasks of the last generation whose producers must be fenced before new tasks start (KIP-618).

    One task that follows one task fences the producer of the first one itself.
    """
    record = state.task_count_records.get(connector)
    if connector not in state.pending_fencing or record is None:
        return ()
    if record == 1 and len(state.tasks.get(connector, ())) == 1:
        return ()
    return [TaskId(connector, number) for number in range(record)]


def patched(config: Config, patch: Config) -> Config:
    """A configuration with some keys changed. None deletes a key. The keys are in the order of Java's HashMap."""
    changed = {key: value for key, value in {**config, **patch}.items() if patch.get(key, "") is not None}
    return java_ordered(changed)


def java_ordered(config: Config) -> Config:
    """The same configuration in the order of Java's HashMap, in which Connect writes configurations of tasks."""
    return {key: config[key] for key in map_order(config, string_hash)}
