"""Chooses topics by a Java regular expression for the whole name, with Kafka's extensions."""

from __future__ import annotations

from collections.abc import Callable

from kcli.model.java_text import trim


def topic_filter(text: str) -> Callable[[str], bool]:
    """Returns a predicate for topic names. Raises ValueError for an invalid expression.

    A comma means "or". Spaces and outer quotes are ignored.
    """
    from kcli.model.java_regex import JavaRegexError, compile_java

    pattern = trim(text).replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = compile_java(pattern, ascii_only=True)
    except JavaRegexError as error:
        raise ValueError(f"{pattern} is an invalid regex.") from error
    return lambda name: compiled.fullmatch(name) is not None
