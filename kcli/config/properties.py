"""Reads and writes `.properties` files by the rules of Java's `Properties.load` and `Properties.store`.

A file is read as ISO-8859-1, as Java does. Other characters are written as `\\uXXXX`. The line of every key is stored,
so that an error can name the line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime

from kcli.config.definition import ConfigError
from kcli.model.java_order import hash_order

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"} | {c: "\\" + c for c in "=:#!"}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MAX_FILE_BYTES = 16 << 20
"""The largest properties file. These files are written by hand, so a larger file was given by mistake."""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: str
    where: str


class Properties(MutableMapping[str, str]):
    """The keys and their texts, in the order of the file. If a key is set twice, the last value counts."""

    def __init__(self, entries: Mapping[str, str] | None = None, *, where: str = "") -> None:
        self._entries: dict[str, _Entry] = {}
        self.source = ""
        """The path of the file. Empty if the entries come from no file."""
        self.repeated: tuple[str, ...] = ()
        """A warning for each key that a file sets again. The values are left out, because they may be passwords."""
        self.update_from(entries or {}, where=where)

    def update_from(self, entries: Mapping[str, str], *, where: str) -> None:
        """Sets every entry. `where` names the source of the entries in errors, such as `--override`."""
        for key, value in entries.items():
            place = entries.where(key) if isinstance(entries, Properties) else where
            self._entries[key] = _Entry(value, place)
        if isinstance(entries, Properties):
            self.repeated += entries.repeated
            self.source = self.source or entries.source

    def where(self, key: str) -> str:
        """The place where the key is set, such as `server.properties:12`. Empty if it is unknown."""
        entry = self._entries.get(key)
        return entry.where if entry else ""

    def blamed(self, error: ConfigError) -> ConfigError:
        """The same error with the place of its key, or with the file if the key is missing there."""
        return error.at((self.where(error.key) if error.key else "") or self.source)

    def __getitem__(self, key: str) -> str:
        return self._entries[key].value

    def __setitem__(self, key: str, value: str) -> None:
        self._entries[key] = _Entry(value, "")

    def __delitem__(self, key: str) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        # The values are left out, because they may be passwords.
        return f"Properties({', '.join(self._entries)})"


def load(path: str) -> Properties:
    """The properties of a file. Raises OSError if it cannot be read, and ConfigError if it is invalid."""
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes: not a properties file", where=path)
    return parse(content.decode("latin-1"), source=path)


def parse(text: str, *, source: str = "") -> Properties:
    """The properties in `text`. Errors name `source`, such as the name of the file."""
    properties = Properties()
    repeated: list[str] = []
    name = os.path.basename(source) or "properties"
    for line_number, line in _logical_lines(text):
        where = f"{name}:{line_number}"
        key, value = _split(line)
        try:
            key, value = _unescape(key), _unescape(value)
        except ValueError as error:
            raise ConfigError(str(error), where=where) from None
        if key in properties:
            repeated.append(f"{where}: {key} is set again; the value at {properties.where(key)} is ignored")
        properties.update_from({key: value}, where=where)
    properties.repeated = tuple(repeated)
    properties.source = source
    return properties


def dumps(entries: Mapping[str, str], *, now: datetime, comment: str = "") -> str:
    """Formats `entries` as `Properties.store` does with a UTF-8 writer: the comment, the date, then the entries in the
    order of Java's hash table."""
    lines = [f"#{comment}", f"#{_java_date(now)}"]
    lines += [f"{_escape(key, key=True)}={_escape(entries[key], key=False)}" for key in hash_order(entries)]
    return "\n".join(lines) + "\n"


def editable(entries: Mapping[str, str]) -> str:
    """Formats `entries` in their order, as a file that a user reads and edits. Only a backslash, a blank at the start
    of a value and characters outside ASCII are escaped. The keys must be names of settings."""
    return "".join(f"{key}={_readable(value)}\n" for key, value in entries.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields the number and content of each logical line. Joins continued lines, and leaves out comments and blank
    lines."""
    pending: list[str] = []
    started_at = 0
    continued = False
    for number, line in enumerate(_natural_lines(text), start=1):
        line = line.lstrip(_BLANK)
        if not any(pending) and (not line or line[0] in "#!"):
            # In Java, a blank line after a line that has only a backslash ends this empty logical line.
            pending, continued = [], False
            continue
        if not continued:
            started_at = number
        trailing = len(line) - len(line.rstrip("\\"))
        continued = trailing % 2 == 1
        pending.append(line[:-1] if continued else line)
        if not continued:
            yield started_at, "".join(pending)
            pending = []
    if any(pending):
        yield started_at, "".join(pending)


def _natural_lines(text: str) -> list[str]:
    """Splits a text at \\n, \\r and \\r\\n. `str.splitlines` would also split at characters that Java keeps."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _split(line: str) -> tuple[str, str]:
    """Splits a line into key and value at the first unescaped `=`, `:` or blank. Escapes in key and value are not
    resolved."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\":
            out.append(char)
            continue
        char = text[index : index + 1]
        index += 1
        if char == "u":
            out.append(_code_unit(text[index : index + 4]))
            index += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # Two \uXXXX escapes may be the surrogate pair of one character above U+FFFF.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _code_unit(digits: str) -> str:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(
            f"Malformed \\uxxxx encoding: \\u must be followed by four hex digits, not '{digits}'"
        )
    return chr(int(digits, 16))


def _escape(text: str, *, key: bool) -> str:
    escaped = "".join(_WRITTEN.get(char, char) for char in text)
    if key:
        return escaped.replace(" ", "\\ ")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _readable(text: str) -> str:
    """Escapes a value. A character above U+FFFF becomes the two code units of UTF-16, as in Java."""
    encoded = text.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    units = [high << 8 | low for high, low in zip(encoded[::2], encoded[1::2], strict=True)]
    escaped = "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in units)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _java_date(now: datetime) -> str:
    """Formats a time like `Sat Nov 21 08:25:06 UTC 2026`, in English for every locale. `now` must have a time zone."""
    day, month = _DAYS[now.weekday()], _MONTHS[now.month - 1]
    return f"{day} {month} {now:%d %H:%M:%S} {now.tzname()} {now.year}"
