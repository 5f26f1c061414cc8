"""The server's log. Its lines and files are the same as with Kafka's log4j2.yaml, so that tools for Kafka's log can
read them.

The log goes to stdout. If a directory is given, the log goes to files too. As in Kafka, some loggers have a separate
file, and write only to this file:

    controller.log        org.apache.kafka.controller.QuorumController
    kafka-authorizer.log  kafka.authorizer.logger: the decisions of the authorizer
    kafka-request.log     kafka.request.logger: each request, at level DEBUG
    log-cleaner.log       the loggers of the cleaner
    state-change.log      state.change.logger: partitions that this broker begins to lead or to follow
    server.log            all other loggers

`names.py` has the names of loggers and levels, `lines.py` the formats, `rotation.py` the files, and `budget.py` the
limit of lines.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from kcli.server.logging.budget import LineBudget
from kcli.server.logging.lines import JournalFormatter, JsonFormatter, KafkaFormatter
from kcli.server.logging.names import AUDIT, PACKAGE, REQUESTS, STATE_CHANGES, logger_of
from kcli.server.logging.rotation import FileLimits, RotatedFile

SERVER_FILE = "server.log"
OWN_FILES = {
    AUDIT: "kafka-authorizer.log",
    REQUESTS: "kafka-request.log",
    STATE_CHANGES: "state-change.log",
    "kcli.server.QuorumController": "controller.log",
    "kcli.server.LogCleaner": "log-cleaner.log",
    "kcli.storage.LogCleaner": "log-cleaner.log",
}
"""The loggers that have a file of their own."""
JSON = "json"
JOURNAL_STREAM = "JOURNAL_STREAM"
"""The environment variable in which systemd passes the device and the inode of the journal's stream
(systemd.exec(5))."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The settings of the log. `directory` is the directory for the files. `levels` has the level of each logger that
    is not at its default level. The key is the logger's name.
    """

    directory: Path | None = None
    format: str = "text"
    levels: Mapping[str, int] = field(default_factory=dict)
    limits: FileLimits = field(default_factory=FileLimits)


def configure(settings: LogSettings | None = None, stream: TextIO | None = None) -> None:
    """Sends the log lines of kcli, and the warnings of other packages, to `stream` (default: stdout) and to the files.

    Raises OSError if the files of the log cannot be opened.
    """
    settings = settings or LogSettings()
    root = logging.getLogger()
    stream = stream or sys.stdout
    console = logging.StreamHandler(stream)
    console.setFormatter(_formatter(settings.format, is_journal=_is_journal(stream)))
    root.handlers[:] = [console]
    _set_levels(settings)
    if settings.directory is not None:
        root.handlers += _files(settings.directory, settings)
        console.addFilter(lambda record: record.name not in OWN_FILES)
    budget = LineBudget()
    for handler in root.handlers:
        handler.addFilter(budget)


def leave_console() -> None:
    """Stops writing lines to stdout. The stdout of a server in the background is a file that is never rotated, so this
    file would become too large."""
    root = logging.getLogger()
    root.removeHandler(root.handlers[0])


def _set_levels(settings: LogSettings) -> None:
    """Sets the levels of Kafka's log4j2.yaml, and then the levels of the settings."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger(PACKAGE).setLevel(logging.INFO)
    logging.getLogger(REQUESTS).setLevel(logging.WARNING)
    # On stdout, the lines of each partition would hide the others.
    logging.getLogger(STATE_CHANGES).setLevel(logging.INFO if settings.directory else logging.WARNING)
    for name, level in settings.levels.items():
        logger_of(name).setLevel(level)


def _files(directory: Path, settings: LogSettings) -> list[logging.Handler]:
    directory.mkdir(parents=True, exist_ok=True)
    loggers: dict[str, list[str]] = {}
    for logger, name in OWN_FILES.items():
        loggers.setdefault(name, []).append(logger)
    files = [_file(directory / SERVER_FILE, settings, lambda record: record.name not in OWN_FILES)]
    files += [_file(directory / name, settings, _only(of)) for name, of in loggers.items()]
    return files


def _only(loggers: list[str]) -> Callable[[logging.LogRecord], bool]:
    return lambda record: record.name in loggers


def _file(path: Path, settings: LogSettings, accepts: Callable[[logging.LogRecord], bool]) -> logging.Handler:
    file = RotatedFile(path, settings.limits)
    file.addFilter(accepts)
    file.setFormatter(_formatter(settings.format))
    return file


def _formatter(name: str, *, is_journal: bool = False) -> logging.Formatter:
    if name == JSON:
        return JsonFormatter()
    return JournalFormatter() if is_journal else KafkaFormatter()


def _is_journal(stream: TextIO) -> bool:
    """Whether the stream is the journal of systemd. If the output is redirected, systemd's environment variable is set,
    but the stream is not the journal.
    """
    named = os.environ.get(JOURNAL_STREAM)
    if not named:
        return False
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{stat.st_dev}:{stat.st_ino}"
