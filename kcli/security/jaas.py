"""Parses JAAS configuration: the value of `sasl.jaas.config`, and files with sections.

A property contains one entry. A file contains sections, and a section contains one or more entries:

    entry   = module flag *( key "=" value ) ";"
    section = name "{" 1*entry "}" ";"

The tokens are the same as in Java's StreamTokenizer. A word begins with a letter, `_`, `$` or a character from U+00A0
on, and may also contain digits, `.` and `-`. A string is in single or double quotes and ends at the end of its line at
the latest. A token that begins with a digit, `.` or `-` is a number, and numbers are not accepted as values. `//`, `/*
*/` and a single `/` begin comments. The errors have Kafka's texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

TEXT_CHARACTERS_MAX = 1_000_000
"""The longest text that is parsed, in characters. A file with sections for hundreds of listeners is smaller."""

_FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = frozenset("01234567")
_OCTAL_DIGITS_MAX = 3
_NUMBER_BEGINS = frozenset("0123456789.-")
_LETTERS_FROM = "\xa0"


class JaasError(ValueError):
    """An invalid JAAS configuration. The message contains no values, because values may be secrets."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: a login module, its control flag in lower case, and its options.

    If an option occurs twice, the last value counts, as in Java.
    """

    name: str
    flag: str
    options: dict[str, str] = field(repr=False)


class _Kind(Enum):
    WORD = "word"  # a word or a string
    NUMBER = "number"
    SIGN = "sign"  # any other character
    END = "end"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str = ""

    @property
    def word(self) -> str | None:
        return self.text if self.kind is _Kind.WORD else None

    def is_sign(self, sign: str) -> bool:
        return self.kind is _Kind.SIGN and self.text == sign


_END = _Token(_Kind.END)


def login_module(text: str) -> LoginModule:
    """Parses the value of `sasl.jaas.config`. Raises JaasError if it is not exactly one entry."""
    tokens = _Tokens(text)
    entries = []
    while (token := tokens.next()) is not _END:
        entries.append(_entry(token, tokens))
    if not entries:
        raise JaasError("Login module not specified in JAAS config")
    if len(entries) != 1:
        raise JaasError(f"JAAS config property contains {len(entries)} login modules, should be 1 module")
    return entries[0]


def login_options(text: str) -> dict[str, str]:
    """The options of the login module in the value of `sasl.jaas.config`. Raises JaasError."""
    return login_module(text).options


def login_sections(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Parses a JAAS file into its sections, by their names. Raises JaasError."""
    tokens = _Tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while (token := tokens.next()) is not _END:
        if token.word is None or not tokens.next().is_sign("{"):
            raise JaasError("expected a section: Name { module flag key=value; };")
        if token.word in sections:
            raise JaasError(f"the section {token.word} occurs twice")
        sections[token.word] = tuple(_entries_of_section(token.word, tokens))
    return sections


def _entries_of_section(name: str, tokens: _Tokens) -> Iterator[LoginModule]:
    while not (token := tokens.next()).is_sign("}"):
        if token is _END:
            raise JaasError(f"the section {name} does not end with }}")
        yield _entry(token, tokens)
    if not tokens.next().is_sign(";"):
        raise JaasError(f"the section {name} is not terminated by semi-colon")


def _entry(first: _Token, tokens: _Tokens) -> LoginModule:
    if first.word is None:
        raise JaasError("Login module not specified in JAAS config")
    token = tokens.next()
    if token is _END:
        raise JaasError("Login module control flag not specified in JAAS config")
    if token.word is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    flag = token.word
    if flag.upper() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag}' in JAAS config")
    options: dict[str, str] = {}
    while (token := tokens.next()) is not _END and not token.is_sign(";"):
        value = tokens.next().is_sign("=") and tokens.next().word
        if token.word is None or not isinstance(value, str):
            raise _without_value(token.word, last=next(reversed(options), None))
        options[token.word] = value
    if token is _END:
        raise JaasError("JAAS config entry not terminated by semi-colon")
    return LoginModule(first.word, flag.lower(), options)


def _without_value(key: str | None, last: str | None) -> JaasError:
    """Makes the error for an option without a value. `last` is the option before it.

    If `last` is not None, `key` may be the rest of its value, because the value has a space and no quotation marks. The
    value may be a secret, so the error does not contain `key`.
    """
    if last is None or key is None:
        return JaasError(f"Value not specified for key '{key or 'null'}' in JAAS config")
    return JaasError(
        f"Value not specified for the key after '{last}' in JAAS config. Put quotation marks around the value of "
        f"'{last}' if it has spaces or special characters"
    )


class _Tokens:
    """Splits a JAAS text into tokens."""

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_CHARACTERS_MAX:
            raise JaasError(f"a JAAS config has at most {TEXT_CHARACTERS_MAX} characters")
        self._text = text
        self._at = 0

    def next(self) -> _Token:
        """Returns the next token. After the last token, returns `_END` at each call."""
        text = self._text
        while self._at < len(text):
            character = text[self._at]
            if character <= " ":
                self._at += 1
            elif character == "/":
                self._skip_comment()
            elif character in "\"'":
                return _Token(_Kind.WORD, self._string(character))
            elif character in _NUMBER_BEGINS:
                return self._number()
            elif _begins_word(character):
                return _Token(_Kind.WORD, self._word())
            else:
                self._at += 1
                return _Token(_Kind.SIGN, character)
        return _END

    def _skip_comment(self) -> None:
        text = self._text
        if text.startswith("/*", self._at):
            end = text.find("*/", self._at + 2)
            self._at = len(text) if end < 0 else end + 2
            return
        while self._at < len(text) and text[self._at] not in "\r\n":
            self._at += 1

    def _word(self) -> str:
        begin = self._at
        text = self._text
        while self._at < len(text) and (_begins_word(text[self._at]) or text[self._at] in _NUMBER_BEGINS):
            self._at += 1
        return text[begin : self._at]

    def _number(self) -> _Token:
        """Reads a number, or a minus sign without a number. Both are errors everywhere, so the token has no text."""
        text, begin = self._text, self._at
        self._at += 1
        if text[begin] == "-" and (text[self._at : self._at + 1] or " ") not in "0123456789.":
            return _Token(_Kind.SIGN, "-")
        has_point = text[begin] == "."
        while self._at < len(text) and (
            text[self._at] in "0123456789" or (text[self._at] == "." and not has_point)
        ):
            has_point = has_point or text[self._at] == "."
            self._at += 1
        return _Token(_Kind.NUMBER, text[begin : self._at])

    def _string(self, quote: str) -> str:
        text, parts = self._text, []
        self._at += 1
        while self._at < len(text) and text[self._at] not in "\r\n":
            character = text[self._at]
            self._at += 1
            if character == quote:
                break
            parts.append(self._escaped() if character == "\\" and self._at < len(text) else character)
        return "".join(parts)

    def _escaped(self) -> str:
        character = self._text[self._at]
        self._at += 1
        if character not in _OCTAL:
            return _ESCAPES.get(character, character)
        digits_max = _OCTAL_DIGITS_MAX if character <= "3" else _OCTAL_DIGITS_MAX - 1
        digits = character
        while len(digits) < digits_max and self._text[self._at : self._at + 1] in _OCTAL:
            digits += self._text[self._at]
            self._at += 1
        return chr(int(digits, 8))


def _begins_word(character: str) -> bool:
    return (character.isascii() and character.isalpha()) or character in "_$" or character >= _LETTERS_FROM
