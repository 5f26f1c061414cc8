"""Reads JSON as Jackson's `readTree` does in Kafka's JsonDeserializer.

Jackson differs from Python in many ways. Numbers may have leading zeros. A fraction is a `Decimal`. Text after the
value has no meaning. UTF-16 and UTF-32 are recognised. The nesting and the digits of a number have a limit.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import cast

from kcli.formats.connect.errors import JavaException
from kcli.model.java_text import big_decimal

Scan = Callable[[str, int], tuple[object, int]]
"""A function of a text and a position. It returns a value and its end, or raises StopIteration, ValueError or
RecursionError for JSON that Python does not read."""

MISSING = object()
"""The result for text without a value, Jackson's MissingNode."""

# The limits of Jackson's StreamReadConstraints.
DEPTH_MAX = 1000
DIGITS_MAX = 1000

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?P<whole>[0-9]+)(?P<fraction>\.[0-9]*)?(?P<exponent>[eE][+-]?[0-9]*)?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, object] = {"true": True, "false": False, "null": None}
_BROKEN = re.compile("[\udc80-\udcff]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_tree(data: bytes) -> object:
    """The first value in the bytes, or MISSING. Raises JavaException, with the class of Jackson's exception."""
    try:
        text = data.decode()
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError):
        return _Reader(_text(data)).root()
    return value if end == len(text) else _Reader(_text(data)).root()


def _parse_integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"more than {DIGITS_MAX} digits")
    return int(digits)


def _parse_fraction(digits: str) -> Decimal:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"more than {DIGITS_MAX} digits")
    return big_decimal(digits)


def scanner(parse_int: Callable[[str], object], parse_float: Callable[[str], object]) -> Scan:
    """Python's scanner in C, with functions for the digits of numbers. It refuses NaN and Infinity."""
    decoder = json.JSONDecoder(parse_int=parse_int, parse_float=parse_float, parse_constant=_refuse_constant)
    return cast(Scan, vars(decoder)["scan_once"])


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# Python's scanner reads most JSON in the same way, and much faster.
_scan = scanner(_parse_integer, _parse_fraction)


def _text(data: bytes) -> str:
    """Decodes the bytes. A byte that is not UTF-8 becomes a lone surrogate, because it may be after the value."""
    skipped, codec = _encoding(data)
    if codec == "utf-8":
        return str(data[skipped:], codec, "surrogateescape")
    try:
        return str(data[skipped:], codec, "replace" if codec.startswith("utf-16") else "strict")
    except (LookupError, UnicodeDecodeError) as error:
        raise JavaException("java.io.CharConversionException", str(error)) from None


def _encoding(data: bytes) -> tuple[int, str]:
    """The length of the byte order mark, and the codec. Jackson looks for a mark only if there are four bytes."""
    zeros = tuple(byte == 0 for byte in data[:4])
    if len(data) >= 4:
        for mark, codec in _MARKS:
            if data.startswith(mark):
                return len(mark), codec
    for pattern, codec in _ZEROS:
        if zeros[: len(pattern)] == pattern:
            return 0, codec
    return 0, "utf-8"


_MARKS = (
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF8, "utf-8"),
)
_UNSUPPORTED = "UCS-4 with this order of bytes"
# Which of the first bytes are zero in an encoding whose text begins with an ASCII character.
_ZEROS = (
    ((True, True, True, False), "utf-32-be"),
    ((False, True, True, True), "utf-32-le"),
    ((True, True, False, True), _UNSUPPORTED),
    ((True, False, True, True), _UNSUPPORTED),
    ((True, False), "utf-16-be"),
    ((False, True), "utf-16-le"),
)

_CORE = "com.fasterxml.jackson.core"


def _invalid(reason: str) -> JavaException:
    return JavaException(f"{_CORE}.JsonParseException", reason)


def _unexpected_end() -> JavaException:
    return JavaException(f"{_CORE}.io.JsonEOFException", "Unexpected end-of-input")


def _over_limit(reason: str) -> JavaException:
    return JavaException(f"{_CORE}.exc.StreamConstraintsException", reason)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def root(self) -> object:
        self._skip_blanks()
        return MISSING if self._at == len(self._text) else self._value()

    def _value(self) -> object:
        """Reads a value without recursion, because the nesting may be deeper than Python's stack."""
        path: list[tuple[dict[str, object] | list[object], str]] = []
        while True:
            opens = self._next() in "{["
            if opens and len(path) == DEPTH_MAX:
                depth = f"Document nesting depth ({len(path) + 1})"
                raise _over_limit(f"{depth} exceeds the maximum allowed ({DEPTH_MAX})")
            value = self._opened() if opens else self._scalar(at_root=not path)
            if isinstance(value, (dict, list)) and not self._closes(value):
                path.append((value, self._name(value)))
                continue
            while True:
                if not path:
                    return value
                container, name = path.pop()
                if isinstance(container, dict):
                    container[name] = value
                else:
                    container.append(value)
                if not self._closes(container):
                    break
                value = container
            self._expect(",")
            self._skip_blanks()
            if self._at == len(self._text):
                # Jackson has another exception for this place than for every other end.
                raise _invalid("Unexpected end-of-input within/between entries")
            path.append((container, self._name(container)))

    def _opened(self) -> dict[str, object] | list[object]:
        self._at += 1
        return {} if self._text[self._at - 1] == "{" else []

    def _closes(self, container: object) -> bool:
        self._skip_blanks()
        closed = self._next() == ("}" if isinstance(container, dict) else "]")
        self._at += closed
        return closed

    def _name(self, container: object) -> str:
        """The name of the next field of an object. An array has no names."""
        if not isinstance(container, dict):
            return ""
        self._expect('"')
        name = self._string()
        self._skip_blanks()
        self._expect(":")
        self._skip_blanks()
        return name

    def _scalar(self, *, at_root: bool) -> object:
        char = self._text[self._at]
        if char == '"':
            self._at += 1
            return self._string()
        if char == "-" or "0" <= char <= "9":
            return self._number(at_root=at_root)
        for literal, value in _LITERALS.items():
            if self._text.startswith(literal, self._at):
                self._at += len(literal)
                if f"a{self._text[self._at : self._at + 1]}".isidentifier() and self._at < len(self._text):
                    raise _invalid(f"Unrecognized token beginning with '{literal}'")
                return value
        raise self._unexpected()

    def _number(self, *, at_root: bool) -> int | Decimal:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            self._at += 1
            self._next()
            raise self._unexpected()
        self._at = match.end()
        if match["fraction"] == ".":
            raise _invalid("Decimal point not followed by a digit")
        if match["exponent"] and not match["exponent"][-1].isdigit():
            self._next()
            raise _invalid("Exponent indicator not followed by a digit")
        if at_root and self._at < len(self._text) and self._text[self._at] not in " \t\n\r":
            raise self._unexpected()
        if len(match["whole"].lstrip("0")) + len(match["fraction"] or ".") - 1 > DIGITS_MAX:
            raise _over_limit(f"Number value length exceeds the maximum allowed ({DIGITS_MAX})")
        if match["fraction"] is None and match["exponent"] is None:
            return int(match[0])
        try:
            return big_decimal(match[0])
        except ValueError as error:
            raise JavaException("java.lang.NumberFormatException", str(error)) from None

    def _string(self) -> str:
        """Reads a text after its opening quotation mark."""
        parts = []
        while True:
            match = _PLAIN.match(self._text, self._at)
            assert match is not None, "the pattern matches an empty text"
            plain = _BROKEN.sub(_lax_utf8, self._text[self._at : match.end() + 1])
            if match.end() == len(self._text):
                raise _unexpected_end()
            char = plain[-1]
            parts.append(plain[:-1])
            self._at = match.end() + 1
            if char == '"':
                return _with_pairs("".join(parts))
            if char != "\\":
                raise _invalid(f"Illegal unquoted character {char!r}")
            parts.append(self._escaped())

    def _escaped(self) -> str:
        char = self._next()
        self._at += 1
        if char != "u":
            if char not in _ESCAPES:
                raise _invalid(f"Unrecognized character escape {char!r}")
            return _ESCAPES[char]
        digits = ""
        while len(digits) < 4:
            if self._next() not in _HEXADECIMAL:
                raise _invalid("expected a hex-digit for character escape sequence")
            digits += self._text[self._at]
            self._at += 1
        return chr(int(digits, 16))

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _unexpected_end()
        return self._text[self._at]

    def _expect(self, char: str) -> None:
        if self._next() != char:
            raise self._unexpected()
        self._at += 1

    def _unexpected(self) -> JavaException:
        return _invalid(f"Unexpected character {self._text[self._at]!r} at character {self._at}")

    def _skip_blanks(self) -> None:
        match = _BLANK.match(self._text, self._at)
        assert match is not None, "the pattern matches an empty text"
        self._at = match.end()


def _lax_utf8(match: re.Match[str]) -> str:
    """Decodes bytes that are not UTF-8. Jackson accepts surrogates, and encodings longer than needed."""
    raw = match[0].encode("utf-8", "surrogateescape")
    characters, at = [], 0
    while at < len(raw):
        lead = raw[at]
        length = 2 if 0xC0 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 0
        tail = raw[at + 1 : at + length]
        if not length or any(byte & 0xC0 != 0x80 for byte in tail):
            raise _invalid(f"Invalid UTF-8 byte 0x{lead:x}")
        if len(tail) != length - 1:
            is_last = match.end() == len(match.string)
            raise _unexpected_end() if is_last else _invalid(f"Invalid UTF-8 byte 0x{lead:x}")
        code = lead & (0x1F if length == 2 else 0x0F)
        for byte in tail:
            code = code << 6 | byte & 0x3F
        characters.append(chr(code))
        at += length
    return "".join(characters)


def _with_pairs(text: str) -> str:
    """Joins a high and a low surrogate to one character."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
