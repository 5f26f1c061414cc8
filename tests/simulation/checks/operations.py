"""The data model for a history of a cluster as its clients saw it: operations that send records to partitions and poll
records.

The model comes from Jepsen's test of Kafka. An operation belongs to a process, which is one client. A process runs one
operation after another. An operation is a transaction, one record of a producer without transactions, or one poll of a
consumer. Each value is sent once, so a value identifies its record.

A history is written as lines of JSON, one line for each operation, so that the checker can read the history again
later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeAlias

from simulation.checks.history import Outcome

__all__ = ["Action", "History", "Operation", "Outcome", "Polled", "Producer", "Protocol", "Sent"]


class Protocol(Enum):
    """The protocol of a transaction."""

    NONE = "none"
    """No transaction: the operation is a single record or a poll."""
    TV1 = "TV1"
    """A producer keeps its epoch for several transactions. So a late Produce request may enter the next transaction
    (KAFKA-17754)."""
    TV2 = "TV2"
    """Each transaction has a new producer epoch (KIP-890)."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that was sent. The offset is None if no answer contained it."""

    partition: int
    value: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """The records of one partition that a poll returned, as pairs of offset and value.

    Within a `session`, each poll of a process continues where the poll before it ended. A new assignment or a seek
    begins a new session. `position` is the offset at which the poll began, or None if the client does not know it.
    """

    partition: int
    records: tuple[tuple[int, str], ...]
    session: int = 0
    at: float = math.inf
    """The time at which the poll returned."""
    position: int | None = None


Action: TypeAlias = Sent | Polled


@dataclass(slots=True)
class Operation:
    """One operation of a process. All times must be of the same clock."""

    process: str
    begun: float
    outcome: Outcome = Outcome.ABORTED
    asked: float = math.inf
    """The time of the request to commit. For a record outside of a transaction, it is `begun`."""
    ended: float = math.inf
    protocol: Protocol = Protocol.NONE
    reads_uncommitted: bool = False
    actions: list[Action] = field(default_factory=list)

    @property
    def sent(self) -> Iterator[Sent]:
        return (each for each in self.actions if isinstance(each, Sent))

    @property
    def polled(self) -> Iterator[Polled]:
        return (each for each in self.actions if isinstance(each, Polled))

    @property
    def is_transaction(self) -> bool:
        return self.protocol is not Protocol.NONE

    def __str__(self) -> str:
        kind = "operation" if self.protocol is Protocol.NONE else f"{self.protocol.value} transaction"
        return f"{kind} of {self.process} at {self.begun:.3f} ({self.outcome.value})"


class Producer(NamedTuple):
    """The producer of a batch, as stated in the header of the batch."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class History:
    """A complete history: the operations of each process in order, and the ends of the partitions that were read
    completely.
    """

    operations: tuple[Operation, ...]
    ends: Mapping[int, int] = field(default_factory=dict)
    """The offset after the last record, by partition. A reader has read all records before this offset."""
    producers: Mapping[tuple[int, int], Producer] = field(default_factory=dict)
    """The producer of each copy of a duplicate in the log, by partition and offset."""


def save(history: History, path: Path) -> None:
    with path.open("w") as file:
        producers = [(*place, *producer) for place, producer in sorted(history.producers.items())]
        file.write(json.dumps({"ends": sorted(history.ends.items()), "producers": producers}) + "\n")
        for each in history.operations:
            file.write(json.dumps(_to_json(each)) + "\n")


def load(path: Path) -> History:
    with path.open() as file:
        head = json.loads(file.readline())
        producers = {
            (partition, offset): Producer(*producer)
            for partition, offset, *producer in head.get("producers", ())  # older histories have none
        }
        return History(tuple(_from_json(json.loads(line)) for line in file), dict(head["ends"]), producers)


def _to_json(operation: Operation) -> dict[str, object]:
    return {
        "process": operation.process,
        "outcome": operation.outcome.name,
        "protocol": operation.protocol.name,
        "times": [operation.begun, operation.asked, operation.ended],
        "uncommitted": operation.reads_uncommitted,
        "actions": list(_actions_to_json(operation.actions)),
    }


def _actions_to_json(actions: Iterable[Action]) -> Iterator[list[object]]:
    for each in actions:
        match each:
            case Sent(partition, value, offset):
                yield ["sent", partition, value, offset]
            case Polled(partition, records, session, at, position):
                yield ["polled", partition, list(records), session, at, position]


def _from_json(row: Mapping[str, object]) -> Operation:
    times, actions = row["times"], row["actions"]
    assert isinstance(times, list) and isinstance(actions, list), row
    begun, asked, ended = times
    return Operation(
        process=str(row["process"]),
        begun=begun,
        outcome=Outcome[str(row["outcome"])],
        asked=asked,
        ended=ended,
        protocol=Protocol[str(row["protocol"])],
        reads_uncommitted=bool(row["uncommitted"]),
        actions=[_action_from_json(each) for each in actions],
    )


def _action_from_json(row: list[object]) -> Action:
    match row:
        case ["sent", int(partition), str(value), int() | None as offset]:
            return Sent(partition, value, offset)
        case ["polled", int(partition), list(records), int(session), float(at), int() | None as position]:
            pairs = tuple((offset, value) for offset, value in records)
            return Polled(partition, pairs, session, at, position)
        case _:
            raise ValueError(f"expected an action, found {row}")
