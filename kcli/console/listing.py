"""The part of a list that a page shows: searched, sorted and cut on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kcli.console.answers import Rows
from kcli.model.java_text import split_blanks

T = TypeVar("T")

ROWS_MAX = 1000
"""The most rows of one answer. A page requests some hundred rows at a time."""

ROWS_DEFAULT = 100
SEARCH_CHARACTERS_MAX = 300

SortKey = Callable[[T], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The parameters of a list. `search` has the words to search for, and `sort` is the name of a column."""

    search: str = ""
    sort: str = ""
    is_descending: bool = False
    offset: int = 0
    limit: int = ROWS_DEFAULT

    def rows(
        self,
        items: Iterable[T],
        *,
        text: Callable[[T], str],
        columns: Mapping[str, SortKey[T]],
        show: Callable[[T], object] = lambda row: row,
    ) -> Rows:
        """Returns the part of the rows that the page requests.

        `text` returns the text of a row in which words are searched. A row matches if this text has all words. Upper
        and lower case count as equal. `columns` has the sort key of each column, and the first column is the default.
        Rows with the key None come last. `show` converts the rows that are sent.
        """
        matching = self.matching(items, text)
        ordered = self._sorted(matching, columns)
        part = ordered[self.offset : self.offset + self.limit]
        return Rows(total=len(ordered), rows=[show(row) for row in part])

    def matching(self, rows: Iterable[T], text: Callable[[T], str]) -> list[T]:
        """Returns the rows whose text has every word."""
        words = split_blanks(self.search.casefold())
        if not words:
            return list(rows)
        return [row for row in rows if all(word in text(row).casefold() for word in words)]

    def _sorted(self, rows: list[T], columns: Mapping[str, SortKey[T]]) -> list[T]:
        key = columns.get(self.sort) or next(iter(columns.values()))
        known = [row for row in rows if key(row) is not None]
        unknown = [row for row in rows if key(row) is None] if len(known) < len(rows) else []
        return sorted(known, key=key, reverse=self.is_descending) + unknown
