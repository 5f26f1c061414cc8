"""Spreads new replicas over racks, and over the brokers of each rack (KIP-36, with KRaft's algorithm).

Racks are sorted by name, and the brokers of a rack by id. Each list is used as a ring: after its end, it continues at
its beginning. A ring starts at a random place, so that the partitions of small topics do not all go to the first
broker. Each partition takes its replicas from the racks in turn and starts one rack later than the partition before it.
Fenced brokers are used only if a rack has no more unfenced brokers, and never as the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.errors import InvalidReplicationFactorException
from kcli.model.ids import BrokerId
from kcli.runtime.rng import Rng


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
    times = f"Unable to replicate the partition {replication_factor} time(s): "
    if replication_factor <= 0:
        raise InvalidReplicationFactorException(times + "The target replication factor must be at least 1.")
    if racks.unfenced == 0:
        raise InvalidReplicationFactorException(times + "All brokers are currently fenced.")
    if replication_factor > racks.total:
        raise InvalidReplicationFactorException(
            f"{times}The target replication factor of {replication_factor} cannot be reached because only "
            f"{racks.total} broker(s) are registered."
        )
    return [racks.next_partition(replication_factor) for _ in range(partitions)]


class _Ring:
    """The brokers of a rack, as a ring.

    Each partition has a number, its `epoch` in this ring. The first broker of an epoch comes one place later than the
    first broker of the epoch before.
    """

    def __init__(self, brokers: Sequence[BrokerId], start: int) -> None:
        self._brokers = brokers
        self._start = start
        self._epoch = -1
        self._index = 0

    def draw(self, epoch: int) -> BrokerId | None:
        """Takes the next broker for this epoch. None if the epoch has already taken every broker."""
        if epoch != self._epoch:
            if self._epoch >= 0:
                self._start = (self._start + 1) % max(1, len(self._brokers))
            self._epoch = epoch
            self._index = 0
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._start + self._index) % len(self._brokers)]
        self._index += 1
        return broker


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], rng: Rng) -> None:
        self._unfenced = _ring([broker.id for broker in brokers if not broker.fenced], rng)
        self._fenced = _ring([broker.id for broker in brokers if broker.fenced], rng)

    def draw_unfenced(self, epoch: int) -> BrokerId | None:
        return self._unfenced.draw(epoch)

    def draw(self, epoch: int) -> BrokerId | None:
        broker = self._unfenced.draw(epoch)
        return self._fenced.draw(epoch) if broker is None else broker


def _ring(brokers: list[BrokerId], rng: Rng) -> _Ring:
    brokers.sort()
    return _Ring(brokers, rng.randrange(len(brokers)) if brokers else 0)


class _Racks:
    def __init__(self, brokers: Sequence[UsableBroker], rng: Rng) -> None:
        self.total = len(brokers)
        self.unfenced = sum(not broker.fenced for broker in brokers)
        by_rack: dict[str, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack or "", []).append(broker)
        self._racks = [_Rack(by_rack[name], rng) for name in sorted(by_rack)]
        self._start = rng.randrange(len(self._racks)) if self._racks else 0
        self._epoch = 0

    def next_partition(self, replication_factor: int) -> list[BrokerId]:
        """The replicas of the next partition.

        The leader is an unfenced broker of the first rack that has an unfenced broker. The other replicas come from the
        racks after this rack, in turn.
        """
        epoch, self._epoch = self._epoch, self._epoch + 1
        count = len(self._racks)
        replicas: list[BrokerId] = []
        first = self._start
        self._start = (self._start + 1) % count
        for step in range(count):
            leader = self._racks[(first + step) % count].draw_unfenced(epoch)
            if leader is not None:
                replicas.append(leader)
                first = (first + step + 1) % count
                break
        empty_racks = 0
        while len(replicas) < replication_factor:
            broker = self._racks[first].draw(epoch)
            first = (first + 1) % count
            if broker is None:
                empty_racks += 1
                assert empty_racks <= count * replication_factor, "fewer brokers than were counted"
                continue
            replicas.append(broker)
        return replicas
