"""Hides secrets of the command line from the list of processes, which all users of a machine can read.

Only Linux is supported. Other users can still see the secrets until this module has hidden them, so a file is a better
place for secrets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SECRET = re.compile(
    r"(?:(?:password|passphrase|secret|secret\.key|metrics\.users|jaas\.config|ssl\.keystore\.key)\s*=|^--hmac=).",
    re.I | re.S,
)
"""Matches an argument with a secret, up to the first character of the secret."""

_OPTIONS = frozenset({"--hmac", "--jmx-auth-prop"})
"""The options whose next argument is a secret."""

_ARG_START, _ARG_END = 45, 46
"""The indexes of two fields in /proc/self/stat, counted after the name of the program: the addresses at which the
command line begins and ends in memory."""


def secret_parts(words: Sequence[str]) -> list[tuple[str, int]]:
    """Returns the arguments that contain a secret, each with the index at which the secret begins."""
    found = []
    for before, word in zip(("", *words), words, strict=False):
        match = _SECRET.search(word)
        if before in _OPTIONS or match is not None:
            found.append((word, match.end() - 1 if match is not None else 0))
    return found


def hide_secrets(words: Sequence[str]) -> None:
    """Overwrites the secrets in the memory from which the kernel reads the command line of this process."""
    parts = secret_parts(words)
    if not parts:
        return
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    except (OSError, IndexError, ValueError):
        return
    if 0 < start < end:
        _overwrite(start, end, parts)


def _overwrite(start: int, end: int, parts: Sequence[tuple[str, int]]) -> None:
    import ctypes

    content = ctypes.string_at(start, end - start)
    for word, index in parts:
        argument = word.encode("utf-8", "surrogateescape")
        visible = len(word[:index].encode("utf-8", "surrogateescape"))
        at = content.find(b"\0" + argument + b"\0")
        if at >= 0:
            ctypes.memset(start + at + 1 + visible, ord("*"), len(argument) - visible)
