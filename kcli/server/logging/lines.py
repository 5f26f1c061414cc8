"""Formats lines of the log: Kafka's text, JSON, or text for the journal of systemd.

Every event is one line. A stack trace follows only if the logger has the level DEBUG. Otherwise the line ends with the
error and the place in the code that raised it.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from kcli.model.secret_text import without_logins
from kcli.runtime.log_text import cut, one_line
from kcli.server.logging.names import LEVELS, level_name, shown_name

PACKAGE_DIRECTORY = Path(__file__).parents[2]

MESSAGE_CHARACTERS_MAX = 16 * 1024
"""The longest message of a line. Texts of clients are cut to much less where they are logged. This limit covers the
lines that contain many of them."""
ERROR_CHARACTERS_MAX = 2048
"""The longest text of an error in a line. Errors often contain a text of a client."""

_PRIORITIES = {
    "FATAL": 2,
    "ERROR": 3,
    "WARN": 4,
    "INFO": 6,
    "DEBUG": 7,
    "TRACE": 7,
}
"""The priorities of syslog, which the journal reads from a prefix such as <6> (sd-daemon(3))."""
assert _PRIORITIES.keys() == LEVELS.keys()


class LineFormatter(logging.Formatter):
    """Formats an event on one line. Subclasses add the time, the level and the name."""

    def format(self, record: logging.LogRecord) -> str:
        message = one_line(_message(record))
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return self.line(record, message)
        if not logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return self.line(record, f"{message}: {error_text(error)}")
        return self.line(record, message) + "\n" + stack_trace(error)

    def line(self, record: logging.LogRecord, message: str) -> str:
        raise NotImplementedError


class KafkaFormatter(LineFormatter):
    """Formats a line as `[2026-11-21 08:30:26,281] INFO message (logger)`."""

    def line(self, record: logging.LogRecord, message: str) -> str:
        return (
            f"[{self.formatTime(record)}] {level_name(record.levelno)} {message} ({shown_name(record.name)})"
        )


class JournalFormatter(LineFormatter):
    """Formats a line for the journal of systemd. The line begins with a priority and has no time, because the journal
    adds the time.
    """

    def line(self, record: logging.LogRecord, message: str) -> str:
        level = level_name(record.levelno)
        return f"<{_PRIORITIES[level]}>{level} {message} ({shown_name(record.name)})"


class JsonFormatter(logging.Formatter):
    """Formats an event as a JSON object on one line. The time is in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        event = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level_name(record.levelno),
            "logger": shown_name(record.name),
            "message": _message(record),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            event["error"] = error_text(error)
            if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
                event["stack_trace"] = stack_trace(error)
        return json.dumps(event)


def _message(record: logging.LogRecord) -> str:
    return cut(without_logins(record.getMessage()), MESSAGE_CHARACTERS_MAX)


def error_text(error: BaseException) -> str:
    """An error and the place that raised it, on one line."""
    message = cut(without_logins(str(error)), ERROR_CHARACTERS_MAX)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = _place(error.__traceback__)
    return one_line(f"{text} (at {place})" if place else text)


def stack_trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip("\n")


def _place(trace: TracebackType | None) -> str:
    """The innermost place of the traceback that is in this package. Otherwise the innermost place in a library."""
    frames = traceback.extract_tb(trace)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE_DIRECTORY)]
    for frame in reversed(ours or list(frames)):
        path = Path(frame.filename)
        shown = path.relative_to(PACKAGE_DIRECTORY.parent) if ours else path.name
        return f"{shown}:{frame.lineno} in {frame.name}"
    return ""
