"""The store of statuses."""

from __future__ import annotations

from kcli.connect.model import State, Status, TaskId
from kcli.connect.stores.log import MemoryLog
from kcli.connect.stores.statuses import Statuses
from rigs.loops import on_a_loop

TASK = TaskId("a", 0)


class StoppedClock:
    def now_ms(self) -> int:
        return 123

    def monotonic(self) -> float:
        return 0.0


@on_a_loop
async def test_statuses_and_topics_are_shown_until_they_are_deleted() -> None:
    store = Statuses(MemoryLog(), StoppedClock())
    await store.start()
    running = Status(State.RUNNING, "w2", 5)
    store.put(TaskId("a", -1), running)
    store.put(TASK, running)
    store.put(TASK, Status(State.FAILED, "w1", 4), safely=True)
    assert store.get(TASK) == running
    assert (dict(store.tasks("a")), list(store.connectors())) == ({0: running}, ["a"])
    store.put_topic(TASK, "t")
    assert list(store.topics("a")) == ["t"]
    store.delete_topics("a")
    assert list(store.topics("a")) == []
    store.put(TASK, Status(State.DESTROYED, "w2", 5))
    assert store.get(TASK) is None
    await store.flush()
    await store.stop()
