"""Formats the log of a tool. A line about an exception has no traceback, unless the user wants tracebacks."""

from __future__ import annotations

import logging

from kcli.cli.unexpected import VARIABLE, described, shows_tracebacks


class OneLine(logging.Formatter):
    """Formats a log line. An exception is only its type and message, unless tracebacks are switched on."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or shows_tracebacks():
            return super().format(record)
        plain = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        return f"{super().format(plain)}: {described(error)} (set {VARIABLE}=1 to see where this happened)"
