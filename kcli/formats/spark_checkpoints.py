"""Reads checkpoints of Spark's Structured Streaming: the last micro-batch of a query, and the offsets at its end.

    DIR/metadata        {"id": "the id of the query"}
    DIR/offsets/N       the plan of micro-batch N: a version, a line of JSON with times, and a line for each source
    DIR/commits/N       exists as soon as micro-batch N is done

The line of a source with topics is {"topic": {"0": 23}}. Spark's own Kafka source and kcli's source write the
same form. The lines of other sources are kept as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from kcli.errors import KcliError
from kcli.model.java_text import natural
from kcli.model.topic_partition import TopicPartition

QUERIES_MAX = 200
"""The most checkpoints below one directory that are read."""
FILE_MAX_BYTES = 4 << 20
"""The largest file that is read. 100,000 partitions take 2 MB."""
BATCHES_MAX = 100_000
"""The most files in offsets/ that are listed. Spark keeps 100 by default."""

_OFFSETS, _COMMITS, _METADATA = "offsets", "commits", "metadata"


class NoCheckpoint(KcliError):
    """Raised if a directory has no checkpoint, or if it cannot be read."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a query. Times are in milliseconds since 1970.

    `batch` and `committed_ms` are None if no micro-batch is done. `offsets` are the end offsets of the last micro-batch
    that is done. `planned_ms` is the time at which Spark planned a micro-batch that is not done, or None.
    """

    name: str
    query_id: str
    batch: int | None
    committed_ms: int | None
    planned_ms: int | None
    watermark_ms: int | None
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    other_sources: tuple[str, ...] = ()
    """The end offsets of sources without topics, each in its own JSON form."""


def read_checkpoints(directory: str) -> list[Checkpoint]:
    """Returns the checkpoint in a directory, or the checkpoints in its subdirectories (kcli.spark.streams makes such
    subdirectories).

    Raises NoCheckpoint. This function reads files, so call it in a thread.
    """
    try:
        if os.path.isdir(os.path.join(directory, _OFFSETS)):
            return [_checkpoint(directory, os.path.basename(directory.rstrip("/")))]
        directories = list(_below(directory))
    except OSError as error:
        raise NoCheckpoint(f"{directory}: {error.strerror or error}") from error
    if not directories:
        raise NoCheckpoint(
            f"{directory} has no checkpoint: neither the directory nor a subdirectory has offsets/"
        )
    return directories


def _below(directory: str) -> Iterator[Checkpoint]:
    names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    with_offsets = (name for name in names if os.path.isdir(os.path.join(directory, name, _OFFSETS)))
    for _, name in zip(range(QUERIES_MAX), with_offsets, strict=False):
        yield _checkpoint(os.path.join(directory, name), name)


def _checkpoint(directory: str, name: str) -> Checkpoint:
    planned, committed = (_newest(os.path.join(directory, entry)) for entry in (_OFFSETS, _COMMITS))
    offsets: dict[TopicPartition, int] = {}
    others: list[str] = []
    watermark_ms, committed_ms, planned_ms = None, None, None
    if committed is not None:
        committed_ms = _modified_ms(os.path.join(directory, _COMMITS, str(committed)))
        plan, sources = _plan(os.path.join(directory, _OFFSETS, str(committed)))
        watermark_ms = _positive(plan.get("batchWatermarkMs"))
        for source in sources:
            read = _offsets_of(source)
            if read is None:
                others.append(source)
            offsets |= read or {}
    if planned is not None and planned != committed:
        plan, _ = _plan(os.path.join(directory, _OFFSETS, str(planned)))
        planned_ms = _positive(plan.get("batchTimestampMs"))
    query_id = _json(_text(os.path.join(directory, _METADATA))).get("id")
    return Checkpoint(
        name,
        query_id if isinstance(query_id, str) else "",
        committed,
        committed_ms,
        planned_ms,
        watermark_ms,
        offsets,
        tuple(others),
    )


def _newest(directory: str) -> int | None:
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return None
    numbers = (entry.name for _, entry in zip(range(BATCHES_MAX), entries, strict=False))
    return max((number for name in numbers if (number := natural(name)) is not None), default=None)


def _plan(path: str) -> tuple[dict[str, object], list[str]]:
    """Returns the line with times, and the lines of the sources. If the file is missing or invalid, both are empty."""
    lines = _text(path).splitlines()
    return (_json(lines[1]), lines[2:]) if len(lines) > 1 else ({}, [])


def _offsets_of(line: str) -> dict[TopicPartition, int] | None:
    """Returns the offsets of a source with topics, or None for another source."""
    offsets: dict[TopicPartition, int] = {}
    read = _json(line)
    for topic, partitions in read.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            number = natural(partition)
            if number is None or not isinstance(offset, int) or isinstance(offset, bool):
                return None
            offsets[TopicPartition(topic, number)] = offset
    return offsets or None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        return ""
    return text if len(text) <= FILE_MAX_BYTES else ""


def _json(text: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _modified_ms(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None
