"""FileStreamSource and FileStreamSink: lines, positions, batches, and the text of values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcli.connectors.file import tasks
from kcli.connectors.file.tasks import WAITING_MAX_BYTES, FileStreamSinkTask, FileStreamSourceTask
from kcli.connectors.interface import Config, Offset, Partition
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException, RetriableException
from rigs.full_disk import files_limited_to


@dataclass
class Context:
    """Implements `SourceTaskContext` and `OffsetReader` for one stored offset."""

    stored: Offset | None = None
    config: Config = field(default_factory=dict)
    transaction: None = None

    @property
    def offsets(self) -> Context:
        return self

    def offset(self, partition: Partition) -> Offset | None:
        return self.stored

    def offsets_of(self, partitions: Iterable[Partition]) -> Sequence[Offset | None]:
        return [self.stored for _ in partitions]


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WAIT_S", 0)


def source(file: Path, stored: Offset | None = None, **config: str) -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    task.context = Context(stored)  # type: ignore[assignment]  # `offsets` of this context is the context itself
    task.start(
        {"file": str(file), "topic": "t", **{key.replace("_", "."): text for key, text in config.items()}}
    )
    return task


def read(task: FileStreamSourceTask) -> list[tuple[object, object]] | None:
    """The values and the positions of a batch."""
    records = task.poll()
    if records is None:
        return None
    return [(record.value, (record.source_offset or {})["position"]) for record in records]


def test_every_end_of_a_line_counts_and_a_last_partial_line_waits(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"a\nb\r\nc\rd\n\ne")
    task = source(file)
    assert read(task) == [("a", 2), ("b", 5), ("c", 7), ("d", 9), ("", 10)]
    assert read(task) is None
    with file.open("a") as more:
        more.write("f\r")
    assert read(task) is None, "a line feed may follow"
    with file.open("a") as more:
        more.write("\ng\n")
    assert read(task) == [("ef", 14), ("g", 16)]


def test_a_position_counts_characters_of_java(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes("é€\n😀\n".encode() + b"\xff\n")
    assert read(source(file)) == [("é€", 3), ("😀", 6), ("\ufffd", 8)]


def test_lines_that_a_batch_leaves_in_the_buffer_wait_until_the_file_grows(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("a\nb\nc\n")
    task = source(file, batch_size="1")
    assert read(task) == [("a", 2)]
    assert read(task) is None
    with file.open("a") as more:
        more.write("d\n")
    assert read(task) == [("b", 4)]
    assert read(task) is None


def test_a_file_that_is_larger_than_the_buffer_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "in"
    lines = [f"line {number}" for number in range(10_000)]
    file.write_text("\n".join(lines) + "\n")
    task = source(file)
    values = [value for _ in range(5) for value, _ in read(task) or ()]
    assert values == lines
    assert read(task) is None


def test_a_line_may_be_longer_than_the_buffer(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("x" * 300_000 + "\ny\n")
    assert read(source(file)) == [("x" * 300_000, 300_001), ("y", 300_003)]


def test_a_task_continues_at_the_stored_position(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_text("one\ntwo\n")
    assert read(source(file, {"position": 4})) == [("two", 8)]
    with pytest.raises(ConnectException, match="Offset position is the incorrect type"):
        source(file, {"position": "4"}).poll()


def test_a_missing_file_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = source(tmp_path / "in")
    assert task.poll() is None
    assert f"Couldn't find file {tmp_path / 'in'} for FileStreamSourceTask, sleeping to wait" in caplog.text
    (tmp_path / "in").write_text("a\n")
    assert read(task) == [("a", 2)]


def test_the_standard_input_has_no_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream:
        monkeypatch.setattr("sys.__stdin__", stream)
        os.write(writing, b"a\nb")
        task = FileStreamSourceTask()
        task.start({"topic": "t"})
        (record,) = task.poll() or ()
        assert (record.value, record.source_partition, record.source_offset) == (
            "a",
            {"filename": None},
            {"position": None},
        )
        assert task.poll() is None
        os.close(writing)
        assert task.poll() is None


def test_a_sink_writes_the_text_of_each_value(tmp_path: Path) -> None:
    task = FileStreamSinkTask()
    task.start({"file": str(tmp_path / "out")})
    values: list[object] = ["a", "b"]
    task.put([SinkRecord("t", 0, at, value) for at, value in enumerate(values)])
    task.put([SinkRecord("t", 0, 2, value) for value in (None, True, {"k": [1, None]})])
    task.put([])
    task.flush({})
    assert (tmp_path / "out").read_text() == "a\nb\nnull\ntrue\n{k=[1, null]}\n"
    task.stop()


def test_a_sink_appends(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before\n")
    task = FileStreamSinkTask()
    task.start({"file": str(tmp_path / "out")})
    task.put([SinkRecord("t", 0, 0, "after")])
    task.stop()
    assert (tmp_path / "out").read_text() == "before\nafter\n"


def test_a_full_disk_neither_loses_a_record_nor_tears_a_line(tmp_path: Path) -> None:
    task = FileStreamSinkTask()
    task.start({"file": str(tmp_path / "out")})
    lines = [f"{number:04}" * 100 for number in range(60)]
    task.put([SinkRecord("t", 0, at, line) for at, line in enumerate(lines)])
    with files_limited_to(4_500):
        for _ in range(2):  # the second one is the commit of a task that has failed
            with pytest.raises(ConnectException, match="out: File too large"):
                task.flush({})
        task.put([SinkRecord("t", 0, 0, "x" * WAITING_MAX_BYTES)])
        with pytest.raises(RetriableException, match="File too large"):
            task.put([SinkRecord("t", 0, 0, "comes again")])
    task.flush({})
    task.stop()
    assert (tmp_path / "out").read_text().splitlines() == [*lines, "x" * WAITING_MAX_BYTES]


def test_a_sink_refuses_a_file_that_it_cannot_open(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "out"
    with pytest.raises(ConnectException, match=r"Couldn't find or create file .* for FileStreamSinkTask"):
        FileStreamSinkTask().start({"file": str(missing)})
