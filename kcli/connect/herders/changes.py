"""Changes of configurations that a herder has not carried out yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.restart import greater_request
from kcli.connect.model import RestartRequest, TaskId


@dataclass(slots=True)
class Changes:
    """What has changed since the last look."""

    needs_rebalance: bool = False
    """Whether connectors have come or gone, or tasks have other configurations."""
    connectors: set[str] = field(default_factory=set)
    target_states: set[str] = field(default_factory=set)
    connectors_of_tasks: set[str] = field(default_factory=set)
    restarts: dict[str, RestartRequest] = field(default_factory=dict)

    @property
    def concern_work(self) -> bool:
        """Whether connectors or tasks must start, stop or change."""
        names = self.connectors or self.target_states or self.connectors_of_tasks
        return self.needs_rebalance or bool(names)


class PendingChanges:
    """Implements ConfigListener: collects changes, and wakes the herder.

    `applied` returns the configurations that the herder works with, which may be older than those of the store.
    """

    def __init__(
        self,
        applied: Callable[[], ConfigState],
        wake: Callable[[], None],
        set_logger_level: Callable[[str, str], object],
    ) -> None:
        self._applied = applied
        self._wake = wake
        self._set_logger_level = set_logger_level
        self._changes = Changes()

    @property
    def are_pending(self) -> bool:
        return self._changes != Changes()

    def take(self) -> Changes:
        """Returns the changes, and forgets them."""
        changes, self._changes = self._changes, Changes()
        return changes

    def take_restarts(self) -> Sequence[RestartRequest]:
        restarts, self._changes.restarts = self._changes.restarts, {}
        return list(restarts.values())

    def connector_config_changed(self, connector: str) -> None:
        if connector in self._applied().connectors:
            self._changes.connectors.add(connector)
        else:
            self._changes.needs_rebalance = True
        self._wake()

    def connector_config_removed(self, connector: str) -> None:
        # A connector that comes and goes before the herder has seen it needs no rebalance.
        if connector in self._applied().connectors:
            self._changes.needs_rebalance = True
        else:
            self._changes.connectors.add(connector)
        self._wake()

    def task_configs_changed(self, tasks: Sequence[TaskId]) -> None:
        self._changes.needs_rebalance = True
        self._changes.connectors_of_tasks.update(task.connector for task in tasks)
        self._wake()

    def target_state_changed(self, connector: str) -> None:
        self._changes.target_states.add(connector)
        self._wake()

    def session_key_changed(self, key: SessionKey) -> None:
        self._wake()

    def restart_requested(self, request: RestartRequest) -> None:
        """Of two requests for a connector, the one that restarts more takes precedence (KIP-745)."""
        known = self._changes.restarts.get(request.connector, request)
        self._changes.restarts[request.connector] = greater_request(known, request)
        self._wake()

    def logger_level_changed(self, logger: str, level: str) -> None:
        self._set_logger_level(logger, level)
