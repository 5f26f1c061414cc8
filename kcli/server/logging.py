"""The server's log. Its lines have the format of Kafka's log, so that tools for Kafka's log can read them.

The log goes to stdout. If a directory is given, the log also goes to files, as in Kafka's log4j2.yaml:
`controller.log`, `log-cleaner.log`, `kafka-authorizer.log`, and `server.log` for all other lines. A file is renamed at
each full hour, for example to `server.log.2026-11-21-08`. As in Kafka, old files are not deleted. If there are files,
the lines of the authorizer are only in their own file, because they may be many.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path
from typing import TextIO

from kcli.runtime.log_text import one_line

_LEVELS = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL", logging.DEBUG - 5: "TRACE"}

SERVER_FILE = "server.log"
AUDIT_LOGGER = "kcli.authorizer.logger"
"""The logger of the decisions of the authorizer. Its lines have the name that the logger has in Kafka."""
OWN_FILES = {
    AUDIT_LOGGER: "kafka-authorizer.log",
    "kcli.server.QuorumController": "controller.log",
    "kcli.server.LogCleaner": "log-cleaner.log",
}
"""The loggers that have a file of their own."""

HOUR_SECONDS = 3600


class KafkaFormatter(logging.Formatter):
    """Formats a line as `[2026-11-21 08:30:26,281] INFO message (logger)`."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(kafka_level)s %(message)s (%(kafka_name)s)")

    def format(self, record: logging.LogRecord) -> str:
        record.kafka_level = _LEVELS.get(record.levelno, record.levelname)
        record.kafka_name = "kafka.authorizer.logger" if record.name == AUDIT_LOGGER else record.name
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Keeps the message on one line. A traceback follows on lines of its own."""
        record.message = one_line(record.message)
        return super().formatMessage(record)


class HourlyFile(logging.handlers.TimedRotatingFileHandler):
    """Writes a file that is renamed at each full hour. The new name ends with the hour of its lines."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, when="H", encoding="utf-8")
        self.suffix = "%Y-%m-%d-%H"

    def computeRollover(self, currentTime: int) -> int:
        """Returns the next full hour. Without this method, the hours would count from the start of the server."""
        return int(currentTime) // HOUR_SECONDS * HOUR_SECONDS + HOUR_SECONDS


def configure(
    stream: TextIO | None = None, level: int = logging.INFO, *, log_directory: str | None = None
) -> None:
    """Writes all log lines of this package, and the warnings of other packages, to `stream` (default: stdout).

    If `log_directory` is given, the log also goes to files in this directory. Raises OSError if the directory cannot be
    made.
    """
    root = logging.getLogger()
    root.handlers[:] = [_formatted(logging.StreamHandler(stream or sys.stdout))]
    root.setLevel(logging.WARNING)
    logging.getLogger("kcli").setLevel(level)
    if log_directory is not None:
        root.handlers += _files(Path(log_directory))
        root.handlers[0].addFilter(lambda record: record.name != AUDIT_LOGGER)


def _files(directory: Path) -> list[logging.Handler]:
    directory.mkdir(parents=True, exist_ok=True)
    server = HourlyFile(directory / SERVER_FILE)
    server.addFilter(lambda record: record.name not in OWN_FILES)
    files: list[logging.Handler] = [_formatted(server)]
    for logger, name in OWN_FILES.items():
        file = HourlyFile(directory / name)
        file.addFilter(logging.Filter(logger))
        files.append(_formatted(file))
    return files


def _formatted(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(KafkaFormatter())
    return handler
