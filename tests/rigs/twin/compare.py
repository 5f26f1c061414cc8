"""Compares the answers of two servers field by field, apart from the accepted differences."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kcli.protocol.wire.api import ApiKey
from rigs.twin.play import Answer

EARLIEST_CLOCK_MS = 1_600_000_000_000
"""Clocks show later times. A time before this one is -1, or was given by a request."""


def _any_values(_first: object, _second: object) -> bool:
    return True


def _real_ids(first: object, second: object) -> bool:
    """Whether no value stands for a broker that does not exist. Such a value is negative."""
    return all(not isinstance(each, int) or each >= 0 for each in (first, second))


def _times_of_clocks(first: object, second: object) -> bool:
    return all(isinstance(each, int) and each > EARLIEST_CLOCK_MS for each in (first, second))


@dataclass(frozen=True, slots=True)
class Accepted:
    """A pattern for `API path` whose fields may differ, and the reason. `cases` is a pattern for the names of the
    cases. `values` tests the two values."""

    pattern: str
    reason: str
    cases: str = ".*"
    values: Callable[[object, object], bool] = _any_values


ACCEPTED = (
    Accepted(r"\w+ throttle_time_ms", "depends on the load"),
    Accepted(r"\w+ (.*\.)?(host|port)", "each server has its own address"),
    Accepted(r"\w+ (.*\.)?cluster_id", "each server has its own cluster"),
    Accepted(r"\w+ (.*\.)?(brokers|nodes|voters|node_endpoints)\..*", "each server has its own brokers"),
    Accepted(
        r"\w+ (.*\.)?(node_id|broker_id|leader_id|controller_id)",
        "each server has its own brokers",
        values=_real_ids,
    ),
    Accepted(r"\w+ (.*\.)?(replica_nodes|isr_nodes)", "each server has its own brokers"),
    Accepted(r"\w+ (.*\.)?topic_id", "ids are random"),
    Accepted(r"\w+ (.*\.)?\w*directory_id", "ids are random"),
    Accepted(
        r"\w+ (.*\.)?\w*(timestamp|time)(_ms)?", "the clocks of two runs differ", values=_times_of_clocks
    ),
    Accepted(r"FETCH session_id", "session ids are random"),
    Accepted(r"DESCRIBE_CONFIGS results\.configs\.documentation", "the texts are our own"),
    Accepted(
        r"DESCRIBE_LOG_DIRS results\.(log_dir|(total|usable)_bytes|topics\.partitions\.partition_size)",
        "directories, sizes and free space are those of the machine",
    ),
    Accepted(r"DESCRIBE_QUORUM .*(offset|epoch|watermark)", "the metadata logs have other histories"),
    Accepted(r"API_VERSIONS (api_keys|finalized_features_epoch).*", "Kafka serves APIs that are not built"),
    Accepted(r"\w+ (.*\.)?hmac|\w+ (.*\.)?token_id", "random"),
    Accepted(r"\w+ (.*\.)?producer_id", "blocks of producer ids begin anywhere"),
    Accepted("PRODUCE ", "Kafka fails to print the request, and never answers", cases="null"),
    Accepted("ALTER_CONFIGS ", "Kafka fails to make its answer, and never answers", cases="a topic twice"),
    Accepted(
        "ADD_PARTITIONS_TO_TXN ", "Kafka never answers to a batch of none", cases="nothing but defaults"
    ),
    Accepted(
        r"PRODUCE responses\.partition_responses\.error_message",
        "Kafka refuses the whole request with a text, kcli only the partition",
        cases="a batch of size 0|an unknown format",
    ),
)
"""The order of lists is not compared, because Kafka answers from hash maps. Golden tests check the order where tools
show it."""

_NAMES = (
    "name", "topic", "topic_name", "partition_index", "partition", "partition_id", "index", "resource_type",
    "resource_name", "group_id", "entity_type", "entity_name", "key", "api_key", "feature", "transactional_id",
    "member_id", "user", "principal", "operation", "topic_id",
)  # fmt: skip
"""The fields that name an entry of a list."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which the answers differ. `path` has no places of entries, `first` and `second` are its values."""

    name: str
    key: ApiKey
    path: str
    first: object
    second: object

    def __str__(self) -> str:
        return f"{self.name}\n    {self.path}: {self.first!r} | {self.second!r}"

    @property
    def accepted(self) -> Accepted | None:
        text = f"{self.key.name} {self.path}"
        case = self.name.partition(": ")[2]
        return next(
            (
                each
                for each in ACCEPTED
                if re.fullmatch(each.pattern, text)
                and re.fullmatch(each.cases, case)
                and each.values(self.first, self.second)
            ),
            None,
        )


def compare(first: list[Answer], second: list[Answer]) -> Iterator[Difference]:
    """Yields the differences that are not accepted, in the order of the table."""
    for one, other in zip(first, second, strict=True):
        assert one.name == other.name
        for path, left, right in _differences(one.response, other.response, ""):
            difference = Difference(one.name, one.case.key, path, left, right)
            if difference.accepted is None:
                yield difference


def _differences(one: Any, other: Any, path: str) -> Iterator[tuple[str, object, object]]:
    if type(one) is not type(other):
        yield path, one, other
    elif dataclasses.is_dataclass(one):
        for each in dataclasses.fields(one):
            below = f"{path}.{each.name}" if path else each.name
            yield from _differences(getattr(one, each.name), getattr(other, each.name), below)
    elif isinstance(one, tuple):
        lefts, rights = _sorted(one), _sorted(other)
        if len(lefts) != len(rights) or (lefts and not dataclasses.is_dataclass(lefts[0])):
            if lefts != rights:
                yield path, one, other
            return
        for left, right in zip(lefts, rights, strict=True):
            yield from _differences(left, right, path)
    elif one != other:
        yield path, one, other


def _sorted(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(entries, key=_named))


def _named(entry: Any) -> tuple[str, ...]:
    if not dataclasses.is_dataclass(entry):
        return (str(entry),)
    return tuple(str(getattr(entry, name)) for name in _NAMES if hasattr(entry, name))
