"""The checks that run a connector's own code. They run in a process, because this code may hang or crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.config.plugin import load_class
from kcli.connectors.interface import Connector


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What a connector is asked about a configuration."""

    python_name: str
    path: str | None
    config: Mapping[str, str]
    asks_exactly_once: bool
    asks_boundaries: bool


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The answers of a connector. The errors are by key.

    `exactly_once` and `boundaries` are the answers of the two methods, or the text of an exception.
    """

    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exactly_once: bool | str | None = None
    boundaries: bool | str | None = None


RunCheck = Callable[[CheckRequest], Awaitable[CheckReport]]
"""Asks a connector in a process of its own. Raises ConnectException if the process crashes or takes too long."""


def needs_check(request: CheckRequest) -> bool:
    """Whether the connector has code to run. Most connectors have only a table of keys."""
    loaded = load_class(request.python_name, request.path)
    overrides = getattr(loaded, "validate", None) is not Connector.validate
    return overrides or request.asks_exactly_once or request.asks_boundaries
