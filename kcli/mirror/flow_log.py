"""The name of a flow in the log lines of its worker, because the workers of all flows write to one log.

A line gets the prefix that Java's workers have. The driver's own lines name their flow themselves.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

_OWN_LOGGERS = tuple(f"org.apache.kafka.connect.mirror.Mirror{name}" for name in ("Maker", "Herder"))

_prefix: ContextVar[str] = ContextVar("_prefix", default="")


def name_lines(client_id: str, group_id: str) -> None:
    """Names the lines of the current task, and of all tasks and threads that it starts."""
    _prefix.set(f"[Worker clientId={client_id}, groupId={group_id}] ")


def add_names() -> None:
    """Adds the names to all log records of this process."""
    make = logging.getLogRecordFactory()

    def record(*args: object, **kwargs: object) -> logging.LogRecord:
        made = make(*args, **kwargs)
        prefix = _prefix.get()
        if prefix and made.name not in _OWN_LOGGERS:
            made.msg = (prefix.replace("%", "%%") if made.args else prefix) + str(made.msg)
        return made

    logging.setLogRecordFactory(record)
