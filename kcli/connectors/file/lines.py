"""Splits a growing stream into lines as Java's FileStreamSource does.

Users can see three things of Java, so they are the same here:

- A position counts characters of UTF-16.
- The buffer has room for 1,024 characters. It grows if a line is longer.
- A batch may leave lines in the buffer. They are returned only after the stream has more bytes.
"""

from __future__ import annotations

import array
import codecs
import fcntl
import os
import re
import stat
import termios
from collections.abc import Sequence

BUFFER_CHARACTERS = 1024
"""The first size of Java's buffer. It doubles while it has no complete line."""
READ_BYTES = 65_536
_END = re.compile("\r\n|\n|\r")


Line = tuple[str, int]
"""A line without its end, and the position after it."""


class LineReader:
    """Reads complete lines from a file descriptor, without waiting for more bytes."""

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._decoded = ""
        self._decoded_from = 0
        self._buffer = ""
        self._capacity = BUFFER_CHARACTERS
        self._position = position

    def read(self, lines_max: int) -> Sequence[Line]:
        """Returns lines, at most `lines_max`. The result is empty if the stream has no more bytes now."""
        lines: list[Line] = []
        while len(lines) < lines_max and self._fill():
            self._split(lines, lines_max - len(lines))
        return lines

    def _fill(self) -> bool:
        """Moves characters into the buffer until it is full. Returns False if there are none."""
        has_more = False
        while len(self._buffer) < self._capacity:
            if self._decoded_from == len(self._decoded) and not self._decode():
                break
            start = self._decoded_from
            self._decoded_from = min(len(self._decoded), start + self._capacity - len(self._buffer))
            self._buffer += self._decoded[start : self._decoded_from]
            has_more = True
        return has_more

    def _decode(self) -> bool:
        """Reads and decodes bytes that are there. Returns whether there were any characters."""
        size = min(self._available(), READ_BYTES)
        if size <= 0:
            return False
        self._decoded = self._decoder.decode(os.read(self._descriptor, size))
        self._decoded_from = 0
        return bool(self._decoded)

    def _available(self) -> int:
        """The number of bytes that can be read now."""
        if self._is_file:
            size = os.fstat(self._descriptor).st_size
            return size - os.lseek(self._descriptor, 0, os.SEEK_CUR)
        count = array.array("i", [0])
        try:
            fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        except OSError:
            return 0  # such as /dev/null
        return count[0]

    def _split(self, lines: list[Line], lines_max: int) -> None:
        """Moves complete lines from the buffer to `lines`."""
        buffer = self._buffer
        before = len(lines)
        if buffer.isascii() and "\r" not in buffer:
            texts = buffer.split("\n", lines_max)
            self._buffer = texts.pop()
            position = self._position
            lines += [(text, position := position + len(text) + 1) for text in texts]
            self._position = position
        else:
            self._split_any(lines, lines_max)
        if len(lines) == before and len(buffer) >= self._capacity:
            self._capacity *= 2

    def _split_any(self, lines: list[Line], lines_max: int) -> None:
        """Splits at every end of a line that Java knows, and counts characters as Java does."""
        buffer, start = self._buffer, 0
        for end in _END.finditer(buffer):
            if end.end() == len(buffer) and end[0] == "\r":
                break  # a line feed may follow
            text = buffer[start : end.start()]
            # A character beyond U+FFFF is two characters in Java.
            self._position += end.end() - start + sum(map("\uffff".__lt__, text))
            lines.append((text, self._position))
            start = end.end()
            lines_max -= 1
            if not lines_max:
                break
        self._buffer = buffer[start:]
