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
from kcli.server.logging.names import LEVELS, PACKAGE, ROOT, level_name, logger_of, own_name, shown_name


def describe() -> tuple[ConfigEntry, ...]:
    """Every logger with its effective level. A logger without a level has the level of its nearest parent."""
    return tuple(
        ConfigEntry(
            name=name,
            value=level_name(logger_of(name).getEffectiveLevel()),
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
    names = {own_name(name) for name in _names()}
    for change in changes:
        if change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise InvalidRequestException(
                f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if own_name(change.name) not in names:
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
        logger_of(change.name).setLevel(level)


def _names() -> Sequence[str]:
    known = [name for name in logging.root.manager.loggerDict if f"{name}.".startswith(f"{PACKAGE}.")]
    return [ROOT, *sorted(map(shown_name, known))]
