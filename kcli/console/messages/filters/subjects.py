"""The parts of a record that a filter reads: texts, decoded trees and headers. Each part is made at most once, and only
if a filter needs it."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable

from kcli.console.messages.filters.errors import TooMuchWork
from kcli.console.messages.record import ReadRecord

MAX_WORK_BYTES = 512 << 20
"""The most bytes of one record that a filter may read. The largest answer of a broker is a fifth of this, so a filter
with a few conditions works on every record."""

COMPARISON_COST = 500
"""The work of one comparison, in bytes. Searching 500 bytes takes about as long."""

MAX_TREE_BYTES = 4 << 20
"""The largest value that is parsed for a filter. Parsing blocks all Python threads for about 10 ms a megabyte."""

MAX_ELEMENTS = 10_000
"""The most elements that `[*]` may select in one record."""

Tree = object
"""A decoded value: None, bool, a number, str, a list or a dict of trees."""

TreeReader = Callable[[bytes], Tree]
"""Decodes a key or value. It raises ValueError if the bytes have no structure."""


class Work:
    """Counts the bytes and elements of one record that the evaluation of a filter has read."""

    def __init__(self, limit: int = MAX_WORK_BYTES) -> None:
        self.left = limit

    def spend(self, amount: int) -> None:
        """Raises TooMuchWork if the limit is exceeded."""
        self.left -= amount + 1
        if self.left < 0:
            raise TooMuchWork("the filter needs too much work for this record")


class Part:
    """A key, a value or the value of a header."""

    def __init__(self, raw: bytes | None, read: TreeReader) -> None:
        self._raw, self._read = raw, read
        self._text: str | None = None
        self._tree: Tree = None
        self._has_tree = False

    @property
    def size_bytes(self) -> int | None:
        return None if self._raw is None else len(self._raw)

    def text(self, work: Work) -> str | None:
        """The bytes as text. Each invalid byte becomes a replacement character."""
        if self._raw is None:
            return None
        work.spend(len(self._raw))
        if self._text is None:
            self._text = self._raw.decode("utf-8", "replace")
        return self._text

    def tree(self, work: Work) -> Tree:
        """The decoded value. Bytes without structure are a text. Raises TooMuchWork for a value that is too large."""
        if self._raw is None:
            return None
        if not self._has_tree:
            if len(self._raw) > MAX_TREE_BYTES:
                raise TooMuchWork(f"a filter reads the fields of values up to {MAX_TREE_BYTES >> 20} MB")
            work.spend(len(self._raw))
            try:
                self._tree = self._read(self._raw)
            except ValueError:
                self._tree = self.text(work)
            self._has_tree = True
        return self._tree


class Subject:
    """A record with the parts that a filter can name."""

    def __init__(self, record: ReadRecord, read_key: TreeReader, read_value: TreeReader) -> None:
        self.record = record
        self.key = Part(record.key, read_key)
        self.value = Part(record.value, read_value)
        self.work = Work()

    def header(self, name: str) -> list[Part]:
        """All headers with this name, because Kafka permits several."""
        self.work.spend(len(self.record.headers))
        return [Part(value, json_tree) for key, value in self.record.headers if key == name]


def json_tree(raw: bytes) -> Tree:
    """Parses JSON. Raises ValueError for other bytes."""
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def is_number(value: object) -> bool:
    """Whether a value is a number. In Python, a bool is an int, but in JSON it is not a number."""
    if isinstance(value, decimal.Decimal):
        return value.is_finite()
    return isinstance(value, (int, float)) and not isinstance(value, bool)
