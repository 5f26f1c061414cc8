"""The name of a flow in the log lines of its worker, because the workers of all flows write to one log.

A line gets the prefix that Java's workers have. Lines of MirrorMaker's own loggers name their flow themselves.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

_OWN_LOGGERS = "org.apache.kafka.connect.mirror."

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
        if prefix and not made.name.startswith(_OWN_LOGGERS):
            made.msg = (prefix.replace("%", "%%") if made.args else prefix) + str(made.msg)
        return made

    logging.setLogRecordFactory(record)
