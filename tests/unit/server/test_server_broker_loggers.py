"""Log levels while the process runs: shown, changed, given back, refused word for word."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kcli.controller.configs import ConfigChange
from kcli.errors import KafkaError
from kcli.model.configs import ConfigOperation
from kcli.server.handlers.shared import broker_loggers
from kcli.server.logging.names import LEVELS, STATE_CHANGES, own_name, shown_name

NAME = "kcli.server.TestOfLoggers"
SHOWN = "kafka.server.TestOfLoggers"
LOUD = (
    f"Cannot set the log level of {NAME} to LOUD as it is not a supported log level. "
    "Valid log levels are FATAL, ERROR, WARN, INFO, DEBUG, TRACE"
)
SET, DELETE, APPEND = ConfigOperation.SET, ConfigOperation.DELETE, ConfigOperation.APPEND


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(NAME)
    yield logger
    logger.setLevel(logging.NOTSET)


def shown(name: str = SHOWN) -> str:
    return {entry.name: entry.value for entry in broker_loggers.describe()}[name]


def change(name: str, operation: ConfigOperation, value: str | None = None) -> None:
    changes = [ConfigChange(name, operation, value)]
    broker_loggers.check(changes)
    broker_loggers.apply(changes)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_that_is_set_is_shown_and_counts(logger: logging.Logger, level: str) -> None:
    change(NAME, SET, level)
    assert shown() == level
    assert logger.level == LEVELS[level]
    assert logger.isEnabledFor(logging.WARNING) is (level not in ("FATAL", "ERROR"))


def test_a_level_that_is_deleted_is_that_of_the_logger_above(logger: logging.Logger) -> None:
    above = logging.getLogger("kcli.server")
    before = above.level
    try:
        change("kcli.server", SET, "ERROR")
        change(NAME, SET, "DEBUG")
        change(NAME, DELETE)
        assert (shown(), logger.level) == ("ERROR", logging.NOTSET)
    finally:
        above.setLevel(before)


def test_a_logger_may_have_its_name_in_kafka(logger: logging.Logger) -> None:
    change(SHOWN, SET, "DEBUG")
    assert (shown(), logger.level) == ("DEBUG", logging.DEBUG)


def test_the_loggers_of_libraries_are_not_ours(logger: logging.Logger) -> None:
    logging.getLogger("kclient.of.somebody")
    names = [entry.name for entry in broker_loggers.describe()]
    assert names[0] == "root"
    assert SHOWN in names
    assert all(own_name(name) == "kcli" or own_name(name).startswith("kcli.") for name in names[1:])


@pytest.mark.parametrize(
    ("name", "operation", "value", "message"),
    [
        ("kafka.controller", SET, "DEBUG", "Logger kafka.controller does not exist!"),
        ("kafka.controller", DELETE, None, "Logger kafka.controller does not exist!"),
        (
            NAME,
            SET,
            "LOUD",
            LOUD,
        ),
        (NAME, APPEND, "INFO", "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        ("root", DELETE, None, "Removing the log level of the root logger is not allowed"),
    ],
)
def test_unknown_loggers_and_levels_are_refused(
    logger: logging.Logger, name: str, operation: ConfigOperation, value: str | None, message: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        change(name, operation, value)
    assert refused.value.message == message


def test_loggers_outside_of_kafkas_package_have_their_names(logger: logging.Logger) -> None:
    names = {
        "kcli.state.change.logger": "state.change.logger",
        "kcli.request.logger": "kafka.request.logger",
        "kcli.authorizer.logger": "kafka.authorizer.logger",
        "kcli.server.QuorumController": "org.apache.kafka.controller.QuorumController",
        "kcli.server.LogCleaner": "org.apache.kafka.storage.internals.log.LogCleaner",
        "kcli": "kafka",
        "asyncio": "asyncio",
    }
    assert {name: shown_name(name) for name in names} == names
    assert {own_name(shown): shown for shown in names.values()} == names
    changed = logging.getLogger(STATE_CHANGES)
    before = changed.level
    try:
        change("state.change.logger", SET, "TRACE")
        assert (changed.level, shown("state.change.logger")) == (LEVELS["TRACE"], "TRACE")
    finally:
        changed.setLevel(before)
