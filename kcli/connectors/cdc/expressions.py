"""Regular expressions of Java that choose tables, columns and messages by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcli.model.java_regex import compile_java
from kcli.model.java_text import trim


def expression(text: str) -> Callable[[str], bool]:
    """Whether a whole name fits, in any case. Raises JavaRegexError."""
    pattern = compile_java(f"(?i){trim(text)}")
    return lambda name: pattern.fullmatch(name) is not None


def any_matches(texts: Sequence[str]) -> Callable[[str], bool]:
    """Whether a name fits one of the expressions. Raises JavaRegexError."""
    expressions = [expression(text) for text in texts if text]
    return lambda name: any(matches(name) for matches in expressions)
