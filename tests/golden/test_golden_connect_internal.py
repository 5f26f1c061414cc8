"""The internal topics of Java's Connect: every record is understood, and our encoders write the same bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.connect.decisions.config_records import (
    COMMIT_PREFIX,
    FENCING_PREFIX,
    TARGET_STATE_PREFIX,
    TASK_PREFIX,
    ConfigRecords,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerLevelChanged,
    SessionKeyChanged,
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
from kcli.connect.decisions.json_values import Entry, task_of
from kcli.connect.decisions.offset_records import (
    OffsetRecords,
    offset_key,
    offset_value,
    read_offset,
    source_partition,
)
from kcli.connect.decisions.status_records import StatusRecords, status_entry, topic_deletion, topic_entry
from kcli.connect.model import CONNECTOR, RestartRequest, State, Status, TaskId
from kcli.connect.stores.java_map import decode_map, encode_map
from rigs import golden3
from rigs.connect_frames import raw_entry

LIVES = ("life-one", "life-own-offsets", "life-two-workers")
RECORDS_MIN = 200
OFFSET_FILES_MIN = 15
"""What the recording has at least."""


def records(path: Path) -> Iterator[tuple[str, int, Entry]]:
    """Topic, offset, key and value of each record."""
    for step in golden3.steps(path):
        for each in step.get("records", ()):
            yield each["topic"], each["offset"], raw_entry(each)


def written_configs(configs: ConfigRecords, entries: list[Entry]) -> Iterator[Entry]:
    """Replays entries of the config topic, and encodes again what they mean."""
    for offset, (key, value) in enumerate(entries):
        name = key.decode()
        match configs.replay(offset, key, value):
            case ConnectorChanged(connector):
                yield connector_entry(connector, configs.state.connectors[connector])
            case ConnectorRemoved(connector):
                yield connector_entry(connector, None)
            case TasksChanged(tasks):
                for task in tasks:
                    config = configs.state.task_config(task)
                    assert config is not None
                    yield task_entry(task, config)
                connector = name.removeprefix(COMMIT_PREFIX)
                yield commit_entry(connector, len(configs.state.tasks[connector]))
            case RestartRequest() as request:
                yield restart_entry(request)
            case SessionKeyChanged(session_key):
                yield session_key_entry(session_key)
            case LoggerLevelChanged(logger, level):
                yield logger_entry(logger, level)
            case _:
                yield from _silent(configs, name, value)


def _silent(configs: ConfigRecords, key: str, value: bytes | None) -> Iterator[Entry]:
    """Encodes a record that changes the state without a change for listeners."""
    if key.startswith(TARGET_STATE_PREFIX):
        connector = key.removeprefix(TARGET_STATE_PREFIX)
        target = None if value is None else configs.state.target_states[connector]
        yield target_state_entry(connector, target)
    elif key.startswith(FENCING_PREFIX):
        connector = key.removeprefix(FENCING_PREFIX)
        yield fencing_entry(connector, configs.state.task_count_records[connector])
    else:
        assert key.startswith(TASK_PREFIX), key


def written_status(raw_key: bytes, value: bytes | None) -> Entry:
    """Reads a record of the status topic alone, because an older record may make it void, and encodes it again."""
    statuses, key = StatusRecords(), raw_key.decode()
    statuses.replay(raw_key, value)
    if key.startswith("status-topic-"):
        topic, _, connector = key.removeprefix("status-topic-").partition(":connector-")
        use = statuses.topic(connector, topic)
        return topic_deletion(topic, connector) if use is None else topic_entry(use)
    task = task_of(key, "status-task-") if key.startswith("status-task-") else None
    id = task or TaskId(key.removeprefix("status-connector-"), CONNECTOR)
    status = statuses.get(id)
    if value is None:
        assert status is None
        status = Status(State.DESTROYED, "", 0)
    assert status is not None
    return status_entry(id, status)


@pytest.mark.parametrize("life", LIVES)
def test_the_records_of_a_life_are_written_byte_for_byte(life: str) -> None:
    path = golden3.recording(f"connect/internal/{life}.jsonl")
    configs, offsets = ConfigRecords(), OffsetRecords()
    config_entries = [entry for topic, _, entry in records(path) if topic == "configs"]
    assert list(written_configs(configs, config_entries)) == config_entries
    assert configs.state.offset == len(config_entries)
    assert not configs.state.inconsistent
    for topic, _, (key, value) in records(path):
        if topic == "status":
            assert written_status(key, value) == (key, value)
        elif topic.endswith("offsets"):
            offsets.replay(key, value)
            source = source_partition(key)
            assert source is not None
            assert (offset_key(*source), offset_value(read_offset(value))) == (key, value)
            assert (key in offsets.keys(source[0]).values()) is (value is not None)


def test_all_records_of_the_recording_are_read() -> None:
    lives = [golden3.recording(f"connect/internal/{life}.jsonl") for life in LIVES]
    assert sum(1 for path in lives for _ in records(path)) >= RECORDS_MIN


def test_offset_files_of_java_are_written_byte_for_byte() -> None:
    count = 0
    for run in golden3.steps(golden3.recording("connect/standalone/standalone.jsonl")):
        files = [run.get("offsets_file"), *(step.get("base64") for step in run["steps"] or ())]
        for content in (base64.b64decode(each) for each in files if each):
            if content != b"garbage":
                assert encode_map(decode_map(content)) == content
                count += 1
    assert count >= OFFSET_FILES_MIN
