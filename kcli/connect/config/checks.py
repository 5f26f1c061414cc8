"""The checks that run a connector's own code. They run in a process, because this code may hang or crash."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.config.plugin import load_class
from kcli.connectors.interface import Connector, SourceConnector

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What a connector is asked about a configuration. A process can unpickle it."""

    python_name: str
    path: str | None
    config: Mapping[str, str]
    asks_exactly_once: bool
    asks_boundaries: bool


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The answers of a connector. The errors are by key.

    `exactly_once` and `boundaries` are the answers of the two methods, or the text of the exception that one raised.
    """

    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exactly_once: bool | str | None = None
    boundaries: bool | str | None = None


RunCheck = Callable[[CheckRequest], Awaitable[CheckReport]]
"""Runs `check` in a process of its own. Raises ConnectException if the process crashes or takes too long."""


def needs_check(request: CheckRequest) -> bool:
    """Whether the connector has code to run. Most connectors have only a table of keys."""
    loaded = load_class(request.python_name, request.path)
    overrides = getattr(loaded, "validate", None) is not Connector.validate
    return overrides or request.asks_exactly_once or request.asks_boundaries


def check(request: CheckRequest) -> CheckReport:
    """Asks a connector. This function runs in the process of the connector, and raises what `validate` raises."""
    loaded = load_class(request.python_name, request.path)
    assert issubclass(loaded, Connector)
    connector = loaded()
    errors = {key: list(texts) for key, texts in connector.validate(request.config).items()}
    if not isinstance(connector, SourceConnector):
        return CheckReport(errors)
    exactly_once = boundaries = None
    if request.asks_exactly_once:
        exactly_once = _answer(connector.exactly_once_support, request.config)
    if request.asks_boundaries:
        boundaries = _answer(connector.can_define_transaction_boundaries, request.config)
    return CheckReport(errors, exactly_once, boundaries)


def _answer(
    method: Callable[[Mapping[str, str]], bool | None], config: Mapping[str, str]
) -> bool | str | None:
    try:
        return method(config)
    except Exception as error:
        _log.exception("%s failed", method.__qualname__)
        return str(error)
