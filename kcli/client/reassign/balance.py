"""Plans an even placement of replicas. The code is pure: it does no input or output.

No step of a plan undoes the results of earlier steps. Steps 2 and 3 are repeated, because an exchange of replicas can
make another move possible. These are the steps:

1. *Requirements*: replicas leave the brokers that must be empty. Partitions get the wanted number of replicas, on as
   many racks as possible. New replicas go to the broker with the fewest replicas.
2. *Counts*: replicas move from the broker with the most replicas to the broker with the fewest, until the
   difference is one. Without racks, the number of moves is the smallest possible.
3. *Bytes*: two brokers exchange replicas of unequal size, if a broker's bytes differ from the average by more than
   `BYTES_TOLERANCE`.
4. *Leaders*: the replicas of partitions are reordered, because the first replica is the preferred leader. No records
   are copied. If no single change helps, several changes together move one leadership from a broker with too many
   leaders to a broker with too few.

The result does not depend on the order of the input. If all moves of a plan are done, the next plan is empty. So after
an interruption, a new plan contains only the remaining moves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kcli.client.reassign.assignment import Assignment
from kcli.model.topic_partition import TopicPartition

BYTES_TOLERANCE = 0.1
"""The part of the average by which the bytes of a broker may differ. A smaller difference is not worth an exchange,
because an exchange copies two replicas."""

LEAST_GAIN = 0.01
"""An exchange must transfer at least this part of the average. This minimum limits the number of exchanges."""


Pair = tuple[int, int]
"""The broker that gives a replica, and the broker that receives it."""


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """A broker that may have replicas. A broker without a rack counts as a rack of its own."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """A partition, the brokers of its replicas (the preferred leader first), and the bytes of one replica."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The replicas and preferred leaders of a broker, and the bytes of its replicas."""

    replicas: int
    leaders: int
    size_bytes: int


class ImpossibleError(ValueError):
    """Raised if a partition would have more replicas than there are brokers."""


def balanced(
    brokers: Iterable[BrokerPlace],
    partitions: Iterable[PlacedPartition],
    *,
    replication_factor: int | None = None,
) -> Assignment:
    """Returns the new replicas of each partition that changes. After the changes, only the given brokers have replicas.

    If `replication_factor` is None, each partition keeps its number of replicas. Raises ImpossibleError.
    """
    placed = sorted(
        partitions, key=lambda placed_partition: (-placed_partition.size_bytes, placed_partition.partition)
    )
    board = _Board(brokers, placed)
    for placed_partition in placed:
        factor = replication_factor or len(placed_partition.replicas)
        if factor > len(board.racks):
            topic, number = placed_partition.partition
            raise ImpossibleError(
                f"{topic}-{number} would have {factor} replicas, but the number of usable brokers is "
                f"{len(board.racks)}. --replication-factor changes the number of replicas."
            )
        _resize(board, placed_partition.partition, factor)
    _even_counts(board)
    while _even_bytes(board) and _even_counts(board):
        pass  # an exchange can make room on a rack, so that one more move is permitted
    _even_leaders(board)
    before = {placed_partition.partition: placed_partition.replicas for placed_partition in placed}
    return {
        partition: tuple(replicas)
        for partition, replicas in sorted(board.replicas.items())
        if tuple(replicas) != before[partition]
    }


def applied(
    partitions: Iterable[PlacedPartition], changes: Mapping[TopicPartition, tuple[int, ...]]
) -> list[PlacedPartition]:
    """Returns the partitions after the changes."""
    return [
        PlacedPartition(
            partition.partition, changes.get(partition.partition, partition.replicas), partition.size_bytes
        )
        for partition in partitions
    ]


def loads(brokers: Iterable[int], partitions: Iterable[PlacedPartition]) -> dict[int, BrokerLoad]:
    """Returns the load of each broker, also of brokers without replicas."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for partition in partitions:
        leaders[partition.replicas[0]] += 1
        for broker in partition.replicas:
            replicas[broker] += 1
            sizes[broker] += partition.size_bytes
    return {
        broker: BrokerLoad(replicas[broker], leaders[broker], sizes[broker])
        for broker in sorted({*brokers, *replicas})
    }


class _Board:
    """The placement while it is planned.

    `held` has the partitions of each broker that may have replicas, and `sizes` the bytes of these replicas.
    """

    def __init__(self, brokers: Iterable[BrokerPlace], partitions: Iterable[PlacedPartition]) -> None:
        # A broker without a rack has its id as its rack. The id is a number, and the names of real racks are texts.
        self.racks: dict[int, str | int] = {
            node.id: node.id if node.rack is None else node.rack for node in brokers
        }
        self.rack_count = len(set(self.racks.values()))
        self.replicas: dict[TopicPartition, list[int]] = {}
        self.size_of: dict[TopicPartition, int] = {}
        self.held: dict[int, set[TopicPartition]] = {broker: set() for broker in self.racks}
        self.sizes: dict[int, int] = dict.fromkeys(self.racks, 0)
        self.topics: Counter[tuple[int, str]] = Counter()
        for partition in partitions:
            self.replicas[partition.partition] = list(partition.replicas)
            self.size_of[partition.partition] = partition.size_bytes
            for broker in partition.replicas:
                self._count(partition.partition, broker, 1)

    def replace(self, partition: TopicPartition, old: int, new: int) -> None:
        replicas = self.replicas[partition]
        replicas[replicas.index(old)] = new
        self._count(partition, old, -1)
        self._count(partition, new, 1)

    def add(self, partition: TopicPartition, broker: int) -> None:
        self.replicas[partition].append(broker)
        self._count(partition, broker, 1)

    def remove(self, partition: TopicPartition, broker: int) -> None:
        self.replicas[partition].remove(broker)
        self._count(partition, broker, -1)

    def used(self, replicas: Iterable[int]) -> Counter[str | int]:
        """Returns the number of replicas on each rack. Brokers that must be empty do not count."""
        return Counter(self.racks[broker] for broker in replicas if broker in self.racks)

    def load(self, broker: int) -> tuple[int, int, int]:
        """Returns a key that orders brokers by replicas, then by bytes. Brokers that must be empty come last."""
        if broker not in self.racks:
            return len(self.replicas) + 1, 0, broker
        return len(self.held[broker]), self.sizes[broker], broker

    def may_move(self, partition: TopicPartition, old: int, new: int) -> bool:
        """Whether the replica may move from `old` to `new`: the partition then has at least as many racks as before."""
        if partition in self.held[new]:
            return False
        used = self.used(self.replicas[partition])
        return used[self.racks[old]] > 1 or self.racks[new] == self.racks[old] or not used[self.racks[new]]

    def _count(self, partition: TopicPartition, broker: int, by: int) -> None:
        if broker not in self.racks:
            return
        (self.held[broker].add if by > 0 else self.held[broker].remove)(partition)
        self.sizes[broker] += by * self.size_of[partition]
        self.topics[broker, partition.topic] += by


# --- the number of replicas


def _resize(board: _Board, partition: TopicPartition, factor: int) -> None:
    """Gives a partition the wanted number of replicas, on brokers that may have replicas and on as many racks as
    possible."""
    replicas = board.replicas[partition]
    while len(replicas) > factor:
        board.remove(partition, _least_useful(board, replicas))
    for broker in [replica for replica in replicas if replica not in board.racks]:
        board.replace(partition, broker, _best_broker(board, replicas))
    while len(replicas) < factor:
        board.add(partition, _best_broker(board, replicas))
    while len(board.used(replicas)) < min(factor, board.rack_count):
        board.replace(partition, _least_useful(board, replicas), _best_broker(board, replicas))


def _least_useful(board: _Board, replicas: list[int]) -> int:
    """Returns the replica to remove. The first choice is a replica on a broker that must be empty. The second choice is
    a replica on a rack with another replica, and the third is a replica that is not the leader.
    """
    used = board.used(replicas)

    def uselessness(broker: int) -> tuple[bool, bool, bool, tuple[int, int, int]]:
        is_left = broker not in board.racks
        shares_rack = not is_left and used[board.racks[broker]] > 1
        return is_left, shares_rack, broker != replicas[0], board.load(broker)

    return max(replicas, key=uselessness)


def _best_broker(board: _Board, replicas: list[int]) -> int:
    """Returns the broker for one more replica. If possible, the broker is on a rack without a replica of the partition.
    Among these brokers, it has the smallest load.
    """
    used = board.used(replicas)
    free = (broker for broker in board.racks if broker not in replicas)
    return min(free, key=lambda broker: (used[board.racks[broker]] > 0, board.load(broker)))


# --- counts


def _even_counts(board: _Board) -> bool:
    """Moves single replicas until no permitted move makes the counts more even. Returns whether any replica moved."""
    return _until_even(lambda: _uneven_counts(board), lambda source, target: _move_one(board, source, target))


def _until_even(pairs: Callable[[], Iterable[Pair]], change: Callable[[int, int], bool]) -> bool:
    """Moves replicas between pairs of brokers, in the order of `pairs`, until no pair can be changed. Returns whether
    any pair was changed.

    A pair that could not be changed is tried again after a change of one of its brokers, and at the end.
    """
    blocked: set[Pair] = set()
    has_changed, all_tried = False, True
    while True:
        for pair in pairs():
            if pair in blocked:
                continue
            if change(*pair):
                blocked = {pair_of_brokers for pair_of_brokers in blocked if not {*pair_of_brokers} & {*pair}}
                has_changed, all_tried = True, False
                break
            blocked.add(pair)
        else:
            if all_tried:
                return has_changed
            blocked.clear()
            all_tried = True


def _uneven_counts(board: _Board) -> Iterator[Pair]:
    """Yields the pairs of brokers whose counts differ by two or more. The pair with the largest and the smallest count
    is first."""
    by_load = sorted(board.racks, key=board.load)
    for source in reversed(by_load):
        for target in by_load:
            if len(board.held[source]) - len(board.held[target]) < 2:
                break
            yield source, target


def _move_one(board: _Board, source: int, target: int) -> bool:
    """Moves the replica whose size brings the bytes of both brokers closest to each other.

    Returns False if no replica may move.
    """
    count = len(board.held[source]) - len(board.held[target])
    surplus = board.sizes[source] - board.sizes[target]

    def misfit(partition: TopicPartition) -> tuple[int, int, TopicPartition]:
        # The best size is surplus / count: half of `count` such moves transfer half of `surplus`. Among equal sizes,
        # the move that spreads the topic best comes first.
        topic = partition.topic
        return (
            abs(board.size_of[partition] * count - surplus),
            board.topics[target, topic] - board.topics[source, topic],
            partition,
        )

    for partition in sorted(board.held[source] - board.held[target], key=misfit):
        if board.may_move(partition, source, target):
            board.replace(partition, source, target)
            return True
    return False


# --- bytes


def _even_bytes(board: _Board) -> bool:
    """Exchanges replicas until the bytes of all brokers are near the average, or no exchange helps.

    Returns whether any replica moved.
    """
    mean = sum(board.sizes.values()) / max(1, len(board.sizes))
    least = LEAST_GAIN * mean
    return _until_even(
        lambda: _uneven_bytes(board, mean),
        lambda source, target: _exchange(board, source, target, least=least),
    )


def _uneven_bytes(board: _Board, mean: float) -> Iterator[Pair]:
    """Yields pairs of a broker above the average and a broker below the average. At least one of the two differs from
    the average by more than BYTES_TOLERANCE permits. The brokers with the most and the fewest bytes come first.
    """
    by_bytes = sorted(board.sizes, key=lambda broker: (board.sizes[broker], broker))
    for source in reversed(by_bytes):
        for target in by_bytes:
            over, under = board.sizes[source] - mean, mean - board.sizes[target]
            if over > 0 and under > 0 and max(over, under) > BYTES_TOLERANCE * mean:
                yield source, target


def _exchange(board: _Board, source: int, target: int, *, least: float) -> bool:
    """Moves a replica to `target` and a smaller replica back. If `source` has more replicas, may also move only one
    replica.

    The transferred bytes are as near as possible to half of the difference between the two brokers, and at least
    `least`. Returns False if no such exchange exists.
    """
    difference = board.sizes[source] - board.sizes[target]
    back = sorted(
        (board.size_of[partition], partition) for partition in board.held[target] - board.held[source]
    )
    best: tuple[float, TopicPartition, TopicPartition | None] | None = None
    for partition in sorted(board.held[source] - board.held[target]):
        if not board.may_move(partition, source, target):
            continue
        size = board.size_of[partition]
        returned = _nearest(board, back, size - difference / 2, target, source)
        options: list[tuple[int, TopicPartition | None]] = [
            (size - board.size_of[candidate], candidate) for candidate in returned
        ]
        if len(board.held[source]) > len(board.held[target]):
            options.append((size, None))
        for transfer, other in options:
            misfit = abs(transfer - difference / 2)
            if least <= transfer <= difference - least and (best is None or misfit < best[0]):
                best = misfit, partition, other
    if best is None:
        return False
    board.replace(best[1], source, target)
    if best[2] is not None:
        board.replace(best[2], target, source)
    return True


def _nearest(
    board: _Board, sizes: list[tuple[int, TopicPartition]], size: float, old: int, new: int
) -> list[TopicPartition]:
    """Returns the movable partitions whose sizes are nearest to `wanted`: one below and one above."""
    middle = bisect_left(sizes, size, key=lambda sized: sized[0])
    below = (sizes[index][1] for index in range(middle - 1, -1, -1))
    above = (sizes[index][1] for index in range(middle, len(sizes)))
    nearest = (
        next((partition for partition in side if board.may_move(partition, old, new)), None)
        for side in (below, above)
    )
    return [partition for partition in nearest if partition is not None]


# --- leaders


def _even_leaders(board: _Board) -> None:
    """Reorders replicas until no chain of changes can move a leadership to a broker with at least two fewer leaders."""
    led: dict[int, set[TopicPartition]] = {broker: set() for broker in board.racks}
    for partition, replicas in board.replicas.items():
        led[replicas[0]].add(partition)
    is_changed = True
    while is_changed:
        is_changed = False
        for source in sorted(led, key=lambda broker: (-len(led[broker]), broker)):
            while path := _path(board, led, source):
                is_changed = True
                for partition, new in path:
                    replicas = board.replicas[partition]
                    led[replicas[0]].remove(partition)
                    led[new].add(partition)
                    replicas.remove(new)
                    replicas.insert(0, new)


def _path(
    board: _Board, led: Mapping[int, set[TopicPartition]], source: int
) -> list[tuple[TopicPartition, int]]:
    """Returns the shortest chain of changes that moves one leadership from `source` to a broker with at least two fewer
    leaders. The chain is a list of partitions with their next leaders. It is empty if there is no such chain.
    """
    came_by: dict[int, tuple[TopicPartition, int]] = {}
    seen = {source}
    waiting = deque([source])
    while waiting:
        broker = waiting.popleft()
        for partition in sorted(led[broker]):
            for other in board.replicas[partition][1:]:
                if other in seen:
                    continue
                seen.add(other)
                came_by[other] = partition, broker
                if len(led[other]) <= len(led[source]) - 2:
                    return _steps(came_by, other)
                waiting.append(other)
    return []


def _steps(
    came_by: Mapping[int, tuple[TopicPartition, int]], broker: int
) -> list[tuple[TopicPartition, int]]:
    steps = []
    while broker in came_by:
        partition, before = came_by[broker]
        steps.append((partition, broker))
        broker = before
    return steps
