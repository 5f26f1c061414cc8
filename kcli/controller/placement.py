"""Spreads new replicas over racks, and over the brokers of each rack (KIP-36, with KRaft's algorithm).

Racks are sorted by name, and the brokers of a rack by id. Each list is a ring: after its last entry comes its first
entry. A ring starts at a random place, so that small topics do not all use the first broker. A partition takes its
replicas from one rack after another. The next partition starts at the next rack. Fenced brokers are used only if a rack
has no more unfenced brokers, and never as the leader.

With n > 1 unfenced brokers, all lists are shuffled after every n partitions. So the same sets of replicas are not
repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kcli.errors import InvalidReplicationFactorException
from kcli.model.ids import BrokerId
from kcli.runtime.rng import Rng

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UsableBroker:
    id: BrokerId
    rack: str | None
    fenced: bool


def place(
    brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, rng: Rng
) -> list[list[BrokerId]]:
    """The replicas of each new partition, leader first.

    Raises InvalidReplicationFactorException if the brokers cannot hold that many replicas.
    """
    racks = _Racks(tuple(brokers), rng)
    if replication_factor <= 0:
        raise InvalidReplicationFactorException(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if racks.unfenced == 0:
        raise InvalidReplicationFactorException("All brokers are currently fenced.")
    if replication_factor > racks.total:
        raise InvalidReplicationFactorException(
            f"The target replication factor of {replication_factor} cannot be reached because only {racks.total} "
            "broker(s) are registered."
        )
    return [racks.next_partition(replication_factor) for _ in range(partitions)]


class _Ring:
    """A list of brokers, as a ring. One round returns each broker once. The next round starts one place later."""

    def __init__(self, brokers: list[BrokerId], rng: Rng) -> None:
        self._brokers = sorted(brokers)
        self._rng = rng
        self._start = rng.randrange(len(brokers)) if brokers else 0
        self._round = 0
        self._draws = 0

    def draw(self, number: int) -> BrokerId | None:
        """Returns the next broker in round number `number`. None if this round has already returned every broker."""
        if not self._brokers:
            return None
        if number != self._round:
            self._round = number
            self._start = (self._start + 1) % len(self._brokers)
            self._draws = 0
        if self._draws == len(self._brokers):
            return None
        broker = self._brokers[(self._start + self._draws) % len(self._brokers)]
        self._draws += 1
        return broker

    def shuffle(self) -> None:
        _shuffle(self._brokers, self._rng)


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], rng: Rng) -> None:
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], rng)
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], rng)

    def draw(self, number: int) -> BrokerId | None:
        broker = self.unfenced.draw(number)
        return self.fenced.draw(number) if broker is None else broker

    def shuffle(self) -> None:
        self.fenced.shuffle()
        self.unfenced.shuffle()


class _Racks:
    def __init__(self, brokers: Sequence[UsableBroker], rng: Rng) -> None:
        self.total = len(brokers)
        self.unfenced = sum(not broker.fenced for broker in brokers)
        by_rack: dict[tuple[bool, str], list[UsableBroker]] = {}
        for broker in brokers:
            # Brokers without a rack form a group of their own, which comes first.
            by_rack.setdefault((broker.rack is not None, broker.rack or ""), []).append(broker)
        self._rng = rng
        self._racks = [_Rack(by_rack[name], rng) for name in sorted(by_rack)]
        self._start = rng.randrange(len(self._racks)) if self._racks else 0
        self._round = 0

    def next_partition(self, replication_factor: int) -> list[BrokerId]:
        """The replicas of the next partition.

        The search for a leader begins at the start rack of this partition, and takes the first rack that has an
        unfenced broker. The other replicas come from one rack after another, and this search also begins at the start
        rack. Its first round leaves out the rack of the leader.
        """
        # With only one unfenced broker, the lists would be shuffled after every partition.
        if self._round == self.unfenced > 1:
            self._shuffle()
            self._round = 0
        count = len(self._racks)
        leader_rack = self._start
        while (leader := self._racks[leader_rack].unfenced.draw(self._round)) is None:
            leader_rack = (leader_rack + 1) % count
        replicas = [leader]
        rack, leader_rack_left_out = self._start, False
        while len(replicas) < replication_factor:
            if rack == leader_rack and not leader_rack_left_out:
                leader_rack_left_out = True
            elif (broker := self._racks[rack].draw(self._round)) is not None:
                replicas.append(broker)
            rack = (rack + 1) % count
        self._round += 1
        self._start = (self._start + 1) % count
        return replicas

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._rng)
        for rack in self._racks:
            rack.shuffle()


def _shuffle(values: list[T], rng: Rng) -> None:
    """Puts the values into a random order (Fisher-Yates)."""
    for last in range(len(values) - 1, 0, -1):
        other = rng.randrange(last + 1)
        values[last], values[other] = values[other], values[last]
