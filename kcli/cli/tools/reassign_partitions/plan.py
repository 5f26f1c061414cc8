"""Reads and checks reassignment files as Kafka does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.cli.partitions_file import (
    FileError,
    check_version,
    entries,
    field,
    number_field,
    partition_names,
    repeated,
)
from kcli.cli.syntax.options import java_split
from kcli.client.admin.log_dirs import Replica
from kcli.client.reassign.assignment import ANY_LOG_DIR, VERSION, Assignment
from kcli.command.rows import Json
from kcli.model.java_json import json_int, parse_json
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition


class PlanError(FileError):
    """Raised for a file or an argument that Kafka's tool refuses, with Kafka's message."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A reassignment file.

    `entries` are in the order of the file. `log_dirs` has the directory of each replica for which the file gives a
    directory.
    """

    entries: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    log_dirs: dict[Replica, str]

    @property
    def assignment(self) -> Assignment:
        """The replicas by partition. If a partition has several entries, the last one counts."""
        return dict(self.entries)


def parse_plan(text: str) -> Plan:
    """Parses a reassignment file. Raises PlanError if it is invalid."""
    partitions: list[tuple[TopicPartition, tuple[int, ...]]] = []
    log_dirs: dict[Replica, str] = {}
    for entry in _listed(text, "partitions"):
        topic, index = field(entry, "topic", str), number_field(entry, "partition")
        replicas = tuple(_ints(field(entry, "replicas", list), entry))
        paths = _texts(field(entry, "log_dirs", list), entry) if "log_dirs" in entry else []
        if "log_dirs" in entry and len(paths) != len(replicas):
            raise PlanError(
                f"Size of replicas list {_java_list(replicas)} is different from size of log dirs list "
                f"{_java_list(paths)} for partition {topic}-{index}"
            )
        partitions.append((TopicPartition(topic, index), replicas))
        for broker, path in zip(replicas, paths, strict=False):
            if path != ANY_LOG_DIR:
                log_dirs[Replica(topic, index, broker)] = path
    return Plan(tuple(partitions), log_dirs)


def check_plan(plan: Plan) -> None:
    """Raises PlanError if the plan cannot be executed."""
    if not plan.entries:
        raise PlanError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.entries):
        raise PlanError("Partition replica list cannot be empty")
    listed_twice = repeated(partition for partition, _ in plan.entries)
    if listed_twice:
        shown = partition_names(listed_twice)
        raise PlanError(f"Partition reassignment contains duplicate topic partitions: {shown}")
    twice = [
        f"{topic}-{number} contains multiple entries for {','.join(map(str, repeated(replicas)))}"
        for (topic, number), replicas in plan.entries
        if repeated(replicas)
    ]
    if twice:
        raise PlanError(f"Partition replica lists may not contain duplicate entries: {'. '.join(twice)}")


def parse_topics(text: str) -> list[str]:
    """Parses a topics-to-move file. Raises PlanError if it is invalid or lists a topic twice."""
    topics = [field(entry, "topic", str) for entry in _listed(text, "topics")]
    if twice := repeated(topics):
        raise PlanError(f"List of topics to reassign contains duplicate entries: {_java_list(twice)}")
    return topics


def parse_brokers(text: str) -> list[int]:
    """Parses a list of brokers such as `1,2,3`. Raises PlanError for an invalid number or a repeated broker."""
    brokers = []
    for part in java_split(text):
        try:
            brokers.append(parse_int(part))
        except ValueError as error:
            raise PlanError(str(error)) from None
    if twice := repeated(brokers):
        raise PlanError(f"Broker list contains duplicate entries: {_java_list(twice)}")
    return brokers


def _listed(text: str, name: str) -> list[dict[str, Json]]:
    try:
        document = parse_json(text)
    except ValueError as error:
        raise PlanError(_json_error(text, error)) from None
    if not isinstance(document, dict):
        raise PlanError(f"The file holds {type(document).__name__}: expected an object with the field {name}")
    check_version(document, VERSION)
    return entries(document.get(name, []), name)


_TOKEN = re.compile(r"\s*([\w$]+)", re.ASCII)


def _json_error(text: str, error: ValueError) -> str:
    """Returns the message for invalid JSON: Jackson's message for a bare word, else Python's message."""
    token = _TOKEN.match(text)
    if token is None or token[1][0].isdecimal():
        return f"The input string is not a valid JSON: {error}"
    before = text[: token.end()]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return (
        f"Unrecognized token '{token[1]}': was expecting (JSON String, Number, Array, Object or token 'null', "
        f"'true' or 'false')\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); "
        f"line: {line}, column: {column}]"
    )


def _ints(values: list[object], entry: dict[str, Json]) -> list[int]:
    try:
        return [json_int(value) for value in values]
    except ValueError:
        raise PlanError(f"The field replicas of {json.dumps(entry)} must be a list of broker ids") from None


def _texts(values: list[object], entry: dict[str, Json]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise PlanError(f"The field log_dirs of {json.dumps(entry)} must be a list of directories")
    return [str(value) for value in values]


def _java_list(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"
