"""Reads and writes the small text files of a log directory: offset checkpoints, leader epochs, topic id, clean
shutdown.

A file is always replaced as a whole (`replace_file`), so a reader finds either the old or the new content.
"""

from __future__ import annotations

import contextlib
import functools
import re
import uuid
from collections.abc import Iterable, Mapping

from kcli.errors import CorruptRecordError
from kcli.model.ids import NO_BROKER_EPOCH, LeaderEpoch, Offset
from kcli.model.java_json import json_long, json_object, parse_json
from kcli.model.java_text import parse_int, parse_long, trim
from kcli.model.topic_partition import TopicPartition
from kcli.model.uuids import uuid_from_text, uuid_to_text
from kcli.runtime.disk import Disk, read_file, replace_file

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
CLEANER_OFFSET_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"

CONTENTS_SEEN_MAX = 100
"""The most file contents whose parsed values are cached. Many files are equal, because the partitions of a topic have
the same topic id, and thousands of logs have the same epochs."""

VERSION = 0
# The ends of lines and the white space of Java. Python's own functions split at more characters.
_LINE_END = re.compile("\r\n|\n|\r")
_BLANK = re.compile(r"\s+", re.ASCII)
_BLANKS = " \t\x0b\f"
"""Blanks at the end of a line, after which Java's `split` has no further field."""
_COLON = re.compile(r":\s+", re.ASCII)
_USUAL_METADATA = f"version: {VERSION}\ntopic_id: ".encode()


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """The entries of an offset checkpoint. Empty if the file is missing or empty."""
    offsets = {}
    for line, fields in _read_table(disk, path, columns=3):
        try:
            offsets[TopicPartition(fields[0], parse_int(fields[1]))] = Offset(parse_long(fields[2]))
        except ValueError:
            raise _malformed(path, line, "'<topic> <partition> <offset>'", " ".join(fields)) from None
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    replace_file(disk, path, encode_offsets((*key, offset) for key, offset in offsets.items()))


def encode_offsets(entries: Iterable[tuple[str, int, Offset]]) -> bytes:
    """The content of an offset checkpoint with these topics, partitions and offsets."""
    rows = [f"{topic} {partition} {offset}" for topic, partition, offset in entries]
    return _encode_table(rows, len(rows))


def read_epochs(disk: Disk, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    """The entries (epoch, start offset) of leader-epoch-checkpoint, in ascending order."""
    try:
        content = read_file(disk, path)
    except FileNotFoundError:
        return []
    usual = _usual_epochs(content)
    return _parsed_epochs(content, path) if usual is None else list(usual)


@functools.lru_cache(maxsize=CONTENTS_SEEN_MAX)
def _usual_epochs(content: bytes) -> tuple[tuple[LeaderEpoch, Offset], ...] | None:
    """The epochs in a valid file. None if the file is invalid."""
    try:
        return tuple(_parsed_epochs(content, ""))
    except CorruptRecordError:
        return None


def _parsed_epochs(content: bytes, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    epochs = []
    for line, fields in _parsed_table(content, path, columns=2):
        try:
            epochs.append((LeaderEpoch(parse_int(fields[0])), Offset(parse_long(fields[1]))))
        except ValueError:
            raise _malformed(path, line, "'<epoch> <start offset>'", " ".join(fields)) from None
    return epochs


def encode_epochs(epochs: Iterable[tuple[LeaderEpoch, Offset]]) -> bytes:
    rows = [f"{epoch} {start_offset}" for epoch, start_offset in epochs]
    return _encode_table(rows, len(rows))


def _read_table(disk: Disk, path: str, *, columns: int) -> list[tuple[int, list[str]]]:
    try:
        return _parsed_table(read_file(disk, path), path, columns=columns)
    except FileNotFoundError:
        return []


def _parsed_table(content: bytes, path: str, *, columns: int) -> list[tuple[int, list[str]]]:
    """The line number and fields of each row. The first line of the file is its version, and the second is the number
    of rows."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return []
    if trim(lines[0]) != str(VERSION):
        raise _malformed(path, 1, f"version {VERSION}", lines[0])
    rows = [(number, _BLANK.split(line.rstrip(_BLANKS))) for number, line in enumerate(lines[2:], 3)]
    for number, fields in rows:
        if len(fields) != columns:
            raise _malformed(path, number, f"{columns} fields", lines[number - 1])
    count = trim(lines[1]) if len(lines) > 1 else ""
    if count != str(len(rows)):
        raise _malformed(path, 2, f"the number of entries, which is {len(rows)}", count)
    return rows


def _malformed(path: str, line: int, expected: str, actual: str) -> CorruptRecordError:
    return CorruptRecordError(f"{path}, line {line}: expected {expected}, found {actual!r}")


def _encode_table(rows: Iterable[str], count: int) -> bytes:
    return "".join(f"{row}\n" for row in (VERSION, count, *rows)).encode("utf-8")


def read_partition_metadata(disk: Disk, path: str) -> uuid.UUID | None:
    """The topic id in partition.metadata. None if the file does not exist."""
    try:
        content = read_file(disk, path)
    except FileNotFoundError:
        return None
    usual = _usual_topic_id(content)
    if usual is not None:
        return usual
    # Other content is read as Kafka reads it, which takes longer.
    lines = _LINE_END.split(content.decode("utf-8", "replace"))
    fields = dict(_COLON.split(line, maxsplit=1) for line in lines if _COLON.search(line))
    try:
        version = parse_int(fields["version"])
        topic_id = uuid_from_text(trim(fields["topic_id"]))
    except (KeyError, ValueError):
        raise CorruptRecordError(
            f"{path}: expected 'version: 0' and 'topic_id: <id>', found {lines}"
        ) from None
    if version < 0 or topic_id.int == 0:
        raise CorruptRecordError(f"{path}: invalid version {version} or topic id {topic_id}")
    return topic_id


@functools.lru_cache(maxsize=CONTENTS_SEEN_MAX)
def _usual_topic_id(content: bytes) -> uuid.UUID | None:
    """The topic id in a file that has the usual form. None for any other content."""
    with contextlib.suppress(ValueError):
        if content.startswith(_USUAL_METADATA):
            topic_id = uuid_from_text(content[len(_USUAL_METADATA) :].decode())
            return topic_id if topic_id.int else None
    return None


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    return _USUAL_METADATA + uuid_to_text(topic_id).encode()


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """The broker epoch of the last clean stop (−1 if the file contains no epoch). None after an unclean stop."""
    try:
        content = read_file(disk, path)
    except FileNotFoundError:
        return None
    try:
        properties = json_object(parse_json(content.decode()))
        return json_long(properties["brokerEpoch"]) if properties["version"] == VERSION else NO_BROKER_EPOCH
    except (ValueError, KeyError, TypeError):
        return NO_BROKER_EPOCH  # Kafka before 3.7 wrote an empty file


def write_clean_shutdown(disk: Disk, path: str, broker_epoch: int) -> None:
    replace_file(disk, path, f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'.encode())
