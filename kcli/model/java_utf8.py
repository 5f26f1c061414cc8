"""Decodes UTF-8 as Java's `new String(bytes, UTF_8)` does: invalid bytes become replacement characters.

A client id in Latin-1, or offset metadata that is no text, is not an error in Kafka. Python's error handler `replace`
gives the same characters, except for encoded surrogates. Java replaces an encoded surrogate by one character, and
Python replaces each of its bytes.
"""

from __future__ import annotations

import codecs

from kcli.model.buffers import Buffer

JAVA = "kcli.java"
"""The name of the error handler, for `str(buffer, "utf-8", JAVA)`."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE_LEAD = 0xED
_SURROGATES = range(0xA0, 0xC0)
_CONTINUATION = range(0x80, 0xC0)


def decode_utf8(raw: Buffer) -> str:
    """The text of bytes from a client or from a log."""
    return str(raw, "utf-8", JAVA)


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError), "the handler is for decoding"
    raw, start = error.object, error.start
    if raw[start] == _SURROGATE_LEAD and raw[start + 1 : start + 2] and raw[start + 1] in _SURROGATES:
        third = raw[start + 2 : start + 3]
        return _REPLACEMENT, start + (3 if third and third[0] in _CONTINUATION else 2)
    return _REPLACEMENT, error.end


codecs.register_error(JAVA, _replace)
