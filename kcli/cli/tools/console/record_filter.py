"""`--filter` of the console consumer: chooses records by key, value or header.

`key=TEXT` is that text, `key~REGEX` has a match of the regular expression somewhere; `!=` and `!~` are their opposites.
`value` and `header.NAME` in place of `key` look there. A null key or value equals no text and matches nothing; of
several headers with one name, one match is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from kcli.cli.syntax.options import UsageError
from kcli.rdkafka.objects import Message

Filter = Callable[[Message], bool]
"""Whether a librdkafka message is wanted."""

_RULE = re.compile(r"(key|value|header\.[^=~!]+)(!?)([=~])(.*)", re.DOTALL)


def record_filter(texts: Iterable[str]) -> Filter | None:
    """A filter for records that match all of `texts`; None if there are none. Raises UsageError."""
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
    part, negated, operator, wanted = match.groups()
    holds = _equals(wanted) if operator == "=" else _has(wanted, text)
    datas = _datas(part)
    if negated:
        return lambda message: not any(map(holds, datas(message)))
    return lambda message: any(map(holds, datas(message)))


def _datas(part: str) -> Callable[[Message], list[bytes]]:
    """Returns the part of a record that is compared; it is empty if the part is null."""
    if part == "key":
        return lambda message: _present([message.key()])
    if part == "value":
        return lambda message: _present([message.value()])
    wanted = part.removeprefix("header.")
    return lambda message: _present([value for name, value in message.headers() or () if name == wanted])


def _present(datas: list[bytes | None]) -> list[bytes]:
    return [data for data in datas if data is not None]


def _equals(text: str) -> Callable[[bytes], bool]:
    wanted = text.encode("utf-8", "surrogateescape")
    return lambda data: data == wanted


def _has(text: str, rule: str) -> Callable[[bytes], bool]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"--filter '{rule}': not a regular expression: {error}") from None
    # Bytes that are not UTF-8 are still characters of some kind, so that `.` and classes take them one by one.
    return lambda data: pattern.search(data.decode("utf-8", "surrogateescape")) is not None
