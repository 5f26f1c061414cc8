"""The interfaces of the stores: configurations, statuses and source offsets.

In a group of workers they are compacted topics (client/topic_table). A single worker keeps configurations and statuses
in memory, and offsets in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.model import Config, RestartRequest, SourceOffsets, Status, TargetState, TaskId


class ConfigListener(Protocol):
    """Receives the changes that others or this worker have written, after `state` has them."""

    def connector_config_changed(self, connector: str) -> None: ...

    def connector_config_removed(self, connector: str) -> None: ...

    def task_configs_changed(self, tasks: Sequence[TaskId]) -> None: ...

    def target_state_changed(self, connector: str) -> None: ...

    def session_key_changed(self, key: SessionKey) -> None: ...

    def restart_requested(self, request: RestartRequest) -> None: ...

    def logger_level_changed(self, logger: str, level: str) -> None: ...


class ConfigStore(Protocol):
    """Every write returns after it is read back, and raises ConnectException after an error or 30 s.

    Writes of the leader raise it too if the worker has not claimed the store, or if another leader has claimed it.
    """

    @property
    def state(self) -> ConfigState: ...

    async def start(self, listener: ConfigListener) -> None: ...

    async def stop(self) -> None: ...

    async def refresh(self) -> None:
        """Reads to the end of the topic."""
        ...

    async def claim(self) -> None:
        """Makes this worker the only leader that can write, with exactly once (KIP-618)."""
        ...

    async def put_connector(self, name: str, config: Config, target: TargetState | None) -> None: ...

    async def remove_connector(self, name: str) -> None: ...

    async def put_task_configs(self, name: str, configs: Sequence[Config]) -> None: ...

    async def put_target_state(self, name: str, target: TargetState) -> None: ...

    async def put_session_key(self, key: SessionKey) -> None: ...

    async def put_restart_request(self, request: RestartRequest) -> None: ...

    async def put_task_count_record(self, name: str, task_count: int) -> None: ...

    async def put_logger_level(self, logger: str, level: str) -> None: ...


class StatusStore(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def put(self, id: TaskId, status: Status, *, safely: bool = False) -> None:
        """Writes a status in the background. `safely`: only if no newer status of another worker is there."""
        ...

    def get(self, id: TaskId) -> Status | None:
        """The status of a task, or of a connector (task -1)."""
        ...

    def tasks(self, connector: str) -> Mapping[int, Status]: ...

    def connectors(self) -> Iterable[str]: ...

    def topics(self, connector: str) -> Sequence[str]: ...

    def put_topic(self, task: TaskId, topic: str) -> None: ...

    def delete_topics(self, connector: str) -> None: ...

    async def flush(self) -> None:
        """Returns after the statuses before this call are written."""
        ...


@dataclass(frozen=True, slots=True)
class TaskProducer:
    """The producer of a source task with exactly once."""

    transactional_id: str
    client_id: str


class OffsetStore(Protocol):
    """Stores bytes by bytes, as the offsets topic has them: JSON without a schema."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def refresh(self) -> None:
        """Reads to the end, for example after a transaction of another worker's task."""
        ...

    def get(self, key: bytes) -> bytes | None: ...

    def keys(self, connector: str) -> Mapping[bytes, bytes]:
        """The key of each source partition of a connector that has an offset, by the content of the partition."""
        ...

    def stored_key(self, key: bytes) -> bytes | None:
        """The key of an offset for the same source partition, whose fields may have another order."""
        ...

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        """Writes offsets. With a `producer`, fences this producer, and writes in its transactions."""
        ...


OffsetsOf = Callable[[str], SourceOffsets]
