"""Makes texts that clients have sent safe for a line of a log."""

from __future__ import annotations

_BYTE_MAX, _TWO_BYTES_MAX = 0xFF, 0xFFFF


def one_line(text: str) -> str:
    """Escapes each character that is not printable, such as a line break or a mark that reverses the text.

    A client chooses some parts of a log message, for example its client id. If a line break were not escaped, the
    client could forge a whole line of the log.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code <= _BYTE_MAX:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _TWO_BYTES_MAX else f"\\U{code:08x}"
