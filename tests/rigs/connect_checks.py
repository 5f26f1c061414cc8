"""The code of a connector that a validation runs, in the process of the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.connect.config.checks import CheckReport, CheckRequest
from kcli.connect.config.plugin import load_class
from kcli.connectors.interface import Connector, SourceConnector


def check(request: CheckRequest) -> CheckReport:
    """The answers of a connector. Raises what `validate` raises."""
    loaded = load_class(request.python_name, request.path)
    assert issubclass(loaded, Connector)
    connector = loaded()
    errors = {key: list(texts) for key, texts in connector.validate(request.config).items()}
    exactly_once = boundaries = None
    if isinstance(connector, SourceConnector) and request.asks_exactly_once:
        exactly_once = _answer(connector.exactly_once_support, request.config)
    if isinstance(connector, SourceConnector) and request.asks_boundaries:
        boundaries = _answer(connector.can_define_transaction_boundaries, request.config)
    return CheckReport(errors, exactly_once, boundaries)


def _answer(
    method: Callable[[Mapping[str, str]], bool | None], config: Mapping[str, str]
) -> bool | str | None:
    try:
        return method(config)
    except Exception as error:
        return str(error)
