"""Writes and reads the CSV of kafka-consumer-groups --export and --from-file.

A line is `topic,partition,offset` if exactly one group is named on the command line, else
`group,topic,partition,offset`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcli.cli.partitions_file import FileError, read_text
from kcli.cli.syntax.options import Kind, UsageError
from kcli.cli.tools.consumer_groups.failures import ExecutionError
from kcli.model.java_text import trim
from kcli.model.topic_partition import TopicPartition

QUOTE_FROM_LENGTH = 25
"""Kafka's CSV writer quotes every text of this length or longer."""
FIRST_SAFE_CHARACTER = "-"
"""Kafka's CSV writer also quotes a text with a character that sorts before this one, such as a comma, a quote or a
space."""

# A field in quotes, and the white space after it. Two quotes are one quote of the field.
_QUOTED = re.compile(r'"((?:[^"]|"")*)"[ \t]*')
_END = re.compile(r",|\r|\Z")

NewOffsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class NewOffset:
    """The new offset of one partition of a group, or the offset that a dry run proposes."""

    group: str
    topic: str
    partition: int
    new_offset: int


def csv_line(row: NewOffset, *, with_group: bool) -> str:
    """Returns one line of --export."""
    group = [_quoted(row.group)] if with_group else []
    return ",".join([*group, _quoted(row.topic), str(row.partition), str(row.new_offset)])


def _quoted(text: str) -> str:
    if len(text) < QUOTE_FROM_LENGTH and all(char >= FIRST_SAFE_CHARACTER for char in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def read_plan(path: str, only_group: str | None) -> dict[str, NewOffsets]:
    """Returns the new offsets of each group. Raises ExecutionError or UsageError with Kafka's message."""
    lines = _rows(path)
    plans: dict[str, NewOffsets] = {}
    if only_group is not None and _is_without_group(lines[0]):
        lines = [[only_group, *line] for line in lines]
    for line in lines:
        if len(line) > 4:
            raise ExecutionError(f"Too many entries: expected at most 4, but {path} has {','.join(line)}")
        group, topic, number, text = [*line, *[""] * (4 - len(line))]
        partition, offset = TopicPartition(topic, _number(number, Kind.INTEGER)), _number(text, Kind.LONG)
        if offset < 0:
            raise UsageError("Invalid negative offset")
        plans.setdefault(group, {})[partition] = offset
    return plans


def _rows(path: str) -> list[list[str]]:
    """Returns the fields of each line. As Kafka does, it first splits the text into lines, so a quoted field cannot
    contain the end of a line."""
    lines = _read(path).rstrip("\n").split("\n")
    return [_fields(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _fields(line: str, where: str) -> list[str]:
    """Splits a line by the rules of Jackson's CSV reader. White space around a field without quotes belongs to the
    field. A carriage return ends the line, and text after it is ignored."""
    if line in ("", "\r"):
        raise ExecutionError(f"{where}: No content to map due to end-of-input")
    fields, at = [], 0
    while True:
        if line.startswith('"', at):
            quoted = _QUOTED.match(line, at)
            if quoted is None:
                raise ExecutionError(f"{where}: Missing closing quote for value")
            fields.append(quoted[1].replace('""', '"'))
            at = quoted.end()
        else:
            end = _END.search(line, at)
            assert end is not None, "the end of the line is an end"
            fields.append(line[at : end.start()])
            at = end.start()
        following = line[at : at + 1]
        if following in ("", "\r"):
            return fields
        if following != ",":
            raise ExecutionError(
                f"{where}: Unexpected character ('{following}'): expected separator (',') or end-of-line"
            )
        at += 1


def _is_without_group(line: list[str]) -> bool:
    """Whether a line has no group.

    A line has no group if it has at most three fields and the second and third field are numbers or empty. Kafka's tool
    decides this in the same way.
    """
    if len(line) > 3:
        return False
    try:
        for text, kind in zip(line[1:], (Kind.INTEGER, Kind.LONG), strict=False):
            _number(text, kind)
    except ExecutionError:
        return False
    return True


def _number(text: str, kind: Kind) -> int:
    """Parses a number. A missing or empty field counts as 0."""
    try:
        value = kind.convert(trim(text) or "0")
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
