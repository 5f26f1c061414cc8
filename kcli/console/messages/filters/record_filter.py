"""A compiled filter, and its use on one record."""

from __future__ import annotations

from kcli.console.messages.filters.errors import TooMuchWork
from kcli.console.messages.filters.parser import parse
from kcli.console.messages.filters.subjects import Subject, TreeReader, json_tree
from kcli.console.messages.record import ReadRecord


class RecordFilter:
    """A filter over records. Raises FilterSyntaxError for an invalid text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._condition = parse(text)

    def matches(
        self, record: ReadRecord, read_key: TreeReader = json_tree, read_value: TreeReader = json_tree
    ) -> bool | None:
        """Whether a record matches. Returns None if the record needs too much work, so that the result is unknown."""
        try:
            return self._condition(Subject(record, read_key, read_value))
        except TooMuchWork:
            return None
