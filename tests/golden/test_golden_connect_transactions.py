"""The config topic of Java's workers with exactly once: our store writes the same records at the same offsets.

A transaction ends with a marker, which has an offset too. So equal offsets show that the same records are in the same
transactions, and that target states are outside of transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kcli.connect.decisions.config_records import (
    COMMIT_PREFIX,
    CONNECTOR_PREFIX,
    FENCING_PREFIX,
    LOGGER_PREFIX,
    RESTART_PREFIX,
    SESSION_KEY,
    TARGET_STATE_PREFIX,
    TASK_PREFIX,
    ConfigRecords,
)
from kcli.connect.decisions.json_values import Entry
from kcli.connect.model import RestartRequest
from kcli.connect.stores.configs import Configs
from rigs import golden3
from rigs.connect_cluster import connect_cluster
from rigs.connect_frames import raw_entry
from rigs.connect_stores import Changes
from rigs.loops import on_a_loop

STORIES = ("eos-basic", "eos-boundaries", "eos-zombie", "eos-preparing")
RECORDS_MIN = 20

Written = tuple[int, bytes, bytes | None]


def recorded(story: str) -> list[Written]:
    """Offset, key and value of the records of the config topic."""
    return [
        (each["offset"], *raw_entry(each))
        for step in golden3.steps(golden3.recording("connect/eos.jsonl"))
        if step["story"] == story
        for each in step["records"]
        if each["topic"].endswith("-configs")
    ]


async def write_again(configs: Configs, entries: Sequence[Entry]) -> None:
    """Makes the calls of the store that must have led to these records."""
    meaning = ConfigRecords()
    for offset, (raw_key, value) in enumerate(entries):
        change = meaning.replay(offset, raw_key, value)
        state, key = meaning.state, raw_key.decode()
        if key == SESSION_KEY:
            assert state.session_key is not None
            await configs.put_session_key(state.session_key)
        elif key.startswith(CONNECTOR_PREFIX):
            name = key.removeprefix(CONNECTOR_PREFIX)
            if value is None:
                await configs.remove_connector(name)
            else:
                await configs.put_connector(name, state.connectors[name], None)
        elif key.startswith(COMMIT_PREFIX):
            name = key.removeprefix(COMMIT_PREFIX)
            await configs.put_task_configs(name, state.tasks[name])
        elif key.startswith(TARGET_STATE_PREFIX):
            name = key.removeprefix(TARGET_STATE_PREFIX)
            if value is not None:
                await configs.put_target_state(name, state.target_states[name])
        elif key.startswith(FENCING_PREFIX):
            name = key.removeprefix(FENCING_PREFIX)
            await configs.put_task_count_record(name, state.task_count_records[name])
        elif key.startswith(RESTART_PREFIX):
            assert isinstance(change, RestartRequest)
            await configs.put_restart_request(change)
        else:
            assert key.startswith((TASK_PREFIX, LOGGER_PREFIX)), key


@pytest.mark.parametrize("story", STORIES)
def test_the_same_records_are_in_the_same_transactions(story: str, tmp_path: Path) -> None:
    expected = recorded(story)

    @on_a_loop
    async def replay() -> None:
        async with connect_cluster(tmp_path) as cluster:
            configs = (await cluster.topics(exactly_once_source_support="enabled")).configs()
            await configs.start(Changes())
            cluster.at_end(configs.stop)
            await configs.claim()
            await write_again(configs, [(key, value) for _, key, value in expected])
            changes = await cluster.records("configs", committed=True)
            assert [(each.offset, each.key, each.value) for each in changes] == expected

    replay()


def test_all_stories_with_exactly_once_are_replayed() -> None:
    path = golden3.recording("connect/eos-stories.jsonl")
    assert {line["story"] for line in golden3.steps(path)} == set(STORIES)
    assert sum(len(recorded(story)) for story in STORIES) >= RECORDS_MIN
