"""The output of a command: results on stdout, messages on stderr.

A result is a row (a dataclass). As text it is Kafka's own line; as json one object a line; as tsv a header of field
names, then one line a row. Messages that Kafka prints on stdout (`say`) are part of the text, but not of json and tsv.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from kcli.command.rows import Json, json_line, plain_row, tsv_line

if TYPE_CHECKING:
    from kcli.errors import KafkaError

__all__ = ["WRITE_FAILED", "Output", "java_name", "java_text", "plain_row", "warn"]

Row = TypeVar("Row")

# Errors of writes: an OSError of a tool with one of these is about its standard output.
WRITE_FAILED = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# Exceptions that Kafka keeps outside org.apache.kafka.common.errors.
_OTHER_PACKAGES = {
    "InvalidRecordException": "org.apache.kafka.common",
    "KafkaException": "org.apache.kafka.common",
}


class Output:
    """Writes the results of one command in the format of `--output`."""

    def __init__(self, format: str = "text") -> None:
        self.format = format
        self._header: list[str] | None = None

    @property
    def is_text(self) -> bool:
        """Whether Kafka's own text is wanted."""
        return self.format == "text"

    def row(self, row: Row, text: Callable[[Row], str] | str) -> None:
        """Write one result; `text` is its line (or lines, without the last newline), or makes it."""
        match self.format:
            case "text":
                sys.stdout.write((text if isinstance(text, str) else text(row)) + "\n")
            case "json":
                sys.stdout.write(json_line(plain_row(row)) + "\n")
            case _:
                self._tsv(plain_row(row))

    def rows(self, rows: Iterable[Row], text: Callable[[Row], str]) -> None:
        """Write several results."""
        for row in rows:
            self.row(row, text)

    def say(self, line: str) -> None:
        """A line of Kafka's stdout that is not a result."""
        if self.is_text:
            sys.stdout.write(line + "\n")

    def part(self, text: str) -> None:
        """As `say`, without a newline, which some of Kafka's messages lack."""
        if self.is_text:
            sys.stdout.write(text)

    def warn(self, line: str) -> None:
        """A line on stderr."""
        warn(line)

    def _tsv(self, row: dict[str, Json]) -> None:
        header = list(row)
        if header != self._header:
            self._header = header
            sys.stdout.write(tsv_line(header) + "\n")
        sys.stdout.write(tsv_line(row.values()) + "\n")


def warn(line: str) -> None:
    """Writes a line on stderr, after the buffered output of stdout."""
    sys.stdout.flush()
    sys.stderr.write(line + "\n")


def java_name(error: KafkaError) -> str:
    """`org.apache.kafka.common.errors.TopicExistsException`, as Kafka prints the class of an error."""
    name = type(error).__name__
    return f"{_OTHER_PACKAGES.get(name, 'org.apache.kafka.common.errors')}.{name}"


def java_text(error: KafkaError) -> str:
    """`CLASS: MESSAGE`, as a Java exception prints itself."""
    return f"{java_name(error)}: {error.message}"
