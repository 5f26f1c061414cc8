"""Regular expressions in Java's syntax, for the rules that map names to principals (KIP-371, auth_to_local of
Kerberos).

Patterns run in the library RE2, which takes linear time. RE2 does not have all features of Java, such as look-ahead. A
pattern with such a feature runs in Python's `re`. Such a pattern may take exponential time, so it is used only for
names of limited length. Both get the pattern from the translator of kcli/model/java_regex/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from kcli.model import java_regex
from kcli.model.java_text import parse_int

BACKTRACKING_NAME_MAX = 1024
"""The longest name to which a pattern is applied that RE2 cannot run. Usual names have less than 200 characters."""

_REFERENCE = re.compile(r"\$(?:([0-9]+)|\{([a-zA-Z][a-zA-Z0-9]*)\})")


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
    """Compiles a pattern. Raises JavaRegexError if it is invalid, or if it has no exact translation."""
    compiled = _compiled_by_re2(java_regex.translate(pattern))
    if compiled is None:
        return JavaPattern(java_regex.compile_java(pattern), backtracks=True)
    return JavaPattern(compiled)


def _compiled_by_re2(translated: str) -> Pattern | None:
    """Compiles a translated pattern. Returns None if the pattern has a feature that RE2 does not have."""
    import re2  # imported late, because few brokers have rules

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(translated, options)
    except (re2.error, UnicodeEncodeError):  # UnicodeEncodeError: half of a surrogate pair
        return None
    return compiled


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
    reference = _REFERENCE.match(replacement, at)
    if reference is None:
        raise ValueError(f"Illegal group reference in the replacement {replacement}")
    if reference[2]:
        try:
            return match.group(reference[2]) or "", reference.end()
        except (IndexError, KeyError):
            raise ValueError(f"No group with name {{{reference[2]}}}") from None
    digits = reference[1]
    # Java takes only as many digits as give the number of an existing group.
    while len(digits) > 1 and parse_int(digits) > groups:
        digits = digits[:-1]
    if parse_int(digits) > groups:
        if groups == 0:
            raise ValueError(f"No group {digits}")
        return f"${reference[1]}", reference.end()
    return match.group(parse_int(digits)) or "", at + 1 + len(digits)
