"""Hides secrets of the command line from the list of processes, which all users of a machine can read.

Only Linux is supported. Other users can still see the secrets until this module has hidden them, so a file is a better
place for secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kcli.model.secret_text import HIDDEN, logins

_SECRET = re.compile(
    r"(?:password|passwd|pwd|passphrase|secret|token|credentials?|jaas\.config|metrics\.users|user\.info"
    r"|(?:api|access|account|private|secret|keystore|authori[sz]ation)[._-]?key(?:\.[\w.-]+)?|authorization)"
    r"""["']?\s*[=:]\s*(?=.)""",
    re.I | re.S,
)
"""Matches the name of a setting with a secret, up to the first character of the secret. In a URL or in JSON too."""

_OPTIONS = re.compile(r"-{1,2}(?:hmac|jmx-auth-prop)(=?)", re.S)
"""Matches the options whose value is a secret. The value may be the next argument."""

_ARG_START, _ARG_END = 45, 46
"""The indexes of two fields in /proc/self/stat, counted after the name of the program: the addresses at which the
command line begins and ends in memory."""


def secret_parts(words: Sequence[str]) -> list[tuple[str, int, int]]:
    """Returns the arguments that contain a secret, each with the indexes at which the secret begins and ends."""
    parts = []
    for before, word in zip(("", *words), words, strict=False):
        option = _OPTIONS.match(word)
        if (option_match := _OPTIONS.fullmatch(before)) is not None and not option_match[1]:
            parts.append((word, 0, len(word)))
        elif option is not None and option[1]:
            parts.append((word, option.end(), len(word)))
        elif (match := _SECRET.search(word)) is not None:
            parts.append((word, match.end(), len(word)))
        # A URL may stand before the name of a secret setting.
        parts += [(word, begin, end) for begin, end in logins(word)]
    return [(word, start, end) for word, start, end in parts if start < end]


def without_secrets(words: Sequence[str]) -> list[str]:
    """Returns the arguments with `***` in place of each secret."""
    parts: dict[str, list[tuple[int, int]]] = {}
    for word, start, end in secret_parts(words):
        parts.setdefault(word, []).append((start, end))
    return [_replaced(word, parts.get(word, ())) for word in words]


def _replaced(word: str, parts: Iterable[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in sorted(parts):
        if start >= at:  # a login and another secret may overlap
            pieces += [word[at:start], HIDDEN]
        at = max(at, end)
    return "".join((*pieces, word[at:]))


def holds_secret(word: str) -> bool:
    """Whether an argument contains a secret."""
    return bool(secret_parts((word,)))


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


def _overwrite(start: int, end: int, parts: Sequence[tuple[str, int, int]]) -> None:
    import ctypes

    content = ctypes.string_at(start, end - start)
    for word, first, last in parts:
        argument = _encoded(word)
        at = content.find(b"\0" + argument + b"\0") + 1
        while at > 0:  # each place of an argument that is repeated
            hidden = slice(len(_encoded(word[:first])), len(_encoded(word[:last])))
            ctypes.memset(start + at + hidden.start, ord("*"), hidden.stop - hidden.start)
            at = content.find(b"\0" + argument + b"\0", at) + 1


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
