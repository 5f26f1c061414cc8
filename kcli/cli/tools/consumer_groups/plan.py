"""The CSV that kafka-consumer-groups --export prints and --from-file reads.

`topic,partition,offset` if exactly one group is named on the command line, else `group,topic,partition,offset`.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from kcli.cli.partitions_file import FileError, read_text
from kcli.cli.syntax.options import Kind
from kcli.cli.tools.consumer_groups.failures import ExecutionError
from kcli.model.topic_partition import TopicPartition

QUOTE_FROM_LENGTH = 25
"""Kafka's CSV writer quotes every text of this length or longer."""
FIRST_SAFE_CHARACTER = "-"
"""Kafka's CSV writer also quotes texts with a lower character: comma, quote, space, control characters and others."""

NewOffsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class NewOffset:
    """The new offset of one partition of a group, or the offset that a dry run proposes."""

    group: str
    topic: str
    partition: int
    new_offset: int


def csv_line(row: NewOffset, *, with_group: bool) -> str:
    """One line of --export."""
    group = [_quoted(row.group)] if with_group else []
    return ",".join([*group, _quoted(row.topic), str(row.partition), str(row.new_offset)])


def _quoted(text: str) -> str:
    if len(text) < QUOTE_FROM_LENGTH and all(char >= FIRST_SAFE_CHARACTER for char in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def read_plan(path: str, only_group: str | None) -> dict[str, NewOffsets]:
    """Group -> its new offsets. Raises ExecutionError in Kafka's words."""
    lines = _rows(path)
    plans: dict[str, NewOffsets] = {}
    if only_group is not None and lines and _is_without_group(lines[0]):
        lines = [[only_group, *line] for line in lines]
    for line in lines:
        if len(line) > 4:
            raise ExecutionError(f"Too many entries: expected at most 4, but {path} has {','.join(line)}")
        group, topic, number, offset = [*line, *[""] * (4 - len(line))]
        plans.setdefault(group, {})[TopicPartition(topic, _number(number, Kind.INTEGER))] = _number(
            offset, Kind.LONG
        )
    return plans


def _rows(path: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(_read(path), newline=""))
    try:
        return [row for row in reader if row]
    except csv.Error as error:
        raise ExecutionError(f"{path}:{reader.line_num}: not CSV with commas: {error}") from None


def _is_without_group(line: list[str]) -> bool:
    """Kafka tries: a line of the short form has numbers in its second and third field."""
    if len(line) > 3:
        return False
    try:
        for text, kind in zip(line[1:], (Kind.INTEGER, Kind.LONG), strict=False):
            _number(text, kind)
    except ExecutionError:
        return False
    return True


def _number(text: str, kind: Kind) -> int:
    """A field that is missing or empty counts as 0."""
    try:
        value = kind.convert(text.strip() or "0")
    except ValueError:
        name = "int" if kind is Kind.INTEGER else "long"
        raise ExecutionError(
            f'Cannot deserialize value of type `{name}` from String "{text}": not a valid `{name}` value'
        ) from None
    assert isinstance(value, int)
    return value


def _read(path: str) -> str:
    try:
        return read_text(path)
    except FileError as error:
        raise ExecutionError(f"java.io.IOException: {error}") from None
