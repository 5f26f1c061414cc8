"""Converts lines of input to records, as Kafka's LineMessageReader does.

A line has the form `headers<headers.delimiter>key<key.separator>value`. The headers have the form
`name:value,name:value`. The bytes of a value are not changed, even if they are not UTF-8. Kafka's tool would replace
such bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kcli.cli.syntax.options import CommandError
from kcli.model.java_text import trim

READ_CHUNK_BYTES = 1 << 18
"""The size of one read of standard input. It is large, so that one read returns many lines."""

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Line(NamedTuple):
    """One record of input."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def read_lines(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """Yields the lines of a stream in groups, as they arrive. A line ends with \\n, \\r\\n or \\r, which is removed.

    `read(n)` must return between 1 and n bytes, or nothing at the end of the stream. `read` should be a raw read or
    `read1`, which returns a line from a terminal immediately.
    """
    # The parts of an unfinished line, which are joined only once because the line may be long.
    parts: list[bytes] = []
    while chunk := read(READ_CHUNK_BYTES):
        parts.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not (len(parts) > 1 and parts[-2].endswith(b"\r")):
            continue
        text = b"".join(parts)
        if b"\r" not in text:
            lines = text.split(b"\n")
        elif text.endswith(b"\r"):
            # The next byte may be the \n of a \r\n, so the line and its \r are kept for the next round.
            cut = text.rfind(b"\n", 0, -1) + 1
            lines = [*_LINE_END.split(text[:cut])[:-1], text[cut:]]
        else:
            lines = _LINE_END.split(text)
        parts = [lines.pop()]
        if lines:
            yield lines
    if tail := b"".join(parts):
        last = _LINE_END.split(tail) if b"\r" in tail else [tail]
        yield last if last[-1] else last[:-1]


PROPERTIES = (
    *("parse.key", "parse.headers", "ignore.error", "null.marker", "topic"),
    *("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator"),
)
"""The properties of Kafka's LineMessageReader."""


@dataclass(frozen=True, slots=True)
class LineParser:
    """Parses lines according to Kafka's reader properties, which `configure` has checked."""

    parse_key: bool
    parse_headers: bool
    ignore_error: bool
    key_separator: bytes
    headers_delimiter: bytes
    headers_separator: re.Pattern[bytes]
    headers_key_separator: bytes
    null_marker: bytes | None

    @classmethod
    def configure(cls, properties: Mapping[str, str]) -> LineParser:
        """Creates a parser from the `--property` arguments. Raises CommandError if two separators are equal."""
        names = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
        defaults = ("\t", "\t", ",", ":")
        chosen = {name: properties.get(name, default) for name, default in zip(names, defaults, strict=True)}
        marker = properties.get("null.marker")
        pairs = [(names[1], names[2]), (names[1], names[3]), (names[2], names[3])]
        for left, right in pairs:
            if chosen[left] == chosen[right]:
                raise CommandError(_exception(f"{left} and {right} may not be equal"))
        for name in names:
            if marker is not None and marker == chosen[name]:
                raise CommandError(_exception(f"null.marker and {name} may not be equal"))
        return cls(
            parse_key=_is_true(properties.get("parse.key")),
            parse_headers=_is_true(properties.get("parse.headers")),
            ignore_error=_is_true(properties.get("ignore.error")),
            key_separator=chosen["key.separator"].encode(),
            headers_delimiter=chosen["headers.delimiter"].encode(),
            headers_separator=_pattern(chosen["headers.separator"]),
            headers_key_separator=chosen["headers.key.separator"].encode(),
            null_marker=None if marker is None else marker.encode(),
        )

    @property
    def is_plain(self) -> bool:
        """Whether the whole line is the value."""
        return not self.parse_key and not self.parse_headers and self.null_marker is None

    def parse(self, line: bytes, number: int) -> Line:
        """Parses one line. `number` is the line number from 1. Raises CommandError with Kafka's message."""
        rest = line
        headers: list[tuple[str, bytes | None]] = []
        if self.parse_headers:
            text, rest = self._cut(rest, self.headers_delimiter, "headers delimiter", line, number)
            if text is not None and text != self.null_marker:
                headers = self._headers(text, number)
        key = None
        if self.parse_key:
            key, rest = self._cut(rest, self.key_separator, "key separator", line, number)
        return Line(self._or_null(key), self._or_null(rest), headers)

    def _cut(
        self, text: bytes, separator: bytes, name: str, line: bytes, number: int
    ) -> tuple[bytes | None, bytes]:
        at = text.find(separator)  # an empty separator is found at 0, as in Java
        if at >= 0:
            return text[:at], text[at + len(separator) :]
        if self.ignore_error:
            return None, text
        raise CommandError(_exception(f"No {name} found on line number {number}: '{_shown(line)}'"))

    def _headers(self, text: bytes, number: int) -> list[tuple[str, bytes | None]]:
        pairs = self.headers_separator.split(text)
        # If the separator matches the empty string, Python's split returns an additional empty string at the start and
        # at the end. Java's split does not.
        first = self.headers_separator.match(text)
        if len(pairs) > 1 and first is not None and first.end() == 0:
            del pairs[0]
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return [self._header(pair, number) for pair in pairs]

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, value = pair, None
        at = pair.find(self.headers_key_separator)
        if at >= 0:
            name, value = pair[:at], pair[at + len(self.headers_key_separator) :]
        elif not self.ignore_error:
            where = f"'{_shown(pair)}' on line number {number}"
            raise CommandError(_exception(f"No header key separator found in pair {where}"))
        if self.null_marker is not None and name == self.null_marker:
            marker = _shown(name)
            raise CommandError(
                _exception(
                    f"Header keys should not be equal to the null marker '{marker}' as they can't be null"
                )
            )
        return name.decode("utf-8", "replace"), self._or_null(value)

    def _or_null(self, value: bytes | None) -> bytes | None:
        return None if value == self.null_marker else value


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise CommandError(f"headers.separator={text} is not a regular expression: {error}") from None


def _is_true(text: str | None) -> bool:
    return text is not None and trim(text).lower() == "true"


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _exception(message: str) -> str:
    return f"org.apache.kafka.common.KafkaException: {message}"
