"""Chooses topics by a Java regular expression for the whole name, with Kafka's extensions."""

from __future__ import annotations

import re
from collections.abc import Callable

# Matches the syntax of Java's patterns that Python does not have. Also matches all other escapes, which are not
# changed.
_JAVA = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)|\\p\{(?P<kind>\w+)\}|(?P<named>\(\?<)(?=[A-Za-z])|\\.|[\[\]]|&&"
)
_LOWER, _UPPER, _DIGIT, _OTHER = "a-z", "A-Z", "0-9", "._-"
# The characters of topic names in each of Java's character classes.
_KINDS = {
    "Lower": _LOWER, "Ll": _LOWER, "Upper": _UPPER, "Lu": _UPPER, "Digit": _DIGIT, "Nd": _DIGIT, "N": _DIGIT,
    "Alpha": _LOWER + _UPPER, "L": _LOWER + _UPPER, "IsAlphabetic": _LOWER + _UPPER, "Punct": _OTHER,
    "Alnum": _LOWER + _UPPER + _DIGIT,
}  # fmt: skip


def topic_filter(text: str) -> Callable[[str], bool]:
    """Returns a predicate for topic names. Raises ValueError for an invalid expression.

    A comma means "or". Spaces and outer quotes are ignored.
    """
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled = re.compile(_in_python(pattern))
    except re.error as error:
        raise ValueError(f"{pattern} is an invalid regex.") from error
    return lambda name: compiled.fullmatch(name) is not None


def _in_python(pattern: str) -> str:
    """Translates a Java pattern to Python. Raises ValueError for nested character classes, which Python lacks."""
    in_set = False

    def part(found: re.Match[str]) -> str:
        nonlocal in_set
        if found["quoted"] is not None:
            return re.escape(found["quoted"])
        if found["kind"] is not None and found["kind"] in _KINDS:
            return _KINDS[found["kind"]] if in_set else f"[{_KINDS[found['kind']]}]"
        if found["named"] is not None:
            return "(?P<"
        if found[0] in ("[", "&&") and in_set:
            raise ValueError(f"{pattern}: sets within sets, as in [a-z&&[^b]], are not understood here")
        in_set = (in_set or found[0] == "[") and found[0] != "]"
        return r"\Z" if found[0] == r"\z" else found[0]

    return _JAVA.sub(part, pattern)
