"""Counts of the requests that wait now. Kafka calls these requests delayed operations in a purgatory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Waiting:
    """The requests of one kind that wait now. `watched` is the number of partitions for which they wait."""

    operations: int = 0
    watched: int = 0

    def begin(self, partitions: int) -> None:
        self.operations += 1
        self.watched += partitions

    def end(self, partitions: int) -> None:
        self.operations -= 1
        self.watched -= partitions


@dataclass(slots=True, eq=False, weakref_slot=True)
class Expired:
    """The number of waits that reached their time limit, since the start of the broker. For Produce and DeleteRecords,
    each partition of a request counts.
    """

    consumer_fetches: int = 0
    follower_fetches: int = 0
    produces: int = 0
    deletions: int = 0


class Waits:
    """The waiting requests of a broker."""

    __slots__ = ("deletions", "expired", "fetches", "produces")

    def __init__(self) -> None:
        self.produces = Waiting()
        self.fetches = Waiting()
        self.deletions = Waiting()
        self.expired = Expired()
