"""Records of the status topic."""

from __future__ import annotations

import pytest

from kcli.connect.decisions import status_records as records
from kcli.connect.decisions.status_records import StatusRecords, TopicUse
from kcli.connect.model import CONNECTOR, State, Status, TaskId

CONNECTOR_A = TaskId("a", CONNECTOR)
TASK = TaskId("a", 0)


def status(state: State, worker: str = "w1", generation: int = 1) -> Status:
    return Status(state, worker, generation)


def statuses(*put: tuple[TaskId, Status]) -> StatusRecords:
    table = StatusRecords()
    for id, value in put:
        table.replay(*records.status_entry(id, value))
    return table


def test_states_are_found_by_connector_and_task() -> None:
    table = statuses(
        (CONNECTOR_A, status(State.RUNNING)), *((TaskId("a", n), status(State.FAILED)) for n in (2, 1))
    )
    assert table.get(CONNECTOR_A) == status(State.RUNNING)
    assert list(table.tasks("a")) == [1, 2]
    assert list(table.connectors()) == ["a"]


def test_a_deleted_connector_takes_its_tasks_with_it() -> None:
    table = statuses((CONNECTOR_A, status(State.RUNNING)), (TASK, status(State.RUNNING)))
    table.replay(*records.status_entry(CONNECTOR_A, status(State.DESTROYED)))
    assert table.get(CONNECTOR_A) is None
    assert table.tasks("a") == {}


@pytest.mark.parametrize(("generation", "is_late"), [(4, True), (5, True), (6, False)])
def test_a_late_unassigned_does_not_replace_running(generation: int, is_late: bool) -> None:
    table = statuses(
        (TASK, status(State.RUNNING, "w2", 5)), (TASK, status(State.UNASSIGNED, "w1", generation))
    )
    read = table.get(TASK)
    assert read is not None
    assert (read.state is State.RUNNING) is is_late


def test_a_safe_write_does_not_overwrite_a_newer_state_of_another_worker() -> None:
    table = statuses((TASK, status(State.RUNNING, "w2", 5)))
    assert not table.may_replace(TASK, status(State.UNASSIGNED, "w1", 4))
    assert table.may_replace(TASK, status(State.UNASSIGNED, "w1", 5))
    assert table.may_replace(TASK, status(State.UNASSIGNED, "w2", 4))
    assert table.may_replace(TaskId("b", 0), status(State.UNASSIGNED, "w1", 1))


def test_topics_are_listed_until_they_are_reset() -> None:
    table = StatusRecords()
    table.replay(*records.topic_entry(TopicUse("t", "a", 0, 123)))
    assert table.topics("a") == ("t",)
    table.replay(*records.topic_deletion("t", "a"))
    assert table.topics("a") == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("status-connector-", "null"),
        ("status-connector-b", "{"),
        ("status-connector-b", '{"state":"SLEEPING","worker_id":"w","generation":1}'),
        ("status-connector-b", '{"state":"RUNNING","worker_id":"w"}'),
        ("status-connector-b", '{"state":"RUNNING","worker_id":"w","generation":1,"trace":5}'),
        ("status-task-b", '{"state":"RUNNING","worker_id":"w","generation":1}'),
        ("status-task-b-x", '{"state":"RUNNING","worker_id":"w","generation":1}'),
        ("status-topic-t", '{"topic":{}}'),
        ("status-topic-:connector-b", "null"),
        ("status-topic-t:connector-", "null"),
        ("status-topic-t:connector-b", '{"topic":null}'),
        ("other", "{}"),
    ],
)
def test_an_invalid_record_is_logged(key: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    table = StatusRecords()
    table.replay(key.encode(), value.encode())
    assert not table.connectors()
    assert not table.tasks("b")
    assert not table.topics("b")
    assert "Ignoring a record of the status topic" in caplog.text


def test_the_connector_in_a_task_key_may_have_hyphens() -> None:
    table = statuses((TaskId("a-b-1", 7), status(State.RUNNING)))
    assert table.get(TaskId("a-b-1", 7)) is not None
