"""The checks of source connectors and of sink connectors that compare keys, with Java's texts."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.validation import KeyResult
from kcli.connect.config.checks import CheckReport
from kcli.connect.config.clients import ClientKind, consumer_group_id
from kcli.connect.config.connector_keys import (
    DLQ_TOPIC,
    EXACTLY_ONCE_SUPPORT,
    NAME,
    TOPICS,
    TOPICS_REGEX,
    TRANSACTION_BOUNDARY,
)
from kcli.connect.model import Config
from kcli.model.java_text import split_list, trim

Results = Mapping[str, KeyResult]


def check_sink(config: Config, results: Results) -> None:
    """A sink reads either a list of topics or a pattern, and not its own dead letters."""
    topics, regex = _text(config, TOPICS), _text(config, TOPICS_REGEX)
    if topics and regex:
        _add(results, "topics and topics.regex are mutually exclusive options, but both are set.")
    if not topics and not regex:
        _add(results, "Must configure one of topics or topics.regex")
    dlq = _text(config, DLQ_TOPIC)
    if dlq:
        _check_dead_letters(dlq, topics, regex, results)


def _check_dead_letters(dlq: str, topics: str, regex: str, results: Results) -> None:
    names = split_list(topics)
    if dlq in names:
        listed = ", ".join(names)
        results[TOPICS].errors.append(
            f"The DLQ topic '{dlq}' may not be included in the list of topics ('topics=[{listed}]') consumed by the "
            "connector"
        )
    if regex and not results[TOPICS_REGEX].errors and _matches(regex, dlq):
        results[TOPICS_REGEX].errors.append(
            f"The DLQ topic '{dlq}' may not be matched by the regex for the topics ('topics.regex={regex}') consumed "
            "by the connector"
        )


def _matches(regex: str, topic: str) -> bool:
    """Whether a valid pattern matches a topic. A pattern that may take exponential time is not tried, because it would
    hold the worker."""
    from kcli.model.java_regex import JavaRegexError
    from kcli.security.java_patterns import compile_java

    try:
        pattern = compile_java(regex)
    except JavaRegexError:
        return False
    return not pattern.backtracks and pattern.matches(topic)


def check_sink_group(config: Config, results: dict[str, KeyResult], worker_group: str) -> None:
    """A sink must not use the group of the workers, because both protocols cannot be in one group."""
    key = f"{ClientKind.CONSUMER.override_prefix}group.id"
    if key in config:
        group = config[key]
        result = results.setdefault(key, KeyResult(key, group))
        if group == worker_group:
            result.errors.append(f"Consumer group {group} conflicts with Connect worker group {worker_group}")
        return
    name = results[NAME]
    if isinstance(name.value, str) and consumer_group_id(name.value) == worker_group:
        name.errors.append(
            f"Consumer group for sink connector named {name.value} conflicts with Connect worker group {worker_group}"
        )


def requires_exactly_once(results: Results) -> bool:
    return _is(results[EXACTLY_ONCE_SUPPORT], "required")


def has_own_boundaries(results: Results) -> bool:
    return _is(results[TRANSACTION_BOUNDARY], "connector")


def check_exactly_once(results: Results, report: CheckReport, *, worker_is_exactly_once: bool) -> None:
    """Adds the errors of a source that must be exactly once, after its own code was asked."""
    if requires_exactly_once(results):
        errors = results[EXACTLY_ONCE_SUPPORT].errors
        if not worker_is_exactly_once:
            errors.append("This worker does not have exactly-once source support enabled.")
        match report.exactly_once:
            case True:
                pass
            case False:
                errors.append(
                    "The connector does not support exactly-once semantics with the provided configuration."
                )
            case None:
                errors.append(_NO_ANSWER)
            case text:
                errors.append(_unexpected(text))
    if has_own_boundaries(results):
        errors = results[TRANSACTION_BOUNDARY].errors
        if isinstance(report.boundaries, str):
            errors.append(_unexpected(report.boundaries))
        elif not report.boundaries:
            errors.append(
                "The connector does not support connector-defined transaction boundaries with the given "
                "configuration. Please reconfigure it to use a different transaction boundary definition."
            )


_NO_ANSWER = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please "
    "consult the documentation for the connector to determine whether it supports exactly-once semantics, and then "
    'consider reconfiguring the connector to use the value "requested" for this property (which will disable this '
    "preflight check and allow the connector to be created)."
)


def _unexpected(text: str) -> str:
    reason = trim(text)
    detail = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{detail}"


def _is(result: KeyResult, value: str) -> bool:
    return not result.errors and isinstance(result.value, str) and result.value.lower() == value


def _add(results: Results, error: str) -> None:
    results[TOPICS].errors.append(error)
    results[TOPICS_REGEX].errors.append(error)


def _text(config: Config, key: str) -> str:
    return trim(config.get(key) or "")
