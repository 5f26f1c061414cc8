"""`--filter` of the console consumer: chooses records by key, value or header.

`key=TEXT` requires that the key is equal to the text. `key~REGEX` requires that the regular expression matches a part
of the key. `!=` and `!~` are the opposites. With `value` or `header.NAME` in place of `key`, the value or the header
with this name is compared. A null key or value is not equal to any text, and matches no expression. If several headers
have the same name, one match is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from kcli.cli.syntax.options import UsageError
from kcli.rdkafka.objects import Message

Filter = Callable[[Message], bool]
"""Returns whether a librdkafka message matches the filter."""

_RULE = re.compile(r"(key|value|header\.[^=~!]+)(!?)([=~])(.*)", re.DOTALL)


def record_filter(texts: Iterable[str]) -> Filter | None:
    """Returns a filter for records that match all of `texts`, or None without texts.

    Raises UsageError for an invalid text.
    """
    rules = [_rule(text) for text in texts]
    if not rules:
        return None
    return lambda message: all(rule(message) for rule in rules)


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--filter '{text}': expected key=TEXT, key~REGEX, key!=TEXT or key!~REGEX, with key, value or header.NAME"
        )
    part, negated, operator, operand = match.groups()
    holds = _equals(operand) if operator == "=" else _has(operand, text)
    datas = _datas(part)
    if negated:
        return lambda message: not any(map(holds, datas(message)))
    return lambda message: any(map(holds, datas(message)))


def _datas(part: str) -> Callable[[Message], list[bytes]]:
    """Returns a function that returns the compared parts of a record as a list.

    The list is empty for a null. It has several parts if a header is repeated.
    """
    if part == "key":
        return lambda message: _present([message.key()])
    if part == "value":
        return lambda message: _present([message.value()])
    header = part.removeprefix("header.")
    return lambda message: _present([value for name, value in message.headers() or () if name == header])


def _present(datas: list[bytes | None]) -> list[bytes]:
    return [data for data in datas if data is not None]


def _equals(text: str) -> Callable[[bytes], bool]:
    expected = text.encode("utf-8", "surrogateescape")
    return lambda data: data == expected


def _has(text: str, rule: str) -> Callable[[bytes], bool]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"--filter '{rule}': not a regular expression: {error}") from None
    # Each byte that is not UTF-8 becomes one character (surrogateescape), so that `.` and character classes can match
    # it.
    return lambda data: pattern.search(data.decode("utf-8", "surrogateescape")) is not None
