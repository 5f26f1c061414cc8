"""The interface of a herder: what the REST API asks, in a single worker or in a group of workers.

Each method may raise `RestError`. In a group of workers, a method that another worker must carry out raises
`NotLeader`, and rest/ forwards the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kcli.connect.config.infos import ConfigInfos, KeyInfo
from kcli.connect.config.plugin import Plugin
from kcli.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    InternalSignature,
    RestartRequest,
    SourceOffsets,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
)


class Created(NamedTuple):
    is_new: bool
    info: ConnectorInfo


class LoggerLevel(NamedTuple):
    level: str
    last_modified_ms: int | None


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

    async def connectors(self) -> Sequence[str]: ...

    async def connector_info(self, name: str) -> ConnectorInfo: ...

    async def connector_config(self, name: str) -> Config: ...

    async def connector_status(self, name: str) -> ConnectorState: ...

    async def task_status(self, task: TaskId) -> Status: ...

    async def tasks(self, name: str) -> Sequence[TaskInfo]: ...

    def plugins(self, *, connectors_only: bool) -> Sequence[Plugin]: ...

    async def plugin_config(self, name: str, version: str | None) -> Sequence[KeyInfo]:
        """The keys of a plugin, by its class name or alias."""
        ...

    async def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """Validates a configuration with everything that `PUT /connector-plugins/P/config/validate` checks."""
        ...

    async def put_config(
        self, name: str, config: Mapping[str, str | None], target: TargetState | None, *, may_replace: bool
    ) -> Created:
        """Writes a configuration after it is validated."""
        ...

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Changes some keys. None deletes a key (KIP-477)."""
        ...

    async def delete(self, name: str) -> None: ...

    async def pause(self, name: str) -> None: ...

    async def resume(self, name: str) -> None: ...

    async def stop(self, name: str) -> None:
        """Stops a connector, so that it has no tasks (KIP-875)."""
        ...

    async def restart_connector(self, name: str) -> None: ...

    async def restart_task(self, task: TaskId) -> None: ...

    async def restart(self, request: RestartRequest) -> ConnectorState:
        """Restarts a connector and its tasks (KIP-745)."""
        ...

    async def active_topics(self, name: str) -> Sequence[str]: ...

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

    def loggers(self) -> Mapping[str, LoggerLevel]: ...

    def logger(self, name: str) -> LoggerLevel | None: ...

    async def set_logger_level(self, name: str, level: str, *, in_cluster: bool) -> Sequence[str]:
        """Returns the names of the loggers of this worker that changed."""
        ...
