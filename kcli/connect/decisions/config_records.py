"""The records of the config topic: how they are written, and what a worker makes of them.

Only the leader of the group writes, except for target states and levels of loggers. Each worker reads all records in
their order, so that all workers have the same state at the same offset. A set of task configurations takes effect at
its commit record. If compaction has removed a part of a set, the connector is *inconsistent*: its tasks must not run,
and the leader must configure them again.

As in Java, a record that cannot be understood is logged and ignored.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.json_values import (
    Entry,
    InvalidValue,
    fields_of,
    json_entry,
    number_of,
    parsed,
    task_of,
    text_of,
    type_name,
)
from kcli.connect.model import Config, RestartRequest, TargetState, TaskId
from kcli.model.java_text import INT_MAX, INT_MIN
from kcli.model.java_utf8 import decode_utf8
from kcli.protocol.records.schema import Json

CONNECTOR_PREFIX = "connector-"
TASK_PREFIX = "task-"
COMMIT_PREFIX = "commit-"
TARGET_STATE_PREFIX = "target-state-"
FENCING_PREFIX = "tasks-fencing-"
RESTART_PREFIX = "restart-connector-"
LOGGER_PREFIX = "logger-cluster-"
SESSION_KEY = "session-key"

_log = logging.getLogger("kcli.connect.configs")


# Writing.


def connector_entry(name: str, config: Config | None) -> Entry:
    """The configuration of a connector. None deletes the connector."""
    return json_entry(CONNECTOR_PREFIX + name, None if config is None else {"properties": _json(config)})


def task_entry(task: TaskId, config: Config) -> Entry:
    return json_entry(f"{TASK_PREFIX}{task}", {"properties": _json(config)})


def commit_entry(connector: str, task_count: int) -> Entry:
    return json_entry(COMMIT_PREFIX + connector, {"tasks": task_count})


def target_state_entry(connector: str, target: TargetState | None) -> Entry:
    """The target state of a connector. None deletes it, together with the connector."""
    value: dict[str, Json] | None = None
    if target is not None:
        # Workers before Kafka 3.5 do not know STOPPED, and read only the first field (KIP-875).
        old = TargetState.PAUSED if target is TargetState.STOPPED else target
        value = {"state": old.value, "state.v2": target.value}
    return json_entry(TARGET_STATE_PREFIX + connector, value)


def fencing_entry(connector: str, task_count: int) -> Entry:
    """The number of tasks whose producers must be fenced before the next set of tasks starts (KIP-618)."""
    return json_entry(FENCING_PREFIX + connector, {"task-count": task_count})


def session_key_entry(key: SessionKey) -> Entry:
    return json_entry(
        SESSION_KEY,
        {
            "key": base64.b64encode(key.key).decode(),
            "algorithm": key.algorithm,
            "creation-timestamp": key.created_ms,
        },
    )


def restart_entry(request: RestartRequest) -> Entry:
    value: dict[str, Json] = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return json_entry(RESTART_PREFIX + request.connector, value)


def logger_entry(logger: str, level: str) -> Entry:
    return json_entry(LOGGER_PREFIX + logger, {"level": level})


def _json(config: Config) -> dict[str, Json]:
    return dict(config)


# Reading.


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    connector: str


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """A commit record was read. `tasks` is empty if the set is incomplete, or if it has no task."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    connector: str


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    key: SessionKey


@dataclass(frozen=True, slots=True)
class LoggerLevelChanged:
    logger: str
    level: str


ConfigChange = (
    ConnectorChanged
    | ConnectorRemoved
    | TasksChanged
    | TargetStateChanged
    | SessionKeyChanged
    | RestartRequest
    | LoggerLevelChanged
)


class ConfigRecords:
    """Replays the records of the config topic. `state` is a snapshot, which a later record does not change."""

    def __init__(self) -> None:
        self._offset = -1
        self._connectors: dict[str, Config] = {}
        self._target_states: dict[str, TargetState] = {}
        self._tasks: dict[str, tuple[Config, ...]] = {}
        self._applied: dict[str, Config] = {}
        self._deferred: dict[str, dict[int, Config]] = {}
        """Configurations of tasks by connector that wait for their commit record."""
        self._inconsistent: set[str] = set()
        self._task_count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._pending_fencing: set[str] = set()
        self._session_key: SessionKey | None = None
        self._state: ConfigState | None = None

    @property
    def state(self) -> ConfigState:
        if self._state is None:
            self._state = ConfigState(
                offset=self._offset,
                connectors=dict(self._connectors),
                target_states=dict(self._target_states),
                tasks={
                    name: configs for name, configs in self._tasks.items() if name not in self._inconsistent
                },
                applied_configs=dict(self._applied),
                inconsistent=frozenset(self._inconsistent),
                task_count_records=dict(self._task_count_records),
                generations=dict(self._generations),
                pending_fencing=frozenset(self._pending_fencing),
                session_key=self._session_key,
            )
        return self._state

    def replay(self, offset: int, key: bytes | None, value: bytes | None) -> ConfigChange | None:
        """Applies one record. Returns the change that the listener of the store must be told, if there is one.

        The state does not have requests for a restart and levels of loggers. So a caller ignores these changes in
        records that are older than its own start.
        """
        try:
            content = parsed(value)
        except ValueError as error:
            _log.error("Ignoring record %d of the config topic, which is not JSON: %s", offset, error)
            return None
        self._state = None
        self._offset = offset + 1
        text = "" if key is None else decode_utf8(key)
        try:
            return self._apply(text, content)
        except InvalidValue as error:
            _log.error("Ignoring record %d of the config topic with the key '%s': %s", offset, text, error)
            return None

    def _apply(self, key: str, content: object) -> ConfigChange | None:
        if key == SESSION_KEY:
            return self._take_session_key(content)
        for prefix, take in self._by_prefix:
            if key.startswith(prefix):
                return take(key.removeprefix(prefix), content)
        raise InvalidValue("the key is unknown")

    @property
    def _by_prefix(self) -> tuple[tuple[str, Callable[[str, object], ConfigChange | None]], ...]:
        return (
            (TARGET_STATE_PREFIX, self._take_target_state),
            (CONNECTOR_PREFIX, self._take_connector),
            (TASK_PREFIX, self._take_task),
            (COMMIT_PREFIX, self._take_commit),
            (RESTART_PREFIX, _restart_request),
            (FENCING_PREFIX, self._take_task_count),
            (LOGGER_PREFIX, _logger_level),
        )

    def _take_connector(self, name: str, content: object) -> ConfigChange:
        if content is None:
            self._remove(name)
            return ConnectorRemoved(name)
        self._connectors[name] = _config(content)
        self._target_states.setdefault(name, TargetState.STARTED)
        return ConnectorChanged(name)

    def _remove(self, name: str) -> None:
        for by_name in (self._connectors, self._tasks, self._deferred, self._applied):
            by_name.pop(name, None)

    def _take_target_state(self, name: str, content: object) -> ConfigChange | None:
        if content is None:
            self._target_states.pop(name, None)
            if name in self._connectors:
                self._target_states[name] = TargetState.STARTED
            return None
        target = _target_state(fields_of(content))
        is_new = self._target_states.get(name) is not target
        self._target_states[name] = target
        # A target state before the connector's first configuration is part of its creation (KIP-980).
        return TargetStateChanged(name) if is_new and name in self._connectors else None

    def _take_task(self, name: str, content: object) -> None:
        task = task_of(TASK_PREFIX + name, TASK_PREFIX)
        if task is None:
            raise InvalidValue("the key has no number of a task")
        self._deferred.setdefault(task.connector, {})[task.task] = _config(content)

    def _take_commit(self, name: str, content: object) -> TasksChanged | None:
        if name not in self._connectors:
            # The connector was deleted, and compaction has removed all records of it but these.
            self._remove(name)
            return None
        count = _int(fields_of(content), "tasks")
        deferred = self._deferred.pop(name, {})
        updated: tuple[TaskId, ...] = ()
        # There may be more configurations than the commit record counts, because the records of tasks that a smaller
        # set has dropped stay in the topic.
        if all(number in deferred for number in range(count)):
            self._inconsistent.discard(name)
            self._tasks[name] = tuple(deferred[number] for number in range(count))
            self._applied[name] = self._connectors[name]
            if deferred:
                self._generations[name] = self._generations.get(name, -1) + 1
            updated = tuple(TaskId(name, number) for number in sorted(deferred))
        else:
            self._inconsistent.add(name)
        self._pending_fencing.add(name)
        return TasksChanged(updated)

    def _take_task_count(self, name: str, content: object) -> None:
        self._task_count_records[name] = _int(fields_of(content), "task-count")
        self._pending_fencing.discard(name)

    def _take_session_key(self, content: object) -> SessionKeyChanged:
        fields = fields_of(content)
        try:
            raw = base64.b64decode(text_of(fields, "key"), validate=True)
        except binascii.Error as error:
            raise InvalidValue(f"the field 'key' is not base64: {error}") from None
        created_ms = number_of(fields, "creation-timestamp")
        self._session_key = SessionKey(raw, text_of(fields, "algorithm"), created_ms)
        return SessionKeyChanged(self._session_key)


def _config(content: object) -> Config:
    """The properties of a connector or a task. As in Java, the value of a property may be null."""
    properties = fields_of(content).get("properties")
    if not isinstance(properties, dict):
        raise InvalidValue(f"the field 'properties' should be a map but is {type_name(properties)}")
    for name, value in properties.items():
        if not (value is None or isinstance(value, str)):
            raise InvalidValue(f"the property '{name}' should be a string but is {type_name(value)}")
    return cast("Config", properties)


def _target_state(fields: Mapping[str, object]) -> TargetState:
    name = fields.get("state.v2")
    if not isinstance(name, str):  # written by a worker before Kafka 3.5
        name = text_of(fields, "state")
    try:
        return TargetState(name)
    except ValueError:
        raise InvalidValue(f"the target state {name} is unknown") from None


def _restart_request(connector: str, content: object) -> RestartRequest:
    fields = fields_of(content)
    return RestartRequest(
        connector,
        only_failed=fields.get("only-failed") is True,
        include_tasks=fields.get("include-tasks") is True,
    )


def _logger_level(logger: str, content: object) -> LoggerLevelChanged:
    return LoggerLevelChanged(logger, text_of(fields_of(content), "level"))


def _int(fields: Mapping[str, object], name: str) -> int:
    number = number_of(fields, name)
    if not INT_MIN <= number <= INT_MAX:
        raise InvalidValue(f"the field '{name}' is out of range: {number}")
    return number
