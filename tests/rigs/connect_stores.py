"""Listeners of the stores of Connect."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.model import RestartRequest, TaskId


class NoListener:
    """Ignores all changes of configurations."""

    def connector_config_changed(self, connector: str) -> None: ...

    def connector_config_removed(self, connector: str) -> None: ...

    def task_configs_changed(self, tasks: Sequence[TaskId]) -> None: ...

    def target_state_changed(self, connector: str) -> None: ...

    def session_key_changed(self, key: SessionKey) -> None: ...

    def restart_requested(self, request: RestartRequest) -> None: ...

    def logger_level_changed(self, logger: str, level: str) -> None: ...


class Changes:
    """Remembers all changes of configurations."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def connector_config_changed(self, connector: str) -> None:
        self.seen.append(("connector", connector))

    def connector_config_removed(self, connector: str) -> None:
        self.seen.append(("removed", connector))

    def task_configs_changed(self, tasks: Sequence[TaskId]) -> None:
        self.seen.append(("tasks", *tasks))

    def target_state_changed(self, connector: str) -> None:
        self.seen.append(("target", connector))

    def session_key_changed(self, key: SessionKey) -> None:
        self.seen.append(key)

    def restart_requested(self, request: RestartRequest) -> None:
        self.seen.append(request)

    def logger_level_changed(self, logger: str, level: str) -> None:
        self.seen.append(("logger", logger, level))
