"""A file of the log: when it is renamed, which files are kept, and what a failed write does."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kcli.server.logging import rotation
from kcli.server.logging.rotation import FileLimits, RotatedFile

HOUR = 1_700_002_800
"""The time of a full hour."""


class Stage:
    """A file of the log, with a clock that a test moves. `made` has the files to close after the test."""

    made: ClassVar[list[RotatedFile]] = []

    def __init__(self, directory: Path, limits: FileLimits) -> None:
        self.directory = directory
        self.now = float(HOUR)
        self.file = RotatedFile(directory / "a.log", limits, lambda: self.now)
        self.made.append(self.file)

    def write(self, text: str) -> None:
        self.file.handle(logging.LogRecord("a", logging.INFO, "", 0, text, None, None))

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.directory.iterdir())}


@pytest.fixture(autouse=True)
def closed_files() -> Iterator[None]:
    yield
    while Stage.made:
        Stage.made.pop().close()


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%d-%H", time.localtime(seconds))


def test_a_file_is_renamed_at_the_full_hour(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FileLimits())
    stage.now += 3599
    stage.write("one")
    stage.now += 1
    stage.write("two")
    assert stage.files() == {"a.log": "two\n", f"a.log.{stamp(HOUR)}": "one\n"}
    stage.now += 7200
    assert stage.file.path.read_text() == "two\n", "an hour without lines renames nothing"


def test_the_file_of_an_earlier_hour_is_renamed_after_a_start(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("earlier\n")
    os.utime(tmp_path / "a.log", (HOUR - 7200, HOUR - 7200))
    stage = Stage(tmp_path, FileLimits())
    stage.write("now")
    assert stage.files() == {"a.log": "now\n", f"a.log.{stamp(HOUR - 7200)}": "earlier\n"}


def test_a_full_file_is_renamed_and_the_oldest_are_deleted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FileLimits(max_bytes=10, files_max=2))
    (tmp_path / "b.log").write_text("another log")
    (tmp_path / "a.log.note").write_text("a file of an operator")
    for number in range(12):
        stage.write(f"line{number:02}")
    name = f"a.log.{stamp(HOUR)}"
    assert stage.files() == {
        "a.log": "line11\n",
        "a.log.note": "a file of an operator",
        "b.log": "another log",
        f"{name}.10": "line10\n",
        f"{name}.9": "line09\n",
    }


def test_a_line_that_is_larger_than_the_limit_is_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FileLimits(max_bytes=3))
    stage.write("a long line")
    assert stage.files() == {"a.log": "a long line\n"}


def test_a_full_disk_is_reported_once_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(tmp_path, FileLimits())
    with open("/dev/full", "ab", buffering=0) as full:
        whole, stage.file._file = stage.file._file, full
        stage.write("one")
        stage.write("two")
        stage.file._file = whole
    stage.write("three")
    assert stage.files() == {"a.log": "three\n"}
    assert capsys.readouterr().err == (
        f"The log cannot be written to {tmp_path}/a.log: No space left on device\n"
    )


def test_a_file_that_cannot_be_renamed_is_written_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, FileLimits(max_bytes=4))

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.replace", refuse)
    stage.write("one")
    stage.write("two")
    assert stage.files() == {"a.log": "one\ntwo\n"}


def failing_open(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Path]:
    """Lets the opening of a file fail until the returned list is cleared. The list gets the tries."""
    whole, tries = Path.open, [Path("none")]

    def refuse(path: Path, *rest: Any, **options: Any) -> Any:
        if path.name == name and tries:
            tries.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(path, *rest, **options)

    monkeypatch.setattr(Path, "open", refuse)
    return tries


def test_a_rotation_whose_new_file_cannot_be_opened_is_tried_again_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, FileLimits(max_bytes=4))
    stage.write("one")
    tries = failing_open(monkeypatch, "a.log.new")
    stage.write("two")
    stage.write("three")
    assert len(tries) == 2, "the second line does not try again"
    assert stage.files() == {"a.log": "one\ntwo\nthree\n"}
    tries.clear()
    stage.write("four")
    assert stage.files() == {"a.log": "one\ntwo\nthree\nfour\n"}
    stage.now += rotation.CHECK_SECONDS
    stage.write("five")
    assert stage.files() == {"a.log": "five\n", f"a.log.{stamp(HOUR)}": "one\ntwo\nthree\nfour\n"}


def test_a_new_file_that_cannot_get_its_name_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, FileLimits(max_bytes=4))
    stage.write("one")
    whole = os.replace

    def refuse(source: Path, target: Path) -> None:
        if source.name == "a.log.new":
            raise PermissionError
        whole(source, target)

    monkeypatch.setattr("os.replace", refuse)
    stage.write("two")
    assert stage.files() == {f"a.log.{stamp(HOUR)}": "one\ntwo\n"}
    stage.now += rotation.CHECK_SECONDS
    stage.write("three")
    assert stage.files() == {"a.log": "three\n", f"a.log.{stamp(HOUR)}": "one\ntwo\n"}


@pytest.mark.parametrize("target", [None, "moved"])
def test_a_file_that_is_removed_or_moved_is_opened_again(tmp_path: Path, target: str | None) -> None:
    stage = Stage(tmp_path, FileLimits())
    stage.write("one")
    moved = {} if target is None else {target: "one\ntwo\n"}
    if target is None:
        stage.file.path.unlink()
    else:
        stage.file.path.rename(tmp_path / target)
    stage.write("two")
    assert stage.files() == moved
    stage.now += rotation.CHECK_SECONDS
    stage.write("three")
    stage.write("four")
    assert stage.files() == moved | {"a.log": "three\nfour\n"}


def test_a_removed_file_is_opened_again_at_a_rotation(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FileLimits(max_bytes=4))
    stage.write("one")
    stage.file.path.unlink()
    stage.write("two")
    assert stage.files() == {"a.log": "two\n"}


def test_a_line_after_a_part_of_a_line_begins_with_a_new_line(tmp_path: Path) -> None:
    class Full:
        """A file on a disk with room for some bytes."""

        def __init__(self, file: Any, room: int) -> None:
            self.file, self.room = file, room

        def write(self, line: bytes) -> int:
            if not self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = self.file.write(line[: self.room])
            self.room -= written
            return int(written)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    stage = Stage(tmp_path, FileLimits())
    full: Any = Full(stage.file._file, 7)
    stage.file._file = full
    stage.write("whole")
    stage.write("cut")
    stage.write("lost")
    full.room = 100
    stage.write("next")
    stage.write("last")
    assert stage.files() == {"a.log": "whole\nc\nnext\nlast\n"}


def test_a_large_output_file_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "OUTPUT_MAX_BYTES", 3)
    file = tmp_path / "kafkaServer.out"
    rotation.bound_output_file(file)
    file.write_text("abc")
    rotation.bound_output_file(file)
    assert file.exists()
    file.write_text("abcd")
    rotation.bound_output_file(file)
    assert not file.exists()
    assert (tmp_path / "kafkaServer.out.1").read_text() == "abcd"
