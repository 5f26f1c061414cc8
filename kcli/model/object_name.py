"""JMX object names, `domain:key=value,…`, and the patterns that select them (javax.management.ObjectName).

In the domain and the values of a pattern, `*` matches any characters and `?` one character. `,*` at the end allows more
keys. A value in quotation marks may contain every character, with a backslash before a special character.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

# One `key=value` and the separator after it. A value is quoted or contains no separators.
_PROPERTY = re.compile(r'([^,=:"*?]+)=("(?:[^"\\\n]|\\["\\*?n])*"|[^,=:"]*)(,|$)')
_NEEDS_QUOTES = re.compile(r'[,=:"*?\n]')
_ESCAPED = re.compile(r'\\(["\\*?n])')
_SPECIAL = re.compile(r'["\\*?]')


class MalformedObjectName(ValueError):
    """The error for a text that is not an object name. Its message is the same as Java's."""


def quoted(value: str) -> str:
    """Converts a value to its form in an object name: quoted if necessary, by Kafka's rule."""
    if value.isalnum() or not _NEEDS_QUOTES.search(value):
        return value
    escaped = _SPECIAL.sub(lambda special: "\\" + special[0], value).replace("\n", "\\n")
    return f'"{escaped}"'


def unquoted(value: str) -> str:
    """Converts a value in an object name to the value itself: removes quotation marks and backslashes."""
    if not value.startswith('"'):
        return value
    return _ESCAPED.sub(lambda escaped: "\n" if escaped[1] == "n" else escaped[1], value[1:-1])


@dataclass(frozen=True)
class ObjectName:
    """An object name or a pattern. `text` is the text from which it was parsed."""

    text: str
    domain: str
    properties: Mapping[str, str]
    is_open: bool
    """Whether the pattern ends with `,*`, so that names with more keys match."""

    @classmethod
    def parse(cls, text: str) -> ObjectName:
        """Reads a name or a pattern. Raises MalformedObjectName."""
        domain, colon, rest = text.partition(":")
        if not colon:
            raise MalformedObjectName("Domain part must be specified")
        if not rest:
            raise MalformedObjectName("Key properties cannot be empty")
        is_open = rest == "*" or rest.endswith(",*")
        if is_open:
            rest = rest[:-2] if rest.endswith(",*") else ""
        properties: dict[str, str] = {}
        at = 0
        while at < len(rest) or (at and rest[at - 1] == ","):
            match = _PROPERTY.match(rest, at)
            if match is None:
                raise MalformedObjectName(f"Invalid key property: `{rest[at:]}` is not key=value")
            key, value = match[1], match[2]
            if key in properties:
                raise MalformedObjectName(f"key `{key}' already defined")
            properties[key] = value
            at = match.end()
        return cls(text, domain, properties, is_open)

    @cached_property
    def is_pattern(self) -> bool:
        return self.is_open or _is_wild(self.domain) or any(map(_is_wild, self.properties.values()))

    def matches(self, domain: str, properties: Mapping[str, str]) -> bool:
        """Whether the pattern selects the name with this domain and these keys."""
        if not _matches(self.domain, domain):
            return False
        if len(properties) != len(self.properties) and not self.is_open:
            return False
        return all(
            key in properties and _matches(value, properties[key]) for key, value in self.properties.items()
        )

    def __str__(self) -> str:
        return self.text


def _is_wild(text: str) -> bool:
    if text.startswith('"'):
        text = re.sub(r"\\.", "", text)  # a wildcard after a backslash is an ordinary character
    return "*" in text or "?" in text


def _matches(pattern: str, text: str) -> bool:
    if not _is_wild(pattern):
        return pattern == text
    return _expression(pattern).fullmatch(text) is not None


def _expression(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern. The module `fnmatch` cannot be used, because brackets are special in its
    patterns."""
    escaped = re.sub(r"[\[]", "[[]", pattern)
    return re.compile(fnmatch.translate(escaped))
