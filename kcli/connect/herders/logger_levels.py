"""The levels of the loggers of a worker, which its REST API shows and changes (KIP-495)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kcli.runtime.clock import Clock

ROOT = "root"

_TRACE = 5
_OFF = logging.CRITICAL + 10
_LEVELS = {
    "OFF": _OFF,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
    "ALL": 1,
}
_NAMES = {number: name for name, number in _LEVELS.items()}


class LoggerLevel(NamedTuple):
    """A level with Log4j's name, and the time of its last change."""

    level: str
    last_modified_ms: int | None


class LoggerLevels:
    """Levels under Java's names of loggers, which are the names of Python's loggers too.

    A name without a logger is made by a change of its level. The change also reaches the loggers below it.
    """

    def __init__(self, clock: Clock, on_change: Callable[[str, int], None]) -> None:
        """`on_change` gets the name of each logger whose level is set, and its level, for the processes of tasks."""
        self._clock = clock
        self._on_change = on_change
        self._changed_ms: dict[str, int] = {}

    def all(self) -> Mapping[str, LoggerLevel]:
        return {name: self._level(name) for name in (ROOT, *self._names())}

    def get(self, name: str) -> LoggerLevel | None:
        return self._level(name) if name == ROOT or name in self._names() else None

    def set(self, name: str, level: str) -> Sequence[str]:
        """Sets the level of a logger and of all loggers below it. Returns the names whose level has changed."""
        number = _LEVELS[level]
        below = (
            self._names() if name == ROOT else [one for one in self._names() if one.startswith(f"{name}.")]
        )
        changed = []
        for one in sorted({name, *below}):
            logger = self._logger(one)
            if logger.getEffectiveLevel() != number:
                changed.append(one)
                self._changed_ms[one] = self._clock.now_ms()
            logger.setLevel(number)
            self._on_change(one, number)
        return changed

    def _level(self, name: str) -> LoggerLevel:
        number = self._logger(name).getEffectiveLevel()
        level = _NAMES.get(number) or logging.getLevelName(number)
        return LoggerLevel(level, self._changed_ms.get(name))

    def _names(self) -> Sequence[str]:
        loggers = logging.root.manager.loggerDict
        return [name for name, logger in loggers.items() if isinstance(logger, logging.Logger)]

    def _logger(self, name: str) -> logging.Logger:
        return logging.root if name == ROOT else logging.getLogger(name)
