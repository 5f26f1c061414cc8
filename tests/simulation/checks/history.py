"""Compares a history of transactions with the records that a read_committed reader saw, as the checker Elle does.

Every value is written once, so the log of a partition shows the order of its writes. (Kingsbury and Alvaro describe
this method.) The check finds these anomalies:

    - a lost write: the producer knows that the transaction is committed, and the reader lacks its value;
    - an aborted read: the reader saw a value of a transaction that was aborted, or that the producer never tried to
      commit;
    - a torn transaction: the producer does not know whether the transaction was committed, and the reader saw only some
      of the transaction's values;
    - a value twice, or a value that no transaction wrote;
    - values in a wrong order, in one transaction, from one producer, or in two transactions that did not overlap in
      time.

A write cycle means that transaction A is before B in one partition and after B in another partition. Write cycles are
reported separately, because Kafka allows them for transactions that overlap in time. If transactions do not overlap,
`write_cycles` must be empty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from simulation.checks.components import cyclic_components

Partition = Hashable
Value = Hashable
Log = Mapping[Any, Sequence[Value]]
"""The values that the reader saw in each partition, in the order of offsets."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "asked to commit"
    """The producer has requested the commit, but does not know whether the transaction is committed."""


@dataclass(slots=True)
class Transaction:
    """A transaction as its producer knows it. All times must be of the same clock, in any unit."""

    producer: str
    number: int
    begun: float
    outcome: Outcome = Outcome.ABORTED
    ended: float = math.inf
    writes: list[tuple[Partition, Value]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.producer} ({self.outcome.value})"


def anomalies(transactions: Iterable[Transaction], log: Log) -> list[str]:
    """Returns a description of each anomaly. The list is empty for a correct history."""
    known = list(transactions)
    writer = {value: transaction for transaction in known for _, value in transaction.writes}
    return [
        *_seen_wrongly(writer, log),
        *_incomplete(known, log),
        *(text for partition, values in log.items() for text in _disorder(partition, values, writer)),
    ]


def _seen_wrongly(writer: Mapping[Value, Transaction], log: Log) -> Iterable[str]:
    seen: set[Value] = set()
    for partition, values in log.items():
        for value in values:
            if value in seen:
                yield f"{value!r} is seen twice, the second time in {partition}"
            seen.add(value)
            transaction = writer.get(value)
            if transaction is None:
                yield f"{value!r} in {partition} was never written"
            elif transaction.outcome is Outcome.ABORTED:
                yield f"aborted read: {value!r} in {partition} of {transaction}"


def _incomplete(transactions: Iterable[Transaction], log: Log) -> Iterable[str]:
    seen = {(partition, value) for partition, values in log.items() for value in values}
    for transaction in transactions:
        missing = [write for write in transaction.writes if write not in seen]
        if not missing or transaction.outcome is Outcome.ABORTED:
            continue
        if transaction.outcome is Outcome.COMMITTED:
            yield f"lost write: {missing[0]} of {transaction}"
        elif len(missing) < len(transaction.writes):
            yield f"torn: {missing[0]} of {transaction} is not seen, others of it are"


def _disorder(
    partition: Partition, values: Sequence[Value], writer: Mapping[Value, Transaction]
) -> Iterable[str]:
    """Yields the values that are in a wrong order. Goes from the last value to the first, because the values after a
    value show whether it is in a wrong order.
    """
    first_ended: Transaction | None = None
    first_of_producer: dict[str, Transaction] = {}
    next_of: dict[int, int] = {}
    for value in reversed(values):
        one = writer.get(value)
        if one is None:
            continue
        at = one.writes.index((partition, value)) if (partition, value) in one.writes else -1
        if at >= next_of.get(id(one), len(one.writes)):
            yield f"{value!r} of {one} comes too early in {partition}"
        next_of[id(one)] = at
        if first_ended is not None and first_ended.ended < one.begun:
            yield f"{partition} has {one} before {first_ended}, which had ended when it began"
        later = first_of_producer.get(one.producer)
        if later is not None and later.number < one.number:
            yield f"{partition} has {one} before {later}"
        if first_ended is None or one.ended < first_ended.ended:
            first_ended = one
        if later is None or one.number < later.number:
            first_of_producer[one.producer] = one


def write_cycles(transactions: Iterable[Transaction], log: Log) -> list[list[Transaction]]:
    """Returns groups of transactions that form write cycles.

    In the smallest cycle, transaction A is before transaction B in one partition, and B is before A in another
    partition. A cycle may have more than two transactions.
    """
    writer = {value: transaction for transaction in transactions for _, value in transaction.writes}
    after: dict[int, set[int]] = {}
    by_id: dict[int, Transaction] = {}
    for values in log.values():
        order = [writer[value] for value in values if value in writer]
        by_id |= {id(one): one for one in order}
        for one, other in itertools.pairwise(order):
            if one is not other:
                after.setdefault(id(one), set()).add(id(other))
    return [[by_id[each] for each in group] for group in cyclic_components(by_id, after)]
