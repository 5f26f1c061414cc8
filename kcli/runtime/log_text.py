"""Formats a line of a log, and makes texts that clients have sent safe for it."""

from __future__ import annotations

from datetime import datetime

REASON_CHARACTERS_MAX = 500
"""The longest reason of a failure in a line. A reason may contain texts of a client."""
NAME_CHARACTERS_MAX = 249
"""The longest name in a line: the longest name of a topic. Other names are rarely longer."""

_BYTE_MAX, _TWO_BYTES_MAX = 0xFF, 0xFFFF


def log_line(level: str, text: str, name: str) -> str:
    """Returns a line in the format of the logs of Kafka's tools, with the present time."""
    stamp = datetime.now().isoformat(" ", "milliseconds").replace(".", ",")
    return f"[{stamp}] {level} {text} ({name})"


def one_line(text: str) -> str:
    """Escapes each character that is not printable, such as a line break or a mark that reverses the text.

    A client chooses some parts of a log message, for example its client id. If a line break were not escaped, the
    client could forge a whole line of the log.
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def reason(text: object) -> str:
    """Returns the reason of a failure for a line of a log: on one line, and cut to REASON_CHARACTERS_MAX."""
    return one_line(cut(str(text), REASON_CHARACTERS_MAX))


def name(text: object) -> str:
    """Returns a name that a client has chosen for a line of a log: on one line, and cut to NAME_CHARACTERS_MAX."""
    return one_line(cut(str(text), NAME_CHARACTERS_MAX))


def cut(text: str, characters_max: int) -> str:
    """Cuts a text that is too long. The end of the result then shows the number of missing characters."""
    if len(text) <= characters_max:
        return text
    return f"{text[:characters_max]}… ({len(text) - characters_max} more characters)"


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code <= _BYTE_MAX:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _TWO_BYTES_MAX else f"\\U{code:08x}"
