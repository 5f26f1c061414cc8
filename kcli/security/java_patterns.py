"""Regular expressions in Java's syntax, for the rules that map names to principals (KIP-371, auth_to_local of
Kerberos).

Patterns run in the library RE2, which takes linear time. RE2 does not have all features of Java, such as look-ahead. A
pattern with such a feature runs in Python's `re`. Such a pattern may take exponential time, so it is used only for
names of limited length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

BACKTRACKING_NAME_MAX = 1024
"""The longest name to which a pattern is applied that RE2 cannot run. Usual names have less than 200 characters."""

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
class JavaPattern:
    """A compiled pattern. If `backtracks` is True, the pattern is applied only to names of at most
    BACKTRACKING_NAME_MAX characters.
    """

    pattern: Pattern
    backtracks: bool = False

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        if self.backtracks and len(name) > BACKTRACKING_NAME_MAX:
            return False
        return self.pattern.fullmatch(name) is not None

    def replaced(self, name: str, replacement: str, *, once: bool = False) -> str:
        """Replaces every match in the name, as Java's `replaceAll` does, or only the first match.

        Raises ValueError if the replacement names a group that the pattern does not have.
        """
        if self.backtracks and len(name) > BACKTRACKING_NAME_MAX:
            return name
        parts, at = [], 0
        for match in self.pattern.finditer(name):
            parts += [name[at : match.start()], _expanded(replacement, match, self.pattern.groups)]
            at = match.end()
            if once:
                break
        return "".join((*parts, name[at:]))


def compile_java(pattern: str) -> JavaPattern:
    """Compiles a pattern. Raises re.error if it is invalid."""
    compiled = _compiled_by_re2(pattern)
    return (
        JavaPattern(_compiled_by_re(pattern), backtracks=True) if compiled is None else JavaPattern(compiled)
    )


def _compiled_by_re2(pattern: str) -> Pattern | None:
    """Compiles a pattern. Returns None if the pattern is invalid, or has a feature that RE2 does not have."""
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
    """The characters of a Java class such as \\p{Alpha}, in the syntax of `re`. If the class is within brackets, the
    result has no brackets, because RE2 and `re` have no nested classes.
    """
    ranges = _POSIX_RANGES[found[2]]
    before = re.sub(r"\\.", "", found.string[: found.start()])
    if before.rfind("[") > before.rfind("]"):
        return ranges if found[1] == "p" else found[0]
    return f"[{'^' if found[1] == 'P' else ''}{ranges}]"


def _expanded(replacement: str, match: Match, groups: int) -> str:
    """The replacement, in which each reference is replaced by the text of its group, as in Java. A digit that would
    make the group number too large is plain text, if the pattern has groups.
    """
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
    # Java takes only as many digits as give the number of an existing group.
    while len(digits) > 1 and int(digits) > groups:
        digits = digits[:-1]
    if int(digits) > groups:
        if groups == 0:
            raise ValueError(f"No group {digits}")
        return f"${found[1]}", found.end()
    return match.group(int(digits)) or "", at + 1 + len(digits)
