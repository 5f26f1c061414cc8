"""Regular expressions of schemas. They run only on RE2, because a hostile expression must not take long."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from kcli.formats.codec import FormatError
from kcli.model.java_regex import JavaRegexError, translate

_PATTERNS_MAX = 500
"""The most compiled expressions that are kept."""

LENGTH_MAX = 10_000
"""The most characters of an expression, because a long one takes seconds to read."""


class _Pattern(Protocol):
    def search(self, text: str) -> object: ...


def finds(pattern: str, text: str) -> bool:
    """Whether a pattern matches a part of the text. Raises FormatError for a pattern that RE2 cannot run."""
    return _compiled(pattern).search(text) is not None


def check_runs(pattern: str) -> None:
    """Raises FormatError for a pattern that RE2 cannot run."""
    _compiled(pattern)


def check_pattern(pattern: str, path: str) -> None:
    """Raises FormatError if a pattern is no expression of Java. A pattern that only Java can run is accepted."""
    if len(pattern) > LENGTH_MAX:
        raise FormatError(f"Invalid JSON: {path}: an expression has more than {LENGTH_MAX} characters")
    try:
        translate(pattern)
    except JavaRegexError as error:
        if not error.may_be_valid:
            raise FormatError(f"Invalid JSON: {path}: {error}") from None


@lru_cache(maxsize=_PATTERNS_MAX)
def _compiled(pattern: str) -> _Pattern:
    import re2  # imported late, because few schemas have expressions

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: _Pattern = re2.compile(translate(pattern), options)
    except (JavaRegexError, re2.error):
        raise FormatError(
            f"the pattern {pattern} has features, such as look-around, that RE2 does not have"
        ) from None
    return compiled
