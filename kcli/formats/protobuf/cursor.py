"""Reads the tokens of a .proto file in order: words, numbers, strings, and options with their values."""

from __future__ import annotations

import re

from kcli.formats.codec import FormatError
from kcli.formats.protobuf.syntax import MAX_INT32, Block, Option, OptionValue, Word
from kcli.formats.protobuf.tokens import Token, is_unicode, syntax_error, tokens_of

MAX_NAME_CHARS = 255
"""The longest name with its package. It bounds the number of scopes in which a name is looked for."""

MAX_DEPTH = 32
"""The deepest nesting of declarations, and of values of options. protoc has the same limit."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TYPE_NAME = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_FEATURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\.\([A-Za-z0-9_.]+\)[A-Za-z0-9_.]*")
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9A-Fa-f]{1,16})|(0[0-7]{1,22})|([0-9]{1,20}))")


class Cursor:
    """A position between two tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._next = 0

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self._tokens) - 1

    def error(self, reason: str) -> FormatError:
        """Returns an error at the last token that was taken."""
        return syntax_error(self._text, self._tokens[max(self._next - 1, 0)].position, reason)

    def peek(self) -> Token:
        """Returns the next token, without a move."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """Returns the next token, and moves behind it. The end is never passed."""
        token = self._tokens[self._next]
        if self._next < len(self._tokens) - 1:
            self._next += 1
        return token

    def is_next(self, text: str) -> bool:
        """Whether the next token is this mark or word."""
        token = self._tokens[self._next]
        return token.text == text and not token.is_quoted

    def skip(self, text: str) -> bool:
        """Moves behind the next token if it is `text`. Returns whether it is."""
        if not self.is_next(text):
            return False
        self.take()
        return True

    def expect(self, text: str) -> None:
        """Moves behind the token `text`. Raises FormatError if another token is next."""
        token = self.take()
        if token.text != text or token.is_quoted:
            raise self.error(f"expected '{text}' instead of {_shown(token)}")

    def name(self) -> str:
        """Returns the next token, which must be an identifier."""
        return self._matching(_NAME, "a name")

    def type_name(self) -> str:
        """Returns the next token, which must be a name with or without a package."""
        return self._matching(TYPE_NAME, "a type")

    def _matching(self, pattern: re.Pattern[str], noun: str) -> str:
        token = self.take()
        if token.is_quoted or not pattern.fullmatch(token.text):
            raise self.error(f"expected {noun} instead of {_shown(token)}")
        if len(token.text) > MAX_NAME_CHARS:
            raise self.error(f"a name has more than {MAX_NAME_CHARS} characters")
        return token.text

    def integer(self, most: int = MAX_INT32) -> int:
        """Returns a decimal, hexadecimal or octal number from -most-1 to `most`."""
        token = self.take()
        text = token.text
        if text == "-" and not token.is_quoted:
            text += self.take().text
        number = None if token.is_quoted else integer_of(text)
        if number is None or not -most - 1 <= number <= most:
            raise self.error(f"expected an integer of 32 bits instead of {_shown(token)}")
        return number

    def string(self) -> str:
        """Returns a string in UTF-8, such as a name or a path."""
        text = self.bytes_string()
        if not is_unicode(text):
            raise self.error("a string is not UTF-8")
        return text

    def bytes_string(self) -> str:
        """Returns a string of any bytes. Strings that follow each other are one."""
        if not self.peek().is_quoted:
            raise self.error(f"expected a string instead of {_shown(self.take())}")
        parts = []
        while self.peek().is_quoted:
            parts.append(self.take().text)
        return "".join(parts)

    def bracketed_options(self) -> tuple[Option, ...]:
        """Returns the options in brackets, if a bracket is next."""
        options: list[Option] = []
        if self.skip("["):
            while not self.skip("]"):
                options.append(self.option())
                if not self.is_next("]"):
                    self.expect(",")
        return tuple(options)

    def option(self) -> Option:
        """Returns an option: its name, `=` and its value."""
        is_custom = self.skip("(")
        if is_custom:
            name = self.type_name()
            self.expect(")")
            names = self._names_after_custom()
        else:
            name, names = self._plain_name(), []
        self.expect("=")
        value = self._value(1)
        if len(names) > MAX_DEPTH:
            raise self.error(f"the name of an option has more than {MAX_DEPTH} parts")
        for part in reversed(names):
            value = Option(part, value)
        return Option(name, value, is_custom)

    def _plain_name(self) -> str:
        """Returns a name such as `features.(pb.java).x`."""
        if not self.peek().text.endswith("."):
            return self.type_name()
        name = self.take().text
        self.expect("(")
        name += f"({self.type_name()})"
        self.expect(")")
        if self.peek().text.startswith("."):
            name += self.take().text
        if len(name) > MAX_NAME_CHARS or not _FEATURE_NAME.fullmatch(name):
            raise self.error("expected the name of an option")
        return name

    def _names_after_custom(self) -> list[str]:
        """Returns the parts of `.a.(b.c).d` that follow a custom option."""
        names: list[str] = []
        while (token := self.peek()).text.startswith(".") and not token.is_quoted:
            parts = self.take().text[1:].split(".")
            if parts[-1] == "":
                self.expect("(")
                parts[-1] = f"({self.type_name()})"
                self.expect(")")
            if "" in parts:
                raise self.error(f"expected a name instead of {_shown(token)}")
            names += parts
        return names

    def _value(self, depth: int) -> OptionValue:
        if depth > MAX_DEPTH:
            raise self.error(f"the value of an option is nested more than {MAX_DEPTH} deep")
        token = self.peek()
        if token.is_quoted:
            return self.bytes_string()
        if self.skip("{"):
            return self._block("}", depth)
        if self.skip("<"):
            return self._block(">", depth)
        if self.skip("["):
            return self._list(depth)
        text = self.take().text
        if text == "-":
            text += self.take().text
        if not text or text in "{}()[]<>=;:,/":
            raise self.error(f"expected a value instead of {_shown(token)}")
        return Word(text)

    def _list(self, depth: int) -> tuple[OptionValue, ...]:
        values: list[OptionValue] = []
        while not self.skip("]"):
            values.append(self._value(depth + 1))
            if not self.is_next("]"):
                self.expect(",")
        return tuple(values)

    def _block(self, end: str, depth: int) -> Block:
        entries: dict[str, OptionValue] = {}
        while not self.skip(end):
            name = self._block_name()
            if not (self.is_next("{") or self.is_next("<")):
                self.expect(":")
            value = self._value(depth + 1)
            entries[name] = joined(entries[name], value) if name in entries else value
            if not self.skip(","):
                self.skip(";")
        return Block(tuple(entries.items()))

    def _block_name(self) -> str:
        if not self.skip("["):
            return self.name()
        parts = []
        while not self.skip("]"):
            if self.is_at_end:
                raise self.error("expected ']' instead of the end")
            parts.append(self.take().text)
        return f"[{''.join(parts)}]"


def integer_of(text: str) -> int | None:
    """Returns the number of a decimal, hexadecimal or octal text, or None."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, hexadecimal, octal, digits = match.groups()
    if hexadecimal is not None:
        number = int(hexadecimal, 16)
    else:
        number = int(octal, 8) if octal is not None else int(digits, 10)
    return -number if sign == "-" else number


def joined(first: OptionValue, second: OptionValue) -> tuple[OptionValue, ...]:
    """Returns the values of two entries with the same name."""
    return (
        *(first if isinstance(first, tuple) else (first,)),
        *(second if isinstance(second, tuple) else (second,)),
    )


def _shown(token: Token) -> str:
    return repr(token.text[:40]) if token.text or token.is_quoted else "the end"
