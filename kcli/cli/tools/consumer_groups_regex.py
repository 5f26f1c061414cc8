"""kafka-consumer-groups --validate-regex: whether brokers, which use RE2, would take a regular expression."""

from __future__ import annotations

import re
import warnings

_REASONS = (
    ("missing ), unterminated subpattern", "missing closing )"),
    ("unbalanced parenthesis", "missing closing )"),
    ("unterminated character set", "missing closing ]"),
    ("bad character range", "invalid character class range"),
    ("nothing to repeat", "missing argument to repetition operator"),
    ("multiple repeat", "invalid nested repetition operator"),
    ("min repeat greater than max repeat", "invalid repeat count"),
    ("bad escape (end of pattern)", "trailing backslash at end of expression"),
    ("bad escape", "invalid escape sequence"),
    ("invalid group reference", "invalid escape sequence"),
    ("redefinition of group name", "duplicate capture group name"),
    ("unknown extension", "invalid or unsupported Perl syntax"),
)
"""What Python's parser says, and what RE2's says to the same."""
_ONLY_PERL = re.compile(r"\(\?(?:[=!]|<[=!]|\(|>)")
_BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")


def verdict(pattern: str) -> str:
    """Kafka's line about a pattern."""
    reason = _problem(pattern)
    if reason is None:
        return f"The regular expression `{pattern}` is valid."
    return f"The regular expression `{pattern}` is invalid: {reason}."


def _problem(pattern: str) -> str | None:
    if _ONLY_PERL.search(pattern):
        return "invalid or unsupported Perl syntax"
    if _BACK_REFERENCE.search(pattern):
        return "invalid escape sequence"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        return next((reason for part, reason in _REASONS if error.msg.startswith(part)), error.msg)
    return None
