"""What the REST API shows of connectors, from the state of configurations and the statuses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kcli.config.definition import ConfigError
from kcli.connect.config.connector_keys import RestartBackoff, restart_backoff
from kcli.connect.config.infos import ConfigInfos
from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.errors import BadRequest, NotFound
from kcli.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    ConnectorType,
    State,
    Status,
    TaskId,
    TaskInfo,
)
from kcli.connect.stores.store import StatusStore
from kcli.connect.workers.worker import Engine

_log = logging.getLogger("kcli.connect.restarts")


class Views:
    """Reads for the REST API. They need no other worker, and they never wait. `state` returns the configurations."""

    def __init__(self, state: Callable[[], ConfigState], statuses: StatusStore, engine: Engine) -> None:
        self._state = state
        self._statuses = statuses
        self._engine = engine

    def connectors(self) -> Sequence[str]:
        return list(self._state().connectors)

    def config(self, name: str) -> Config:
        """Raises NotFound."""
        config = self._state().connectors.get(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        return config

    def restart_backoff(self, name: str) -> RestartBackoff | None:
        """The waits before restarts of failed work. None if it is not restarted."""
        config = self._state().connectors.get(name, {})
        try:
            return restart_backoff(config)
        except ConfigError as error:
            _log.warning("Connector %s is not restarted after failures: %s", name, error.message)
            return None

    def info(self, name: str, config: Config | None = None) -> ConnectorInfo:
        """With a `config`, the connector need not be in the state yet. Raises NotFound."""
        config = self.config(name) if config is None else config
        return ConnectorInfo(name, config, self.task_ids(name), self._engine.type_of(config))

    def task_ids(self, name: str) -> Sequence[TaskId]:
        return [TaskId(name, number) for number in range(len(self._state().tasks.get(name, ())))]

    def tasks(self, name: str) -> Sequence[TaskInfo]:
        """Raises NotFound."""
        self.config(name)
        configs = self._state().tasks.get(name, ())
        return [TaskInfo(TaskId(name, number), config) for number, config in enumerate(configs)]

    def connector_state(self, name: str) -> ConnectorState:
        """Raises NotFound if the connector never had a status."""
        connector = self._statuses.get(TaskId(name, -1))
        if connector is None:
            raise NotFound(f"No status found for connector {name}")
        config = self._state().connectors.get(name)
        kind = ConnectorType.UNKNOWN if config is None else self._engine.type_of(config)
        return ConnectorState(name, connector, self._statuses.tasks(name), kind)

    def task_status(self, task: TaskId) -> Status:
        status = self._statuses.get(task) if task.task >= 0 else None
        if status is None:
            raise NotFound(f"No status found for task {task}")
        return status

    def topics(self, name: str) -> Sequence[str]:
        return sorted(self._statuses.topics(name))

    def stopped_connector(self, name: str) -> Config:
        """The configuration of a connector whose offsets may be changed. Raises NotFound and BadRequest."""
        config, state = self.config(name), self._state()
        target = state.target_states.get(name)
        if target is None or target.value != State.STOPPED or state.tasks.get(name):
            raise BadRequest(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        return config


def check_errors(infos: ConfigInfos) -> None:
    """Raises BadRequest with all errors of a validation."""
    errors = [error for config in infos.configs for error in config.value.errors]
    if not errors:
        return
    listed = "\n".join(errors)
    raise BadRequest(
        f"Connector configuration is invalid and contains the following {infos.error_count} error(s):\n{listed}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
