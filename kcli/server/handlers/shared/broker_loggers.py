"""The loggers of this process as a resource (KIP-412): their levels can be read and changed while the broker runs.

Levels have the names of log4j. As in Kafka, a change is not stored, so it lasts until the process ends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kcli.config.definition import ConfigType
from kcli.config.describe import ConfigEntry
from kcli.controller.configs import ConfigChange
from kcli.errors import InvalidConfigurationException, InvalidRequestException
from kcli.model.configs import ConfigOperation, ConfigSource

ROOT = "root"
# The parent of kcli's loggers. The loggers of libraries have the level of the root logger.
PACKAGE = "kcli"
# The parent of Kafka's loggers. Clients see the loggers of kcli under this name, so that scripts find the loggers that
# they know: kcli.server.ReplicaManager is kafka.server.ReplicaManager.
KAFKAS_PACKAGE = "kafka"
# The levels in Kafka's order. Python has no level TRACE, so it is a number below DEBUG.
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}


def describe() -> tuple[ConfigEntry, ...]:
    """Every logger with its effective level: its own level or, if it has none, the level of its nearest parent."""
    return tuple(
        ConfigEntry(
            name=name,
            value=_level_name(_logger(name).getEffectiveLevel()),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            read_only=False,
            sensitive=False,
            type=ConfigType.UNKNOWN,
            documentation="",
            synonyms=(),
        )
        for name in _names()
    )


def check(changes: Iterable[ConfigChange]) -> None:
    """Raises KafkaError if one of the changes is not allowed."""
    names = {_own_name(name) for name in _names()}
    for change in changes:
        if change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise InvalidRequestException(
                f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if _own_name(change.name) not in names:
            raise InvalidConfigurationException(f"Logger {change.name} does not exist!")
        if change.operation is ConfigOperation.DELETE and change.name == ROOT:
            raise InvalidRequestException(f"Removing the log level of the {ROOT} logger is not allowed")
        if change.operation is ConfigOperation.SET and change.value not in LEVELS:
            raise InvalidConfigurationException(
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )


def apply(changes: Iterable[ConfigChange]) -> None:
    """Applies changes that `check` has accepted. A logger whose level is deleted gets the level of its parent."""
    for change in changes:
        level = logging.NOTSET if change.operation is ConfigOperation.DELETE else LEVELS[change.value or ""]
        _logger(change.name).setLevel(level)


def _names() -> Sequence[str]:
    known = [name for name in logging.root.manager.loggerDict if f"{name}.".startswith(f"{PACKAGE}.")]
    return [ROOT, *(KAFKAS_PACKAGE + name.removeprefix(PACKAGE) for name in sorted(known))]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else _own_name(name))


def _own_name(name: str) -> str:
    package, dot, rest = name.partition(".")
    return f"{PACKAGE}{dot}{rest}" if package == KAFKAS_PACKAGE else name


def _level_name(level: int) -> str:
    """The most severe of Kafka's levels that the logger writes."""
    return next((name for name, least in reversed(LEVELS.items()) if least >= level), "FATAL")
