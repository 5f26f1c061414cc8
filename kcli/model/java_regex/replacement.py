"""The replacement texts of Java's Matcher: `$1` and `${name}` are groups.

A backslash makes the next character stand for itself.
"""

from __future__ import annotations

import re

from kcli.model.java_text import parse_int

_DIGITS = "0123456789"
_NAME = re.compile(r"[A-Za-z0-9]*")


class Replacement:
    """A replacement text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def first(self, pattern: re.Pattern[str], text: str) -> str:
        """`Matcher.replaceFirst`. Raises ValueError or IndexError, with Java's message, for an invalid replacement."""
        match = pattern.search(text)
        if match is None:
            return text
        return text[: match.start()] + self._expanded(match) + text[match.end() :]

    def _expanded(self, match: re.Match[str]) -> str:
        expanded, at = "", 0
        while at < len(self._text):
            char = self._text[at]
            at += 1
            if char == "\\":
                if at == len(self._text):
                    raise ValueError("character to be escaped is missing")
                expanded, at = expanded + self._text[at], at + 1
            elif char == "$":
                group, at = self._reference(match, at)
                expanded += group or ""
            else:
                expanded += char
        return expanded

    def _reference(self, match: re.Match[str], at: int) -> tuple[str | None, int]:
        """The text of a group, and the index after its reference."""
        if at == len(self._text):
            raise ValueError("Illegal group reference: group index is missing")
        if self._text[at] == "{":
            return self._named(match, at + 1)
        # Java subtracts the code of 0, so only ASCII digits are digits.
        if self._text[at] not in _DIGITS:
            raise ValueError("Illegal group reference")
        number, at = parse_int(self._text[at]), at + 1
        while at < len(self._text) and self._text[at] in _DIGITS:
            longer = number * 10 + parse_int(self._text[at])
            if longer > match.re.groups:
                break
            number, at = longer, at + 1
        if number > match.re.groups:
            raise IndexError(f"No group {number}")
        return match[number], at

    def _named(self, match: re.Match[str], at: int) -> tuple[str | None, int]:
        end = at + len(_NAME.match(self._text, at)[0])  # type: ignore[index]
        name = self._text[at:end]
        if not name or self._text[end : end + 1] != "}":
            raise ValueError("named capturing group is missing trailing '}'")
        if name[0] in _DIGITS:
            raise ValueError(f"capturing group name {{{name}}} starts with digit character")
        if name not in match.re.groupindex:
            raise ValueError(f"No group with name {{{name}}}")
        return match[name], end + 1
