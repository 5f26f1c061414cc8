"""Stores of offsets: in a log, in two logs, and in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kcli.connect.decisions.json_values import Entry
from kcli.connect.stores.java_map import decode_map
from kcli.connect.stores.log import MemoryLog
from kcli.connect.stores.offset_file import OffsetFile
from kcli.connect.stores.offsets import ConnectorOffsets, Offsets
from kcli.errors import ErrorCode, error_for
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.disk import SystemDisk
from rigs.loops import on_a_loop

KEY, OTHER = b'["a",{"f":"1"}]', b'["a",{"f":"2"}]'


class NamedLog(MemoryLog):
    """Notes its writes in a list that several logs share."""

    def __init__(self, name: str, writes: list[tuple[str, Mapping[bytes, bytes | None]]]) -> None:
        super().__init__()
        self._name = name
        self._writes = writes
        self.error: Exception | None = None

    async def append(self, entries: Sequence[Entry], *, as_leader: bool) -> None:
        if self.error is not None:
            raise self.error
        self._writes.append((self._name, dict(entries)))
        await super().append(entries, as_leader=as_leader)


@on_a_loop
async def test_offsets_are_found_by_key_and_partitions_by_connector() -> None:
    store = Offsets(MemoryLog())
    await store.start()
    await store.put({KEY: b"1", OTHER: b"2"})
    await store.put({OTHER: None})
    await store.refresh()
    assert (store.get(KEY), store.get(OTHER)) == (b"1", None)
    assert list(store.keys("a").values()) == [KEY]
    await store.stop()


@on_a_loop
async def test_the_own_topic_of_a_connector_takes_precedence_and_is_copied() -> None:
    writes: list[tuple[str, Mapping[bytes, bytes | None]]] = []
    workers = Offsets(NamedLog("worker", writes))
    store = ConnectorOffsets(Offsets(NamedLog("own", writes)), workers)
    await workers.start()
    await store.start()
    await workers.put({KEY: b"old", OTHER: b"2"})
    writes.clear()
    await store.put({KEY: b"new"})
    assert (store.get(KEY), store.get(OTHER)) == (b"new", b"2")
    assert list(store.keys("a").values()) == [KEY, OTHER]
    await store.put({KEY: None, OTHER: b"3"})
    await store.refresh()
    await store.stop()
    assert writes == [
        ("own", {KEY: b"new"}),
        ("worker", {KEY: b"new"}),
        ("worker", {KEY: None}),
        ("own", {KEY: None, OTHER: b"3"}),
        ("worker", {OTHER: b"3"}),
    ]


@on_a_loop
async def test_a_failed_copy_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    workers_log = NamedLog("worker", [])
    workers = Offsets(workers_log)
    store = ConnectorOffsets(Offsets(MemoryLog()), workers)
    await workers.start()
    await store.start()
    workers_log.error = error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    await store.put({KEY: b"1"})
    await store.stop()
    assert "Failed to write offsets to secondary backing store" in caplog.text


@on_a_loop
async def test_the_file_has_the_form_of_java_and_keeps_deleted_offsets(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    store = OffsetFile(str(path), SystemDisk())
    await store.start()
    await store.put({KEY: b"1", OTHER: b"2"})
    await store.put({OTHER: None})
    await store.stop()
    assert decode_map(path.read_bytes()) == {KEY: b"1", OTHER: None}
    again = OffsetFile(str(path), SystemDisk())
    await again.start()
    assert (again.get(KEY), again.get(OTHER)) == (b"1", None)
    assert list(again.keys("a").values()) == [KEY]


@on_a_loop
async def test_a_file_that_is_not_complete_counts_as_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "connect.offsets"
    path.write_bytes(b"\xac\xed\0")
    store = OffsetFile(str(path), SystemDisk())
    await store.start()
    assert store.get(KEY) is None
    assert "is not complete" in caplog.text


@on_a_loop
async def test_another_file_is_refused_with_the_message_of_java(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    path.write_bytes(b"garbage")
    with pytest.raises(
        ConnectException, match=r"java\.io\.StreamCorruptedException: invalid stream header: 6761"
    ):
        await OffsetFile(str(path), SystemDisk()).start()


@on_a_loop
async def test_a_file_that_cannot_be_written_fails_the_put(tmp_path: Path) -> None:
    store = OffsetFile(str(tmp_path / "missing" / "connect.offsets"), SystemDisk())
    await store.start()
    with pytest.raises(ConnectException, match="No such file"):
        await store.put({KEY: b"1"})
    assert store.get(KEY) == b"1"
