"""Checks a regular expression with RE2, as brokers do (kafka-consumer-groups --validate-regex)."""

from __future__ import annotations

# RE2's messages, with the corresponding messages of RE2/J, which Kafka prints.
_REASONS = {
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",  # RE2/J's parser fails with this message
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def verdict(pattern: str) -> str:
    """Returns the line that Kafka prints about a pattern."""
    reason = _problem(pattern)
    if reason is None:
        return f"The regular expression `{pattern}` is valid."
    return f"The regular expression `{pattern}` is invalid: {reason}."


def _problem(pattern: str) -> str | None:
    import re2  # imported here, because no other action needs it

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        told: bytes = error.args[0]
        reason, _, _ = told.decode(errors="replace").partition(": ")
        return _REASONS.get(reason, reason)
    return None
