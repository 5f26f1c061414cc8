"""The names of loggers, which clients and log lines show under Kafka's names.

A logger of kcli has a name such as `kcli.server.ReplicaManager`. Clients and log lines show this logger as
`kafka.server.ReplicaManager`, so that scripts and operators find the name that they know (KIP-412). `_NAMES`
lists the few loggers that have names outside of Kafka's package `kafka`.
"""

from __future__ import annotations

import logging

PACKAGE = "kcli"
"""The parent of kcli's loggers. The loggers of libraries have the level of the root logger."""
KAFKAS_PACKAGE = "kafka"
ROOT = "root"

TRACE = logging.DEBUG - 5
"""Kafka's level TRACE, which Python does not have."""
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
"""The levels that clients can set, in Kafka's order."""

AUDIT = "kcli.authorizer.logger"
REQUESTS = "kcli.request.logger"
STATE_CHANGES = "kcli.state.change.logger"

_NAMES = {
    STATE_CHANGES: "state.change.logger",
    "kcli.server.QuorumController": "org.apache.kafka.controller.QuorumController",
    "kcli.server.ScramControlManager": "org.apache.kafka.controller.ScramControlManager",
    "kcli.server.LogCleaner": "org.apache.kafka.storage.internals.log.LogCleaner",
    "kcli.storage.LogCleaner": "org.apache.kafka.storage.internals.log.Cleaner",
}
"""Kafka's names of those loggers whose name does not begin with `kafka` in Kafka."""
_OWN_NAMES = {kafkas: own for own, kafkas in _NAMES.items()}


def shown_name(name: str) -> str:
    """The name under which clients and log lines show a logger."""
    known = _NAMES.get(name)
    if known is not None:
        return known
    package, dot, rest = name.partition(".")
    return f"{KAFKAS_PACKAGE}{dot}{rest}" if package == PACKAGE else name


def own_name(shown: str) -> str:
    """The name of the logger that is shown as `shown`. kcli's own spelling is accepted too."""
    known = _OWN_NAMES.get(shown)
    if known is not None:
        return known
    package, dot, rest = shown.partition(".")
    return f"{PACKAGE}{dot}{rest}" if package == KAFKAS_PACKAGE else shown


def logger_of(shown: str) -> logging.Logger:
    """The logger with this shown name. Makes the logger if it does not exist."""
    return logging.getLogger(None if shown == ROOT else own_name(shown))


def level_name(level: int) -> str:
    """Returns Kafka's name of a level of Python, for a log line or for the level of a logger."""
    return next((name for name, least in reversed(LEVELS.items()) if least >= level), "FATAL")
