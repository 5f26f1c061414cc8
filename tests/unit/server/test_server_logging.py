"""The server's log: which lines a file has, the formats, the levels, and what a stack trace becomes."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.server import logging as server_logging
from kcli.server import main
from kcli.server.logging import LogSettings
from kcli.server.logging.names import REQUESTS, STATE_CHANGES
from kcli.server.logging.settings import log_settings
from rigs.node import config_of


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Restores the handlers and levels of the loggers after the test."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, ("kcli", REQUESTS, STATE_CHANGES, "kcli.server.Test"))]
    handlers, levels = root.handlers[:], [each.level for each in loggers]
    yield
    for each in root.handlers:
        if each not in handlers:
            each.close()
    root.handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def lines(directory: Path) -> dict[str, list[str]]:
    """Returns the messages of each file that is not empty."""
    return {
        path.name: [line.split("] INFO ")[1] for line in path.read_text().splitlines()]
        for path in sorted(directory.iterdir())
        if path.stat().st_size
    }


def fails(message: str, *arguments: object) -> None:
    """Logs an error with its exception."""
    try:
        raise ValueError("broken\npart")
    except ValueError:
        logging.getLogger("kcli.server.Test").exception(message, *arguments)


def config(**keys: str) -> BrokerConfig:
    return config_of("/data", **keys)


def test_a_logger_with_its_own_file_is_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "a" / "logs"
    server_logging.configure(LogSettings(directory))
    for name in (
        "server.KafkaRaftServer",
        "server.QuorumController",
        "server.LogCleaner",
        "storage.LogCleaner",
        "state.change.logger",
        "authorizer.logger",
        "request.logger",
    ):
        logging.getLogger(f"kcli.{name}").info("hello")
    logging.getLogger("kcli.request.logger").warning("] INFO hello")
    cleaner = "org.apache.kafka.storage.internals.log"
    assert lines(directory) == {
        "controller.log": ["hello (org.apache.kafka.controller.QuorumController)"],
        "kafka-authorizer.log": ["hello (kafka.authorizer.logger)"],
        "kafka-request.log": ["hello (kafka.request.logger)"],
        "log-cleaner.log": [f"hello ({cleaner}.LogCleaner)", f"hello ({cleaner}.Cleaner)"],
        "server.log": ["hello (kafka.server.KafkaRaftServer)"],
        "state-change.log": ["hello (state.change.logger)"],
    }
    assert [line.split("INFO ")[1] for line in capsys.readouterr().out.splitlines()] == [
        "hello (kafka.server.KafkaRaftServer)"
    ]


def test_the_console_of_a_server_in_the_background_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server_logging.configure(LogSettings(tmp_path))
    logger = logging.getLogger("kcli.server.Test")
    logger.info("one")
    server_logging.leave_console()
    logger.info("two")
    assert "one" in capsys.readouterr().out
    assert lines(tmp_path)["server.log"] == ["one (kafka.server.Test)", "two (kafka.server.Test)"]


def test_without_files_the_log_goes_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert not main._configure_log(LogSettings(tmp_path / "file"))
    main._log.info("hello")
    logging.getLogger("kcli.state.change.logger").info("one of many")
    logging.getLogger("kcli.authorizer.logger").info("denied")
    first, second, third = capsys.readouterr().out.splitlines()
    assert f"ERROR The log cannot be written to files in {tmp_path}/file: File exists" in first
    assert "INFO hello" in second
    assert "INFO denied (kafka.authorizer.logger)" in third


def test_an_error_is_one_line_and_a_stack_trace_is_only_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    server_logging.configure()
    fails("client id %s", "a\n[2026-11-21 08:30:26,281] INFO forged\u2028b\x85")
    (line,) = capsys.readouterr().out.splitlines()
    assert (
        r"client id a\x0a[2026-11-21 08:30:26,281] INFO forged\u2028b\x85: ValueError: broken\x0apart (at "
        in line
    )
    assert line.endswith("in fails) (kafka.server.Test)")
    logging.getLogger("kcli.server.Test").setLevel(logging.DEBUG)
    fails("again")
    first, *traceback = capsys.readouterr().out.splitlines()
    assert first.endswith("ERROR again (kafka.server.Test)")
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-2:] == ["ValueError: broken", "part"]


def test_json_has_one_object_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server_logging.configure(LogSettings(tmp_path, format="json"))
    logging.getLogger("kcli.server.Test").warning("a\nb %s", "é")
    fails("it")
    written = capsys.readouterr().out
    assert (tmp_path / "server.log").read_text() == written
    first, second = map(json.loads, written.splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {"level": "WARN", "logger": "kafka.server.Test", "message": "a\nb é"}
    assert second["error"].startswith("ValueError: broken\\x0apart (at ")
    assert "stack_trace" not in second


def test_the_journal_gets_a_priority_and_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w+") as stream:
        stat = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{stat.st_dev}:{stat.st_ino}")
        server_logging.configure(stream=stream)
        logging.getLogger("kcli.server.Test").warning("hello")
        monkeypatch.setenv("JOURNAL_STREAM", f"{stat.st_dev}:{stat.st_ino + 1}")
        server_logging.configure(stream=stream)
        logging.getLogger("kcli.server.Test").warning("redirected")
        stream.seek(0)
        first, second = stream.read().splitlines()
    assert first == "<4>WARN hello (kafka.server.Test)"
    assert second.startswith("[") and second.endswith("WARN redirected (kafka.server.Test)")


def test_the_settings_of_the_log(tmp_path: Path) -> None:
    settings = log_settings(
        config(
            kcli_log_format="json",
            kcli_log_levels="kafka.request.logger=DEBUG, kafka.server.Test=ERROR",
            kcli_log_file_max_bytes="70000",
            kcli_log_files_kept="3",
        ),
        str(tmp_path),
    )
    assert (settings.format, settings.directory) == ("json", tmp_path)
    assert (settings.limits.max_bytes, settings.limits.files_max) == (70000, 3)
    server_logging.configure(settings, stream=sys.stderr)
    assert logging.getLogger("kcli.request.logger").level == logging.DEBUG
    assert logging.getLogger("kcli.server.Test").level == logging.ERROR


@pytest.mark.parametrize("levels", ["kafka", "=DEBUG", "kafka=LOUD"])
def test_an_invalid_level_is_an_error(levels: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {levels} for configuration kcli.log.levels"):
        log_settings(config(kcli_log_levels=levels), None)
