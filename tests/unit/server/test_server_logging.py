"""The server's log in files: which lines a file has, and when it is renamed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.server import logging as server_logging
from kcli.server import main


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Restores the handlers and levels of the loggers after the test."""
    root, ours = logging.getLogger(), logging.getLogger("kcli")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    for each in root.handlers:
        if each not in handlers:
            each.close()
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def lines(directory: Path) -> dict[str, list[str]]:
    """Returns the messages of each file that is not empty."""
    return {
        path.name: [line.split("] INFO ")[1] for line in path.read_text().splitlines()]
        for path in sorted(directory.iterdir())
        if path.stat().st_size
    }


def test_the_files_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "a" / "logs"
    server_logging.configure(log_directory=str(directory))
    for name in ("KafkaRaftServer", "QuorumController", "LogCleaner"):
        logging.getLogger(f"kcli.server.{name}").info("hello")
    assert lines(directory) == {
        "controller.log": ["hello (kcli.server.QuorumController)"],
        "log-cleaner.log": ["hello (kcli.server.LogCleaner)"],
        "server.log": ["hello (kcli.server.KafkaRaftServer)"],
    }
    assert len(capsys.readouterr().out.splitlines()) == 3  # stdout has all lines


def test_a_file_is_renamed_at_the_full_hour(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("[x] INFO an earlier line\n")
    at = 1_700_000_000
    os.utime(path, (at, at))
    server_logging.configure(log_directory=str(tmp_path))
    logging.getLogger("kcli.server.Test").info("hello")
    hour = time.strftime("%Y-%m-%d-%H", time.localtime(at))
    assert lines(tmp_path) == {
        "server.log": ["hello (kcli.server.Test)"],
        f"server.log.{hour}": ["an earlier line"],
    }
    server = next(
        each for each in logging.getLogger().handlers if isinstance(each, server_logging.HourlyFile)
    )
    assert server.computeRollover(at) == 1_700_002_800


def test_without_files_the_log_goes_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    main._configure_log(str(tmp_path / "file"))
    main._log.info("hello")
    first, last = capsys.readouterr().out.splitlines()
    assert f"ERROR The log cannot be written to files in {tmp_path}/file: File exists" in first
    assert "INFO hello" in last


def test_a_message_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    server_logging.configure()
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("kcli.server.KafkaApis").exception(
            "client id %s", "a\n[2026-11-21 08:30:26,281] INFO forged\u2028b\x85"
        )
    first, *traceback = capsys.readouterr().out.splitlines()
    assert r"client id a\x0a[2026-11-21 08:30:26,281] INFO forged\u2028b\x85 (kcli.server.KafkaApis)" in first
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-1] == "ValueError: broken"
