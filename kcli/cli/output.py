"""The output of a command: results on stdout, messages on stderr.

A result is a row (a dataclass). In the format text, a row is printed as Kafka's own tool prints it. In the format json,
each row is one object on its own line. In the format tsv, the first line has the field names, and each row is one
line. Messages that Kafka prints on stdout (`say`) are part of the text output, but not of json and tsv.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from kcli.command.rows import Json, json_line, plain_row, tsv_line

if TYPE_CHECKING:
    from kcli.errors import KafkaError

__all__ = ["WRITE_FAILED", "Output", "java_name", "java_text", "plain_row", "warn"]

Row = TypeVar("Row")

# Error numbers of failed writes. If an OSError ends a tool with one of them, writing to its standard output failed.
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
        self.is_failed = False
        """Whether the command has reported a failure, so that its exit code is 1. Kafka's script may then return 0."""
        self._header: list[str] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the output is text, as Kafka's tools print it."""
        return self.format == "text"

    def row(self, row: Row, text: Callable[[Row], str] | str) -> None:
        """Writes one result. `text` is its text form without the last newline, or a function that returns it."""
        match self.format:
            case "text":
                sys.stdout.write((text if isinstance(text, str) else text(row)) + "\n")
            case "json":
                sys.stdout.write(json_line(plain_row(row)) + "\n")
            case _:
                self._tsv(plain_row(row))

    def rows(self, rows: Iterable[Row], text: Callable[[Row], str]) -> None:
        """Writes several results."""
        for row in rows:
            self.row(row, text)

    def say(self, line: str) -> None:
        """Writes a line that Kafka prints on stdout but that is not a result.

        Output as json or tsv does not contain this line.
        """
        if self.is_text:
            sys.stdout.write(line + "\n")

    def part(self, text: str) -> None:
        """Writes like `say`, but without a newline, because some of Kafka's messages do not end with a newline."""
        if self.is_text:
            sys.stdout.write(text)

    def warn(self, line: str) -> None:
        """Writes a line on stderr."""
        warn(line)

    def _tsv(self, row: dict[str, Json]) -> None:
        header = list(row)
        if header != self._header:
            self._header = header
            sys.stdout.write(tsv_line(header) + "\n")
        sys.stdout.write(tsv_line(row.values()) + "\n")


def warn(line: str) -> None:
    """Writes a line on stderr, after the buffered output of stdout. As in Java, it is no error if stderr is closed."""
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.write(line + "\n")


def java_name(error: KafkaError) -> str:
    """Returns the name of an error's Java class, such as `org.apache.kafka.common.errors.TopicExistsException`."""
    name = type(error).__name__
    return f"{_OTHER_PACKAGES.get(name, 'org.apache.kafka.common.errors')}.{name}"


def java_text(error: KafkaError) -> str:
    """Returns `CLASS: MESSAGE`, as a Java exception is printed."""
    return f"{java_name(error)}: {error.message}"
