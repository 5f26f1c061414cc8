"""The server's log. Its lines have the format of Kafka's log, so that tools for Kafka's log can read them."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

_LEVELS = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


class KafkaFormatter(logging.Formatter):
    """Formats a line as `[2026-11-21 08:30:26,281] INFO message (logger)`."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(kafka_level)s %(message)s (%(name)s)")

    def format(self, record: logging.LogRecord) -> str:
        record.kafka_level = _LEVELS.get(record.levelno, record.levelname)
        return super().format(record)


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Writes all log lines of this package, and the warnings of other packages, to `stream` (default: stdout)."""
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(KafkaFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kcli").setLevel(level)
