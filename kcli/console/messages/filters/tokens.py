"""Cuts the text of a filter into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from kcli.console.messages.filters.errors import FilterSyntaxError

MAX_CHARACTERS = 4096
"""The longest filter. A filter that a person writes has at most some hundred characters."""

MAX_DIGITS = 40
"""The longest number in a filter, which is more than any number in a record needs."""

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[^\W\d][\w-]*)
    | (?P<symbol>&&|\|\||==|!=|<=|>=|[<>!()\[\].*])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class TokenKind(Enum):
    NUMBER = auto()
    STRING = auto()
    NAME = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a filter: a symbol, word, number or string, with its position. The text of a string is without quotes
    and escapes."""

    kind: TokenKind
    text: str
    position: int


def tokens(text: str) -> list[Token]:
    """Cuts `text` into tokens, of which the last has the kind END. Raises FilterSyntaxError."""
    if len(text) > MAX_CHARACTERS:
        raise FilterSyntaxError(f"the filter has {len(text)} characters; the limit is {MAX_CHARACTERS}", 0)
    _check_unicode(text)
    token_list: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FilterSyntaxError(_unexpected(text[at]), at)
        if match.lastgroup != "space":
            token_list.append(_token(match, at))
        at = match.end()
    token_list.append(Token(TokenKind.END, "", len(text)))
    return token_list


def _token(match: re.Match[str], at: int) -> Token:
    text = match.group()
    match match.lastgroup:
        case "number":
            if len(text) > MAX_DIGITS:
                raise FilterSyntaxError(f"the number has more than {MAX_DIGITS} characters", at)
            return Token(TokenKind.NUMBER, text, at)
        case "string":
            plain = _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), text[1:-1])
            return Token(TokenKind.STRING, plain, at)
        case "name":
            return Token(TokenKind.NAME, text, at)
        case _:
            return Token(TokenKind.SYMBOL, text, at)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterSyntaxError("half a surrogate pair is no character", error.start) from None


def _unexpected(character: str) -> str:
    if character in "\"'":
        return "the string has no end"
    if character == "=":
        return "unexpected character =; equality is =="
    return f"unexpected character {character}"
