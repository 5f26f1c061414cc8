"""Regular expressions that clients send: of topics (KIP-848) and of transactional ids (KIP-1152).

As in Kafka, RE2 matches them, which needs only linear time for each text. But the time to compile an expression has no
limit in RE2, and no other Python code runs meanwhile. So an expression that would take long is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

PATTERN_MAX_CHARS = 8_192
UNICODE_CLASSES_MAX = 5
REPEATS_MAX = 50
"""The longest expression, and the most Unicode classes (`\\p`, `\\P`) and counted repeats (`{`) in it. RE2 compiles or
refuses such an expression in at most 10 ms. Names of topics are ASCII, so they need no Unicode classes."""

_PATTERN_MAX_BYTES = 1 << 19
"""The most memory of one compiled expression, including the states that RE2 keeps for later matches."""
_CACHED_MAX = 100
"""The most compiled expressions that are kept. Each takes a few kilobytes, or up to _PATTERN_MAX_BYTES."""


class Pattern(Protocol):
    programsize: int
    """The number of instructions of the compiled expression."""

    def fullmatch(self, text: str) -> object | None: ...


_cache: OrderedDict[str, Pattern | str] = OrderedDict()
"""The newest compiled expressions. The event loop and a thread use the cache, so each use is one atomic call."""


def compiled_pattern(regex: str) -> Pattern | str:
    """Compiles an expression. If RE2 refuses it, or if it is too complex, returns the reason as text."""
    pattern = _cache.get(regex)
    if pattern is None:
        pattern = _cache[regex] = _too_complex(regex) or _compiled(regex)
        if len(_cache) > _CACHED_MAX:
            _cache.popitem(last=False)
    return pattern


def is_compiled(regex: str) -> bool:
    """Whether `compiled_pattern` has the answer already."""
    return regex in _cache


def _too_complex(regex: str) -> str | None:
    if len(regex) > PATTERN_MAX_CHARS:
        return f"it has {len(regex)} characters, and at most {PATTERN_MAX_CHARS} are allowed"
    if regex.count("\\p") + regex.count("\\P") > UNICODE_CLASSES_MAX:
        return f"it has more than {UNICODE_CLASSES_MAX} Unicode classes"
    if regex.count("{") > REPEATS_MAX:
        return f"it has more than {REPEATS_MAX} counted repeats"
    return None


def _compiled(regex: str) -> Pattern | str:
    import re2  # imported late, because few clients send expressions

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MAX_BYTES
    options.never_capture = True  # to copy thousands of groups for each name would take up to a second
    try:
        pattern: Pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return pattern
