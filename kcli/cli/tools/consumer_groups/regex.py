"""kafka-consumer-groups --validate-regex: whether brokers, which use RE2, would take a regular expression."""

from __future__ import annotations

# RE2's messages, and the messages of RE2/J, which Kafka uses.
_REASONS = {
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",  # its parser's stack runs empty
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def verdict(pattern: str) -> str:
    """Kafka's line about a pattern."""
    reason = _problem(pattern)
    if reason is None:
        return f"The regular expression `{pattern}` is valid."
    return f"The regular expression `{pattern}` is invalid: {reason}."


def _problem(pattern: str) -> str | None:
    import re2  # no other action needs it

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        told: bytes = error.args[0]
        reason, _, _ = told.decode(errors="replace").partition(": ")
        return _REASONS.get(reason, reason)
    return None
