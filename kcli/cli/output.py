"""What a command writes: results on stdout, words on stderr.

A result is a row (a dataclass). As text it is Kafka's own line; as json one object a line; as tsv a header of field
names, then one line a row. Lines that only tell what was done (`say`) are part of Kafka's stdout, so they appear
there as text and are left out of json and tsv, which hold rows alone.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.command.rows import json_line, plain, tsv_line

if TYPE_CHECKING:
    from kcli.errors import KafkaError

__all__ = ["WRITE_FAILED", "Output", "java_name", "java_text", "plain", "warn"]

Row = TypeVar("Row")

# What only writing runs into: an OSError of a tool with one of these is about its standard output.
WRITE_FAILED = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# Exceptions that Kafka keeps outside org.apache.kafka.common.errors.
_OTHER_PACKAGES = {
    "InvalidRecordException": "org.apache.kafka.common",
    "KafkaException": "org.apache.kafka.common",
}


class Output:
    """Where one command writes its results, in the format of `--output`."""

    def __init__(self, format: str = "text") -> None:
        self.format = format
        self._header: list[str] | None = None

    @property
    def is_text(self) -> bool:
        """Whether Kafka's own text is wanted."""
        return self.format == "text"

    def row(self, row: Any, text: Callable[[Any], str] | str) -> None:
        """Write one result; `text` is its line (or lines, without the last newline), or makes it."""
        match self.format:
            case "text":
                sys.stdout.write((text if isinstance(text, str) else text(row)) + "\n")
            case "json":
                sys.stdout.write(json_line(plain(row)) + "\n")
            case _:
                self._tsv(plain(row))

    def rows(self, rows: Iterable[Row], text: Callable[[Row], str]) -> None:
        """Write several results."""
        for row in rows:
            self.row(row, text)

    def say(self, line: str) -> None:
        """A line of Kafka's stdout that is not a result."""
        if self.is_text:
            sys.stdout.write(line + "\n")

    def part(self, text: str) -> None:
        """As `say`, without an end of line: Kafka forgot it in places."""
        if self.is_text:
            sys.stdout.write(text)

    def warn(self, line: str) -> None:
        """A line on stderr."""
        warn(line)

    def _tsv(self, row: dict[str, Any]) -> None:
        header = list(row)
        if header != self._header:
            self._header = header
            sys.stdout.write(tsv_line(header) + "\n")
        sys.stdout.write(tsv_line(row.values()) + "\n")


def warn(line: str) -> None:
    """A line on stderr, after whatever stdout still holds."""
    sys.stdout.flush()
    sys.stderr.write(line + "\n")


def java_name(error: KafkaError) -> str:
    """`org.apache.kafka.common.errors.TopicExistsException`, as Kafka prints the class of an error."""
    name = type(error).__name__
    return f"{_OTHER_PACKAGES.get(name, 'org.apache.kafka.common.errors')}.{name}"


def java_text(error: KafkaError) -> str:
    """`CLASS: MESSAGE`, as a Java exception prints itself."""
    return f"{java_name(error)}: {error.message}"
