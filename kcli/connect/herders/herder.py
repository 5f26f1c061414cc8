"""The interface of a herder: what the REST API asks, in a single worker or in a group of workers.

Each method may raise `RestError`. In a group of workers, a method that another worker must carry out raises
`NotLeader`, and rest/ forwards the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kcli.connect.herders.logger_levels import LoggerLevels
from kcli.connect.herders.validator import Validator
from kcli.connect.herders.views import Views
from kcli.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    InternalSignature,
    RestartRequest,
    SourceOffsets,
    TargetState,
    TaskId,
)


class Created(NamedTuple):
    is_new: bool
    info: ConnectorInfo


class Health(NamedTuple):
    """`is_ready` is True after the start-up. `stage` describes the current or the last operation, for timeouts."""

    is_ready: bool
    stage: str | None


class Herder(Protocol):
    kafka_cluster_id: str

    def health(self) -> Health: ...

    async def ping(self) -> None:
        """Returns when the herder has done the work before this call, so that it is shown to be alive."""
        ...

    async def settled(self, connector: str | None = None) -> None:
        """Waits a moment for changes that are on their way, so that a read shows what the last write has done.

        With a `connector`, waits for the configurations of its tasks too.
        """
        ...

    @property
    def rebalance_delay_ms(self) -> int:
        """The time until the work of workers that have gone is assigned to others, or 0."""
        ...

    @property
    def views(self) -> Views:
        """The connectors, their configurations and their states."""
        ...

    @property
    def validator(self) -> Validator: ...

    @property
    def loggers(self) -> LoggerLevels: ...

    async def put_config(
        self, name: str, config: Config, target: TargetState | None, *, may_replace: bool
    ) -> Created:
        """Writes a configuration after it is validated."""
        ...

    async def patch_config(self, name: str, patch: Config) -> ConnectorInfo:
        """Changes some keys. None deletes a key (KIP-477)."""
        ...

    async def delete(self, name: str) -> None: ...

    async def pause(self, name: str) -> None: ...

    async def resume(self, name: str) -> None: ...

    async def stop_connector(self, name: str) -> None:
        """Stops a connector, so that it has no tasks (KIP-875)."""
        ...

    async def restart_connector(self, name: str) -> None: ...

    async def restart_task(self, task: TaskId) -> None: ...

    async def restart(self, request: RestartRequest) -> ConnectorState:
        """Restarts a connector and its tasks (KIP-745)."""
        ...

    async def reset_active_topics(self, name: str) -> None: ...

    async def offsets(self, name: str) -> SourceOffsets:
        """The offsets of a source, or of a sink in the form of source offsets (KIP-875)."""
        ...

    async def alter_offsets(self, name: str, offsets: SourceOffsets | None) -> str:
        """Changes offsets. None resets all of them. Returns the message of the response."""
        ...

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], signature: InternalSignature | None
    ) -> None:
        """Takes new configurations of tasks from the worker that runs the connector."""
        ...

    async def fence_zombies(self, name: str, signature: InternalSignature | None) -> None:
        """Fences the producers of the last generation of tasks (KIP-618)."""
        ...

    async def set_logger_level(self, name: str, level: str) -> None:
        """Sets the level of a logger of all workers (KIP-976)."""
        ...
