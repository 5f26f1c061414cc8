"""ssl.principal.mapping.rules: the name of a user from the distinguished name of its certificate (KIP-371).

The value is a list of rules, separated by commas. A rule is DEFAULT, which gives the distinguished name, or
`RULE:pattern/replacement/` with an L or U at its end for lower or upper case. In pattern and replacement a backslash
escapes any character, such as a slash. A pattern must match the whole distinguished name. Then the replacement takes
the place of every match, as Java's `replaceAll` does. The first rule that matches gives the name.

Patterns run in RE2, whose time is linear. A pattern that needs more, such as a look-ahead, runs in Python's `re`.
Such a pattern may take exponential time, so it is used only for names of limited length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from kcli.config.definition import ConfigError

KEY = "ssl.principal.mapping.rules"

BACKTRACKING_NAME_MAX = 1024
"""The longest name for which a pattern that RE2 cannot run is used. Usual names have less than 200 characters."""

_DEFAULT = "DEFAULT"
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_END = re.compile(r"\s*(?:,|\Z)")
_REFERENCE = re.compile(r"\$(?:(\d+)|\{(\w+)\})")
_NAMED_GROUP = re.compile(r"(\\.)|\(\?<([A-Za-z]\w*)>")
_POSIX_CLASS = re.compile(
    r"\\([pP])\{(?:Is)?(Lower|Upper|Alpha|Digit|Alnum|Punct|Space|Blank|XDigit|ASCII)\}"
)
_POSIX_RANGES: Mapping[str, str] = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r"\t-\r ",
    "Blank": r" \t",
    "XDigit": "0-9A-Fa-f",
    "ASCII": r"\x00-\x7f",
}


class Match(Protocol):
    """A match of `re` or RE2."""

    def start(self) -> int: ...

    def end(self) -> int: ...

    def group(self, group: int | str, /) -> str | None: ...


class Pattern(Protocol):
    """A compiled pattern of `re` or RE2."""

    @property
    def groups(self) -> int: ...

    def fullmatch(self, text: str, /) -> Match | None: ...

    def finditer(self, text: str, /) -> Iterator[Match]: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule without a pattern is DEFAULT."""

    pattern: Pattern | None = None
    replacement: str = ""
    case: str = ""
    backtracks: bool = False

    def name(self, distinguished_name: str) -> str | None:
        """The name of the user, or None if the pattern does not match. Raises ValueError if the replacement names a
        group that the pattern does not have."""
        if self.pattern is None:
            return distinguished_name
        if self.backtracks and len(distinguished_name) > BACKTRACKING_NAME_MAX:
            return None
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        name = self._replaced(self.pattern, distinguished_name)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name

    def _replaced(self, pattern: Pattern, text: str) -> str:
        parts, at = [], 0
        for match in pattern.finditer(text):
            parts += [text[at : match.start()], _expanded(self.replacement, match, pattern.groups)]
            at = match.end()
        return "".join((*parts, text[at:]))


@dataclass(frozen=True, slots=True)
class PrincipalMapping:
    """The rules of a listener, in order."""

    rules: tuple[Rule, ...]

    def name(self, distinguished_name: str) -> str:
        """The name of the user. Raises ValueError with Kafka's text if no rule gives a name."""
        for rule in self.rules:
            name = rule.name(distinguished_name)
            if name is not None:
                return name
        raise ValueError(
            f"Failed to map name for '{distinguished_name}' based on SSL principal mapping rules."
        )


def parse_rules(text: str | None) -> PrincipalMapping:
    """Parses the value of ssl.principal.mapping.rules. Raises ConfigError with Kafka's text."""
    text = (_DEFAULT if text is None else text).strip()
    rules: list[Rule] = []
    at = 0
    while at < len(text):
        at += len(text[at:]) - len(text[at:].lstrip())
        rule, at = _next_rule(text, at)
        if rule is not None:
            rules.append(rule)
    return PrincipalMapping(tuple(rules))


def _next_rule(text: str, at: int) -> tuple[Rule | None, int]:
    """Parses the rule that begins at `at`. Returns None for an empty rule, and the place of the next rule."""
    found = _RULE.match(text, at)
    begins = found.end() if found else at + len(_DEFAULT) if text.startswith(_DEFAULT, at) else at
    end = _END.search(text, begins)
    assert end is not None, "the end of the text is an end"
    left = text[begins : end.start()]
    if left:
        rule = text[at : end.start()]
        raise ConfigError(f"Invalid rule: `{rule}`, unmatched substring: `{left}`", key=KEY)
    if found:
        return _rule(*found.groups(), text=found.group()), end.end()
    return (Rule() if begins > at else None), end.end()


def _rule(pattern: str, replacement: str, case: str, *, text: str) -> Rule:
    compiled = _compiled_by_re2(pattern)
    if compiled is not None:
        return Rule(compiled, replacement, case)
    try:
        return Rule(_compiled_by_re(pattern), replacement, case, backtracks=True)
    except re.error as error:
        raise ConfigError(f"Invalid rule: `{text}`: the pattern is invalid: {error}", key=KEY) from None


def _compiled_by_re2(pattern: str) -> Pattern | None:
    """Compiles a pattern. Returns None if it is invalid, or needs more than RE2 has."""
    import re2  # imported late, because few brokers have rules

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(_POSIX_CLASS.sub(_ranges, pattern), options)
    except re2.error:
        return None
    return compiled


def _compiled_by_re(pattern: str) -> Pattern:
    named = _NAMED_GROUP.sub(lambda found: found[1] or f"(?P<{found[2]}>", pattern)
    # A \d, \w or \s of Java matches ASCII characters only.
    return re.compile(_POSIX_CLASS.sub(_ranges, named), re.ASCII)


def _ranges(found: re.Match[str]) -> str:
    """The characters of a class of Java, such as \\p{Alpha}. Within brackets, RE2 and `re` have no nested classes, so
    the ranges stand alone there."""
    ranges = _POSIX_RANGES[found[2]]
    before = re.sub(r"\\.", "", found.string[: found.start()])
    if before.rfind("[") > before.rfind("]"):
        return ranges if found[1] == "p" else found[0]
    return f"[{'^' if found[1] == 'P' else ''}{ranges}]"


def _expanded(replacement: str, match: Match, groups: int) -> str:
    """The replacement with the text of its groups, as Java expands it. A number above the last group is text, if the
    pattern has groups."""
    parts, at = [], 0
    while at < len(replacement):
        character = replacement[at]
        if character == "\\":
            parts.append(replacement[at + 1 : at + 2])
            at += 2
        elif character == "$":
            text, at = _reference(replacement, at, match, groups)
            parts.append(text)
        else:
            parts.append(character)
            at += 1
    return "".join(parts)


def _reference(replacement: str, at: int, match: Match, groups: int) -> tuple[str, int]:
    found = _REFERENCE.match(replacement, at)
    if found is None:
        raise ValueError(f"Illegal group reference in the replacement {replacement}")
    if found[2]:
        try:
            return match.group(found[2]) or "", found.end()
        except (IndexError, KeyError):
            raise ValueError(f"No group with name {{{found[2]}}}") from None
    digits = found[1]
    # Java takes as many digits as there are groups.
    while len(digits) > 1 and int(digits) > groups:
        digits = digits[:-1]
    if int(digits) > groups:
        if groups == 0:
            raise ValueError(f"No group {digits}")
        return f"${found[1]}", found.end()
    return match.group(int(digits)) or "", at + 1 + len(digits)
