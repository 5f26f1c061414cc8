"""Records of the config topic: what a worker makes of them, also if compaction or a stranger has changed them."""

from __future__ import annotations

import json
import logging

import pytest

from kcli.connect.decisions import config_records as records
from kcli.connect.decisions.config_records import ConfigChange, ConfigRecords, TasksChanged
from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.decisions.json_values import Entry
from kcli.connect.model import RestartRequest, TargetState, TaskId

CONFIG = {"connector.class": "FileStreamSource", "name": "a"}


class Topic:
    """A config topic and one reader."""

    def __init__(self) -> None:
        self.reader = ConfigRecords()
        self.offset = 0

    def read(self, *entries: Entry) -> list[ConfigChange | None]:
        changes = []
        for key, value in entries:
            changes.append(self.reader.replay(self.offset, key, value))
            self.offset += 1
        return changes

    def with_tasks(self, name: str, count: int) -> list[ConfigChange | None]:
        tasks = [records.task_entry(TaskId(name, number), {"n": str(number)}) for number in range(count)]
        return self.read(*tasks, records.commit_entry(name, count))


@pytest.fixture
def topic() -> Topic:
    topic = Topic()
    topic.read(records.connector_entry("a", CONFIG))
    return topic


def test_a_connector_starts_in_the_state_started(topic: Topic) -> None:
    assert topic.reader.state.connectors == {"a": CONFIG}
    assert topic.reader.state.target_states == {"a": TargetState.STARTED}
    assert topic.reader.state.offset == 1


def test_a_snapshot_does_not_change(topic: Topic) -> None:
    before = topic.reader.state
    assert topic.reader.state is before
    topic.read(records.connector_entry("b", CONFIG))
    assert list(before.connectors) == ["a"]
    assert list(topic.reader.state.connectors) == ["a", "b"]


def test_tasks_take_effect_at_their_commit(topic: Topic) -> None:
    topic.read(records.task_entry(TaskId("a", 0), {"n": "0"}), records.task_entry(TaskId("a", 1), {"n": "1"}))
    assert topic.reader.state.task_ids("a") == ()
    assert topic.read(records.commit_entry("a", 2)) == [TasksChanged((TaskId("a", 0), TaskId("a", 1)))]
    state = topic.reader.state
    assert state.task_ids("a") == (TaskId("a", 0), TaskId("a", 1))
    assert state.task_config(TaskId("a", 1)) == {"n": "1"}
    assert state.task_config(TaskId("a", 2)) is None
    assert state.applied_configs == {"a": CONFIG}
    assert (state.generations, state.pending_fencing) == ({"a": 0}, {"a"})


def test_an_incomplete_set_makes_the_connector_inconsistent_until_a_whole_set(topic: Topic) -> None:
    topic.with_tasks("a", 1)
    changes = topic.read(records.task_entry(TaskId("a", 1), {}), records.commit_entry("a", 2))
    assert changes == [None, TasksChanged(())]
    assert topic.reader.state.inconsistent == {"a"}
    assert topic.reader.state.task_ids("a") == ()
    topic.with_tasks("a", 2)
    assert not topic.reader.state.inconsistent
    assert len(topic.reader.state.task_ids("a")) == 2
    assert topic.reader.state.generations == {"a": 1}


def test_records_of_dropped_tasks_do_not_disturb_a_smaller_set(topic: Topic) -> None:
    compacted = [records.task_entry(TaskId("a", 1), {}), records.task_entry(TaskId("a", 0), {})]
    topic.read(*compacted, records.commit_entry("a", 1))
    assert topic.reader.state.task_ids("a") == (TaskId("a", 0),)


def test_an_empty_set_is_complete_and_no_new_generation(topic: Topic) -> None:
    topic.with_tasks("a", 1)
    topic.read(records.commit_entry("a", 0))
    assert topic.reader.state.tasks == {"a": ()}
    assert topic.reader.state.generations == {"a": 0}


def test_tasks_of_a_deleted_connector_are_ignored(topic: Topic) -> None:
    topic.with_tasks("a", 1)
    topic.read(records.connector_entry("a", None), records.target_state_entry("a", None))
    assert topic.with_tasks("a", 1) == [None, None]
    state = topic.reader.state
    assert (state.connectors, state.tasks, state.target_states) == ({}, {}, {})


def test_a_task_count_record_ends_the_need_for_fencing(topic: Topic) -> None:
    topic.with_tasks("a", 3)
    topic.read(records.fencing_entry("a", 3))
    assert topic.reader.state.pending_fencing == frozenset()
    assert topic.reader.state.task_count_records == {"a": 3}


def test_a_stopped_connector_is_paused_for_old_workers(topic: Topic) -> None:
    entry = records.target_state_entry("a", TargetState.STOPPED)
    assert entry == (b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    assert topic.read(entry, entry) == [records.TargetStateChanged("a"), None]
    assert topic.reader.state.target_states == {"a": TargetState.STOPPED}
    topic.read((b"target-state-a", b'{"state":"PAUSED"}'))
    assert topic.reader.state.target_states == {"a": TargetState.PAUSED}
    topic.read(records.target_state_entry("a", None))
    assert topic.reader.state.target_states == {"a": TargetState.STARTED}


def test_a_target_state_before_the_connector_is_no_change_of_it() -> None:
    topic = Topic()
    assert topic.read(records.target_state_entry("b", TargetState.STOPPED)) == [None]
    topic.read(records.connector_entry("b", CONFIG))
    assert topic.reader.state.target_states == {"b": TargetState.STOPPED}


def test_a_session_key_is_read_back_and_hidden_in_texts(topic: Topic) -> None:
    key = SessionKey(b"secret", "HmacSHA256", 5)
    assert topic.read(records.session_key_entry(key)) == [records.SessionKeyChanged(key)]
    assert topic.reader.state.session_key == key
    assert "secret" not in repr(topic.reader.state)


def test_a_restart_without_fields_restarts_only_the_connector(topic: Topic) -> None:
    assert topic.read((b"restart-connector-a", b'{"only-failed":"yes"}')) == [RestartRequest("a")]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("connector-a", "[]"),
        ("connector-a", '{"properties":1}'),
        ("connector-a", '{"properties":{"a":1}}'),
        ("task-a-0", None),
        ("task-a-x", '{"properties":{}}'),
        ("task-a", '{"properties":{}}'),
        ("commit-a", "null"),
        ("commit-a", '{"tasks":"1"}'),
        ("commit-a", '{"tasks":4294967296}'),
        ("target-state-a", '{"state":"RUNNING"}'),
        ("target-state-a", '{"state":5}'),
        ("tasks-fencing-a", "{}"),
        ("session-key", '{"key":"*","algorithm":"HmacSHA256","creation-timestamp":1}'),
        ("session-key", None),
        ("restart-connector-a", None),
        ("logger-cluster-a", '{"level":5}'),
        ("unknown", "{}"),
    ],
)
def test_an_invalid_record_is_logged_and_only_moves_the_offset(
    topic: Topic, key: str, value: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    before = topic.reader.state
    with caplog.at_level(logging.ERROR, "kcli.connect.configs"):
        assert topic.read((key.encode(), None if value is None else value.encode())) == [None]
    after = topic.reader.state
    assert (after.connectors, after.target_states, after.tasks) == (
        before.connectors,
        before.target_states,
        before.tasks,
    )
    assert after.offset == 2
    assert "Ignoring record 1" in caplog.text


def test_a_record_that_is_no_json_does_not_move_the_offset(topic: Topic) -> None:
    assert topic.read((b"connector-a", b"{")) == [None]
    assert topic.reader.state.offset == 1


def test_a_property_may_be_null(topic: Topic) -> None:
    topic.read((b"connector-a", b'{"properties":{"topic":null}}'))
    assert json.dumps(topic.reader.state.connectors["a"]) == '{"topic": null}'
