"""The log of a task: its lines go to the worker, which adds the name of the task and writes them to its own log."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.traces import java_trace

LINE_CHARACTERS_MAX = 100_000
"""The longest message of one log record."""


class ChannelHandler(logging.Handler):
    """Sends log records to the worker. An exception is added as a Java trace."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception as error:
            text = f"{record.msg!r} cannot be formatted: {error}"
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}\n{java_trace(record.exc_info[1]).rstrip()}"
        body = {"logger": record.name, "level": record.levelno, "text": text[:LINE_CHARACTERS_MAX]}
        self._channel.note("log", body)


def log_to(channel: Channel, levels: Mapping[str, int]) -> None:
    """Sends the log of this process to the worker. `levels` are the worker's levels by the name of a logger."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.addHandler(ChannelHandler(channel))
    set_levels(levels)


def set_levels(levels: Mapping[str, int]) -> None:
    """Sets the levels of loggers. The name of the root logger is "root"."""
    for name, level in levels.items():
        logging.getLogger(None if name == "root" else name).setLevel(level)
