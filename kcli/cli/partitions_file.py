"""Reads files that list topics and partitions, and checks the entries of JSON files."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from kcli.command.rows import Json
from kcli.model.java_json import json_int
from kcli.model.topic_partition import TopicPartition

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

# The largest file that is read. A list of all partitions of the largest cluster is far smaller.
MAX_FILE_BYTES = 64 * 1024 * 1024


class FileError(Exception):
    """Raised for a file that cannot be read or whose content is invalid."""


def read_text(path: str) -> str:
    """Returns the text of a file. Raises FileError with Kafka's message."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        raise FileError(f"Unable to read file {path}") from None
    if len(content) > MAX_FILE_BYTES:
        raise FileError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return content.decode("utf-8", "replace")


def entries(listed: object, name: str) -> list[dict[str, Json]]:
    """Returns `listed`, the value of the JSON field `name`, unchanged. Raises FileError if the value is not a list of
    objects."""
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise FileError(f"The field {name} must be a list of objects, not {json.dumps(listed)}")
    return listed


def check_version(document: dict[str, Json], expected: int) -> None:
    """Raises FileError with Kafka's message if the document has another version."""
    version = document.get("version", expected)
    if isinstance(version, bool) or not isinstance(version, int) or version != expected:
        raise FileError(f"Not supported version field value {json.dumps(version)}")


def number_field(entry: dict[str, Json], name: str, kind: Callable[[object], int] = json_int) -> int:
    """Returns a whole number: an int, or a long if `kind` is `json_long`. Raises FileError for any other value."""
    try:
        return kind(entry.get(name))
    except ValueError:
        size = "int" if kind is json_int else "long"
        raise FileError(f"The field {name} of {json.dumps(entry)} must be of type {size}") from None


def field(entry: dict[str, Json], name: str, kind: type[T]) -> T:
    """Returns the value of a field of an entry. Raises FileError if the field is missing or has another type."""
    value = entry.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FileError(f"The field {name} of {json.dumps(entry)} must be of type {kind.__name__}")
    return value


def repeated(values: Iterable[H]) -> list[H]:
    """Returns the values that occur more than once, in the order of their first appearance."""
    seen: dict[H, int] = {}
    for value in values:
        seen[value] = seen.get(value, 0) + 1
    return [value for value, times in seen.items() if times > 1]


def partition_names(partitions: Iterable[TopicPartition], between: str = ",") -> str:
    """Returns the names of partitions as text, such as `a-0,a-1`."""
    return between.join(f"{topic}-{number}" for topic, number in partitions)
