"""The configurations of a group of workers, or of one worker, in a log of records."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import assert_never

from kcli.connect.decisions.config_records import (
    ConfigChange,
    ConfigRecords,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerLevelChanged,
    SessionKeyChanged,
    TargetStateChanged,
    TasksChanged,
    commit_entry,
    connector_entry,
    fencing_entry,
    logger_entry,
    restart_entry,
    session_key_entry,
    target_state_entry,
    task_entry,
)
from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.json_values import Entry
from kcli.connect.decisions.restart import describe
from kcli.connect.model import Config, RestartRequest, TargetState, TaskId
from kcli.connect.stores.log import RecordLog
from kcli.connect.stores.store import ConfigListener
from kcli.errors import KcliError
from kcli.formats.connect.errors import ConnectException

WRITE_TIMEOUT_S = 30
"""The time for a write and for reading it back (Java's READ_WRITE_TOTAL_TIMEOUT_MS)."""

_log = logging.getLogger("kcli.connect.configs")


class Configs:
    """Implements `ConfigStore`. Records that are written together form one transaction if the log has transactions."""

    def __init__(self, log: RecordLog) -> None:
        self._records_log = log
        self._records = ConfigRecords()
        self._listener: ConfigListener | None = None

    @property
    def state(self) -> ConfigState:
        return self._records.state

    async def start(self, listener: ConfigListener) -> None:
        """Reads all records. The listener gets the changes after that."""
        await self._records_log.start(self._take)
        self._listener = listener

    async def stop(self) -> None:
        self._listener = None
        await self._records_log.stop()

    async def refresh(self) -> None:
        await self._records_log.read_to_end()

    async def claim(self) -> None:
        await self._records_log.claim()

    async def put_connector(self, name: str, config: Config, target: TargetState | None) -> None:
        entries = [] if target is None else [target_state_entry(name, target)]
        async with _limited("Error writing connector configuration to Kafka"):
            await self._write(*entries, connector_entry(name, config))

    async def remove_connector(self, name: str) -> None:
        async with _limited("Error removing connector configuration from Kafka"):
            await self._write(connector_entry(name, None), target_state_entry(name, None))

    async def put_task_configs(self, name: str, configs: Sequence[Config]) -> None:
        async with _limited("Error writing task configurations to Kafka"):
            await self.refresh()
            if configs:
                tasks = [task_entry(TaskId(name, number), config) for number, config in enumerate(configs)]
                await self._write(*tasks)
            await self._write(commit_entry(name, len(configs)))

    async def put_target_state(self, name: str, target: TargetState) -> None:
        async with _limited("Error writing target state to Kafka"):
            await self._records_log.append([target_state_entry(name, target)], as_leader=False)

    async def put_session_key(self, key: SessionKey) -> None:
        async with _limited("Error writing session key to Kafka"):
            await self._write(session_key_entry(key))

    async def put_restart_request(self, request: RestartRequest) -> None:
        async with _limited(f"Error writing {describe(request)} to Kafka"):
            await self._write(restart_entry(request))

    async def put_task_count_record(self, name: str, task_count: int) -> None:
        async with _limited("Error writing task count record to Kafka"):
            await self._write(fencing_entry(name, task_count))

    async def put_logger_level(self, logger: str, level: str) -> None:
        async with _limited("Error writing logger level to Kafka"):
            await self._records_log.append([logger_entry(logger, level)], as_leader=False)

    async def _write(self, *entries: Entry) -> None:
        await self._records_log.append(entries, as_leader=True)

    def _take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        change = self._records.replay(offset, key, value)
        if change is not None and self._listener is not None:
            _tell(self._listener, change)


@contextlib.asynccontextmanager
async def _limited(message: str) -> AsyncIterator[None]:
    """Limits the time of a write. Raises ConnectException with Java's message after an error or the time."""
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            yield
    except ConnectException:
        raise
    except (KcliError, OSError) as error:  # a TimeoutError is an OSError
        _log.error("%s: %s", message, error or type(error).__name__)
        raise ConnectException(message) from error


def _tell(listener: ConfigListener, change: ConfigChange) -> None:
    match change:
        case ConnectorChanged(connector):
            listener.connector_config_changed(connector)
        case ConnectorRemoved(connector):
            listener.connector_config_removed(connector)
        case TasksChanged(tasks):
            listener.task_configs_changed(tasks)
        case TargetStateChanged(connector):
            listener.target_state_changed(connector)
        case SessionKeyChanged(key):
            listener.session_key_changed(key)
        case RestartRequest():
            listener.restart_requested(change)
        case LoggerLevelChanged(logger, level):
            listener.logger_level_changed(logger, level)
        case _:
            assert_never(change)
