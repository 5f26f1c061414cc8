"""The store of configurations: which records it writes together, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kcli.connect.decisions import config_records as records
from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.decisions.json_values import Entry
from kcli.connect.model import RestartRequest, TargetState, TaskId
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.log import MemoryLog
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.formats.connect.errors import ConnectException
from rigs.connect_stores import Changes
from rigs.loops import on_a_loop

CONFIG = {"name": "a"}
KEY = SessionKey(b"k", "HmacSHA256", 1)


class GroupedLog(MemoryLog):
    """Remembers which records were written together."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[object] = []
        self.error: KafkaError | None = None

    async def append(self, entries: Sequence[Entry], *, as_leader: bool) -> None:
        if self.error is not None:
            raise self.error
        self.groups.append([key.decode() for key, _ in entries] if as_leader else entries[0][0].decode())
        await super().append(entries, as_leader=as_leader)


@on_a_loop
async def test_records_that_belong_together_are_written_together() -> None:
    log, changes = GroupedLog(), Changes()
    configs = Configs(log)
    await configs.start(changes)
    await configs.put_connector("a", CONFIG, TargetState.STOPPED)
    await configs.put_connector("a", CONFIG, None)
    await configs.put_task_configs("a", [{"n": "0"}, {"n": "1"}])
    await configs.put_task_configs("a", [])
    await configs.put_target_state("a", TargetState.STARTED)
    await configs.put_session_key(KEY)
    await configs.put_restart_request(RestartRequest("a"))
    await configs.put_task_count_record("a", 2)
    await configs.put_logger_level("root", "DEBUG")
    await configs.remove_connector("a")
    assert log.groups == [
        ["target-state-a", "connector-a"],
        ["connector-a"],
        ["task-a-0", "task-a-1"],
        ["commit-a"],
        ["commit-a"],
        "target-state-a",
        ["session-key"],
        ["restart-connector-a"],
        ["tasks-fencing-a"],
        "logger-cluster-root",
        ["connector-a", "target-state-a"],
    ]
    assert changes.seen == [
        ("connector", "a"),
        ("connector", "a"),
        ("tasks", TaskId("a", 0), TaskId("a", 1)),
        ("tasks",),
        ("target", "a"),
        KEY,
        RestartRequest("a"),
        ("logger", "root", "DEBUG"),
        ("removed", "a"),
    ]
    assert configs.state.session_key == KEY
    await configs.stop()


@on_a_loop
async def test_records_from_before_the_start_are_no_changes() -> None:
    class OldLog(MemoryLog):
        async def start(self, take: Callable[[int, bytes | None, bytes | None], None]) -> None:
            await super().start(take)
            self.send(records.connector_entry("a", CONFIG))
            self.send(records.restart_entry(RestartRequest("a")))

    changes = Changes()
    configs = Configs(OldLog())
    await configs.start(changes)
    assert changes.seen == []
    assert configs.state.connectors == {"a": CONFIG}


@on_a_loop
async def test_a_failed_write_has_the_message_of_java() -> None:
    log = GroupedLog()
    configs = Configs(log)
    await configs.start(Changes())
    log.error = error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ConnectException, match="Error writing connector configuration to Kafka"):
        await configs.put_connector("a", CONFIG, None)
    with pytest.raises(ConnectException, match=r"Error writing restart request for \{connectorName='a', "):
        await configs.put_restart_request(RestartRequest("a"))
