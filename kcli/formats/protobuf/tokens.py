"""Splits the text of a .proto file into tokens. Comments are dropped.

A word may contain dots and signs, so that a name such as `.a.B` and a number such as `-1.5e+3` are one token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcli.formats.codec import FormatError

MAX_TEXT_CHARS = 1 << 20
"""The longest text. A longer one does not fit a record of `_schemas`, whose `max.message.bytes` is 1 MiB."""

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n\f\v\ufeff]+|//[^\n]*|/\*(?s:.*?)\*/)"
    r"|(?P<word>[A-Za-z0-9_.+-]+)"
    r"|(?P<quoted>\"(?:[^\"\\\n]|\\[^\n])*\"|'(?:[^'\\\n]|\\[^\n])*')"
    r"|(?P<mark>[{}()\[\]<>=;:,/])"
)
_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_CONTROL = {"a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted string or a mark. `text` of a string is its content. The end of the text is an empty mark."""

    text: str
    position: int
    is_quoted: bool = False


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of a text. Raises FormatError for a text that is too long or has another character."""
    if len(text) > MAX_TEXT_CHARS:
        raise FormatError(f"the schema has {len(text)} characters, and the limit is {MAX_TEXT_CHARS}")
    if not _is_unicode(text):
        raise FormatError("the schema is not valid Unicode")
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise syntax_error(text, position, f"unexpected {text[position : position + 10]!r}")
        if match.lastgroup != "space":
            is_quoted = match.lastgroup == "quoted"
            tokens.append(Token(unescaped(match[0][1:-1]) if is_quoted else match[0], position, is_quoted))
        position = match.end()
    tokens.append(Token("", len(text)))
    return tokens


def syntax_error(text: str, position: int, reason: str) -> FormatError:
    """Returns the error for a place of a text."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return FormatError(f"Syntax error in :{line}:{column}: {reason}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unescaped(quoted: str) -> str:
    """Returns the content of a string. A byte that is not UTF-8 becomes a surrogate, as in `os.fsdecode`."""
    if "\\" not in quoted:
        return quoted
    parts = []
    position = 0
    for match in _ESCAPE.finditer(quoted):
        parts += [quoted[position : match.start()].encode(), _escaped(match)]
        position = match.end()
    return b"".join([*parts, quoted[position:].encode()]).decode(errors="surrogateescape")


def _escaped(match: re.Match[str]) -> bytes:
    hexadecimal, octal, short, long, other = match.groups()
    if hexadecimal is not None:
        return bytes((int(hexadecimal, 16),))
    if octal is not None:
        return bytes((int(octal, 8) & 0xFF,))
    if (point := short or long) is not None:
        return chr(min(int(point, 16), 0x10FFFF)).encode(errors="replace")
    return _CONTROL.get(other) or other.encode()


def is_unicode(text: str) -> bool:
    """Whether a string has no byte that is not UTF-8. The parser reads such a byte as a surrogate."""
    return not any("\udc80" <= character <= "\udcff" for character in text)
