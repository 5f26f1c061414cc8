"""The records of the status topic: the states of connectors and tasks, and the topics that they use (KIP-558)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from kcli.connect.model import CONNECTOR, State, Status, TaskId
from kcli.model.java_utf8 import decode_utf8
from kcli.protocol.records.schema import Json

CONNECTOR_PREFIX = "status-connector-"
TASK_PREFIX = "status-task-"
TOPIC_PREFIX = "status-topic-"
TOPIC_SEPARATOR = ":connector-"

_log = logging.getLogger("kcli.connect.statuses")


@dataclass(frozen=True, slots=True)
class TopicUse:
    """The first use of a topic by a connector since its start or its reset."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


def status_entry(id: TaskId, status: Status) -> Entry:
    """The state of a connector (task -1) or of a task. DESTROYED deletes the key."""
    key = CONNECTOR_PREFIX + id.connector if id.task == CONNECTOR else f"{TASK_PREFIX}{id}"
    if status.state is State.DESTROYED:
        return json_entry(key, None)
    return json_entry(
        key,
        {
            "state": status.state.value,
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        },
    )


def topic_entry(use: TopicUse) -> Entry:
    value: dict[str, Json] = {
        "name": use.topic,
        "connector": use.connector,
        "task": use.task,
        "discoverTimestamp": use.discovered_ms,
    }
    return json_entry(_topic_key(use.topic, use.connector), {"topic": value})


def topic_deletion(topic: str, connector: str) -> Entry:
    return json_entry(_topic_key(topic, connector), None)


def _topic_key(topic: str, connector: str) -> str:
    return f"{TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}"


class StatusRecords:
    """Replays the records of the status topic. As in Java, a record that cannot be understood is ignored."""

    def __init__(self) -> None:
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, TopicUse]] = {}

    def get(self, id: TaskId) -> Status | None:
        if id.task == CONNECTOR:
            return self._connectors.get(id.connector)
        return self._tasks.get(id.connector, {}).get(id.task)

    def tasks(self, connector: str) -> Mapping[int, Status]:
        """The states of the tasks of a connector, in the order of their numbers."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def connectors(self) -> Sequence[str]:
        return tuple(self._connectors)

    def topics(self, connector: str) -> Sequence[str]:
        return tuple(self._topics.get(connector, ()))

    def topic(self, connector: str, topic: str) -> TopicUse | None:
        return self._topics.get(connector, {}).get(topic)

    def may_replace(self, id: TaskId, status: Status) -> bool:
        """Whether no newer status of another worker would be overwritten (Java's putSafe)."""
        old = self.get(id)
        return old is None or old.worker_id == status.worker_id or old.generation <= status.generation

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Applies one record."""
        text = "" if key is None else decode_utf8(key)
        try:
            self._apply(text, parsed(value))
        except ValueError as error:  # InvalidValue, or no JSON
            _log.warning("Ignoring a record of the status topic with the key '%s': %s", text, error)

    def _apply(self, key: str, content: object) -> None:
        if key.startswith(CONNECTOR_PREFIX):
            self._take_connector(_not_empty(key.removeprefix(CONNECTOR_PREFIX)), content)
        elif key.startswith(TASK_PREFIX):
            task = task_of(key, TASK_PREFIX)
            if task is None:
                raise InvalidValue("the key has no number of a task")
            self._take_task(task, content)
        elif key.startswith(TOPIC_PREFIX):
            topic, separator, connector = key.removeprefix(TOPIC_PREFIX).partition(TOPIC_SEPARATOR)
            if not separator:
                raise InvalidValue("the key has no connector")
            self._take_topic(_not_empty(topic), _not_empty(connector), content)
        else:
            raise InvalidValue("the key is unknown")

    def _take_connector(self, name: str, content: object) -> None:
        if content is None:
            self._connectors.pop(name, None)
            self._tasks.pop(name, None)
        else:
            self._connectors[name] = _status(content)

    def _take_task(self, id: TaskId, content: object) -> None:
        if content is None:
            self._tasks.get(id.connector, {}).pop(id.task, None)
            return
        status, old = _status(content), self.get(id)
        is_late = (
            status.state is State.UNASSIGNED
            and old is not None
            and old.state is State.RUNNING
            and old.generation >= status.generation
        )
        # In frequent rebalances, the last owner may write its UNASSIGNED after the RUNNING of the next owner.
        if not is_late:
            self._tasks.setdefault(id.connector, {})[id.task] = status

    def _take_topic(self, topic: str, connector: str, content: object) -> None:
        if content is None:
            self._topics.get(connector, {}).pop(topic, None)
            return
        fields = fields_of(fields_of(content).get("topic"))
        use = TopicUse(
            text_of(fields, "name"),
            text_of(fields, "connector"),
            number_of(fields, "task"),
            number_of(fields, "discoverTimestamp"),
        )
        self._topics.setdefault(connector, {})[topic] = use


def _status(content: object) -> Status:
    fields = fields_of(content)
    try:
        state = State(text_of(fields, "state"))
    except ValueError:
        raise InvalidValue(f"the state {fields.get('state')} is unknown") from None
    worker_id = text_of(fields, "worker_id")
    generation = number_of(fields, "generation")
    return Status(
        state, worker_id, generation, _text_or_none(fields, "trace"), _text_or_none(fields, "version")
    )


def _text_or_none(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if not (value is None or isinstance(value, str)):
        raise InvalidValue(f"the field '{name}' should be a string but is {type_name(value)}")
    return value


def _not_empty(name: str) -> str:
    if not name:
        raise InvalidValue("a name in the key is empty")
    return name
