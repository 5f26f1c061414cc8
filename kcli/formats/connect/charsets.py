"""Java's charsets: text to bytes and back, as `String.getBytes(charset)` and `new String(bytes, charset)` do it.

A character that a charset does not have becomes a question mark, and invalid bytes become replacement characters.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

from kcli.formats.connect.errors import JavaException
from kcli.model.java_utf8 import decode_utf8

_LEGAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.:_-]*")
_ONLY_IN_PYTHON = {"idna", "mbcs", "oem", "palmos", "punycode", "raw-unicode-escape", "undefined"}
_ONLY_IN_PYTHON |= {"unicode-escape", "utf-7", "utf-8-sig"}


@dataclass(frozen=True, slots=True)
class Charset:
    codec: str
    """The name of the codec of Python that encodes."""

    decode: Callable[[bytes], str]
    prefix: bytes = b""
    """The byte order mark that Java writes."""

    def encode(self, text: str) -> bytes:
        encoded = text.encode(self.codec, "replace")
        return self.prefix + encoded if encoded else encoded


UTF_8 = Charset("utf-8", decode_utf8)


def whole_characters(text: str) -> str:
    """The text as Java writes it in UTF-8: half a surrogate pair becomes a question mark.

    JSON can have such a half, and libraries in Python refuse it.
    """
    return text if text.isascii() else text.encode(errors="replace").decode()


def charset(name: str) -> Charset:
    """`Charset.forName`. Raises JavaException as Java does."""
    if not _LEGAL_NAME.fullmatch(name):
        raise JavaException("java.nio.charset.IllegalCharsetNameException", name)
    try:
        codec = codecs.lookup(name).name
        "".encode(codec)
    except LookupError:
        codec = "undefined"
    if codec in _ONLY_IN_PYTHON:
        raise JavaException("java.nio.charset.UnsupportedCharsetException", name)
    match codec:
        case "utf-8":
            return UTF_8
        case "utf-16":
            return Charset("utf-16-be", _decode_utf_16, codecs.BOM_UTF16_BE)
        case "utf-32":
            return Charset("utf-32-be", _decode_utf_32)
        case _:
            return Charset(codec, lambda data: str(data, codec, "replace"))


def _decode_utf_16(data: bytes) -> str:
    """Reads the byte order mark, and without a mark begins with the high byte."""
    marked = data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE))
    return str(data, "utf-16" if marked else "utf-16-be", "replace")


def _decode_utf_32(data: bytes) -> str:
    marked = data.startswith((codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE))
    return str(data, "utf-32" if marked else "utf-32-be", "replace")
