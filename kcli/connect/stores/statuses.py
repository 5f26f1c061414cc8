"""The states of connectors and tasks, and the topics that they use, in a log of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcli.connect.decisions.status_records import (
    StatusRecords,
    TopicUse,
    status_entry,
    topic_deletion,
    topic_entry,
)
from kcli.connect.model import Status, TaskId
from kcli.connect.stores.log import RecordLog
from kcli.runtime.clock import Clock


class Statuses:
    """Implements `StatusStore`. A status that is put is shown when it is read back."""

    def __init__(self, log: RecordLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._records = StatusRecords()

    async def start(self) -> None:
        await self._log.start(lambda _, key, value: self._records.replay(key, value))

    async def stop(self) -> None:
        await self._log.stop()

    def put(self, id: TaskId, status: Status, *, safely: bool = False) -> None:
        def is_valid() -> bool:
            return self._records.may_replace(id, status)

        self._log.send(status_entry(id, status), is_valid if safely else None)

    def get(self, id: TaskId) -> Status | None:
        return self._records.get(id)

    def tasks(self, connector: str) -> Mapping[int, Status]:
        return self._records.tasks(connector)

    def connectors(self) -> Iterable[str]:
        return self._records.connectors()

    def topics(self, connector: str) -> Sequence[str]:
        return self._records.topics(connector)

    def put_topic(self, task: TaskId, topic: str) -> None:
        self._log.send(topic_entry(TopicUse(topic, task.connector, task.task, self._clock.now_ms())))

    def delete_topics(self, connector: str) -> None:
        for topic in self.topics(connector):
            self._log.send(topic_deletion(topic, connector))

    async def flush(self) -> None:
        await self._log.flush()
