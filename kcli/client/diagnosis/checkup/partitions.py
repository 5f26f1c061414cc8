"""Rules about partitions: leaders, replicas in sync, and the number of replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kcli.client.admin.topics import PartitionDescription
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity, listed
from kcli.client.diagnosis.checkup.snapshot import Snapshot
from kcli.model.amounts import counted
from kcli.model.command_words import quoted_option, topic_pattern
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition

MIN_ISR = "min.insync.replicas"
UNEVEN_RATIO = 1.25
"""A broker leads too many partitions if it leads more than the mean multiplied by this. Kafka's own limit of imbalance
is 10 % of the preferred leaders (leader.imbalance.per.broker.percentage)."""
UNEVEN_MIN = 3
"""A broker also must lead this many partitions more than the mean. With few partitions, the ratio alone would report a
difference of one partition."""


def leaderless(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds partitions without a leader. Clients can neither read nor write these partitions."""
    rows = [(key, partition) for key, partition in _partitions(snapshot) if partition.leader is None]
    if rows:
        yield CheckupFinding(
            Severity.CRITICAL,
            "no-leader",
            "cluster",
            f"{counted(len(rows), 'partition has', 'partitions have')} no leader. Start the brokers of their replicas",
            listed(f"{key}: replicas {_ids(partition.replicas)}" for key, partition in rows),
            "kcli topics --describe --unavailable-partitions",
        )


def below_min_isr(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds partitions that refuse records with acks=all, because they have too few replicas in sync."""
    affected = []
    for key, partition in _partitions(snapshot):
        minimum = _min_isr(snapshot, key.topic)
        if (
            minimum is not None
            and partition.leader is not None
            and len(partition.isr) < min(minimum, len(partition.replicas))
        ):
            affected.append((key, partition, minimum))
    if affected:
        yield CheckupFinding(
            Severity.CRITICAL,
            "under-min-isr",
            "cluster",
            f"{counted(len(affected), 'partition has', 'partitions have')} fewer replicas in sync than {MIN_ISR}, so "
            "records with acks=all are refused",
            listed(
                f"{key}: {len(partition.isr)} in sync (ids {_ids(partition.isr)}), {MIN_ISR} {minimum}"
                for key, partition, minimum in affected
            ),
            "kcli topics --describe --under-min-isr-partitions",
        )


def under_replicated(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds partitions with a replica that is not in sync, except partitions that are being reassigned."""
    affected = [
        (key, partition)
        for key, partition in _partitions(snapshot)
        if len(partition.isr) < len(partition.replicas) and key not in snapshot.reassigning
    ]
    if affected:
        brokers = Counter(
            broker for _, partition in affected for broker in set(partition.replicas) - set(partition.isr)
        )
        behind = ", ".join(f"broker {broker}: {count}" for broker, count in brokers.most_common())
        yield CheckupFinding(
            Severity.WARNING,
            "under-replicated",
            "cluster",
            f"{counted(len(affected), 'partition misses', 'partitions miss')} replicas in sync ({behind})",
            listed(
                f"{key}: replicas {_ids(partition.replicas)}, in sync {_ids(partition.isr)}"
                for key, partition in affected
            ),
            "kcli topics --describe --under-replicated-partitions",
        )


def one_replica(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds topics with one replica in a cluster of several brokers."""
    if sum(not node.is_fenced for node in snapshot.nodes) < 2:
        return
    names = sorted(
        name
        for name, topic in snapshot.topics.items()
        if any(len(partition.replicas) == 1 for partition in topic.partitions)
    )
    if names:
        internal = [name for name in names if snapshot.topics[name].is_internal]
        yield CheckupFinding(
            Severity.CRITICAL if internal else Severity.WARNING,
            "one-replica",
            "cluster",
            f"{counted(len(names), 'topic has', 'topics have')} partitions with one replica. They are gone if one "
            "disk fails, and cannot be used while one broker is down. Name more replicas for each partition in FILE",
            listed(names),
            "kcli reassign-partitions --execute --reassignment-json-file FILE",
        )


def min_isr(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds topics whose min.insync.replicas is as large as their number of replicas, or is only 1."""
    equal: list[tuple[str, int, int]] = []
    small: list[tuple[str, int, int]] = []
    two: list[tuple[str, int, int]] = []
    for name, topic in sorted(snapshot.topics.items()):
        minimum, replicas = _min_isr(snapshot, name), _replicas(topic.partitions)
        if minimum is None or replicas < 2:
            continue
        if minimum >= replicas == 2:
            two.append((name, minimum, replicas))
        elif minimum >= replicas:
            equal.append((name, minimum, replicas))
        elif minimum == 1 and replicas > 2:
            small.append((name, minimum, replicas))
    if equal:
        yield CheckupFinding(
            Severity.WARNING,
            "min-isr",
            "cluster",
            f"{counted(len(equal), 'topic needs', 'topics need')} all replicas in sync. If one broker stops, records "
            "with acks=all are refused",
            _shown(equal),
            _set_min_isr(equal[0][0], equal[0][2] - 1),
        )
    if two:
        yield _third_replica(snapshot, two)
    if small:
        yield CheckupFinding(
            Severity.ADVICE,
            "min-isr",
            "durability",
            f"{counted(len(small), 'topic acknowledges', 'topics acknowledge')} records that only one replica has. "
            "The failure of one broker can lose them",
            _shown(small),
            _set_min_isr(small[0][0], 2),
        )


def _third_replica(snapshot: Snapshot, topics: list[tuple[str, int, int]]) -> CheckupFinding:
    """The finding about topics with two replicas and min.insync.replicas=2. The finding advises a third replica,
    because records could be lost with a smaller min.insync.replicas.
    """
    has_brokers = sum(not node.is_fenced for node in snapshot.nodes) >= 3
    pattern = quoted_option("topics", topic_pattern(topics[0][0]))
    return CheckupFinding(
        Severity.WARNING,
        "min-isr",
        "two replicas",
        f"{counted(len(topics), 'topic needs', 'topics need')} both replicas in sync. If one broker stops, records "
        f"with acks=all are refused. Add a third {'replica' if has_brokers else 'broker, and then a third replica'}",
        _shown(topics),
        f"kcli reassign-partitions --balance {pattern} --replication-factor 3 --dry-run"
        if has_brokers
        else "",
    )


def _subject(brokers: list[int]) -> str:
    names = " and ".join(map(str, brokers))
    return f"Broker {names} leads" if len(brokers) == 1 else f"Each of the brokers {names} leads"


def uneven_leaders(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds brokers that lead far more partitions than the mean, and partitions whose leader is not the preferred
    replica."""
    alive = [node.id for node in snapshot.nodes if not node.is_fenced]
    leaders = Counter(partition.leader for _, partition in _partitions(snapshot))
    mean = sum(leaders[broker] for broker in alive) / len(alive) if alive else 0.0
    heavy = [broker for broker in alive if leaders[broker] > max(mean * UNEVEN_RATIO, mean + UNEVEN_MIN)]
    moved = [
        key
        for key, partition in _partitions(snapshot)
        if partition.leader not in (None, partition.replicas[0]) and partition.replicas[0] in partition.isr
    ]
    counts = listed(f"broker {broker} leads {leaders[broker]}" for broker in alive)
    if heavy:
        is_election = bool(moved) and len(moved) >= leaders[heavy[0]] - mean
        yield CheckupFinding(
            Severity.WARNING,
            "uneven-leaders",
            "cluster",
            f"{_subject(heavy)} more than {UNEVEN_RATIO:g} times the mean of {mean:.1f} partitions. "
            f"{counted(len(moved), 'leader is', 'leaders are')} not the preferred one",
            counts,
            _ELECTION if is_election else "kcli reassign-partitions --balance --dry-run",
        )
    elif moved:
        yield CheckupFinding(
            Severity.ADVICE,
            "preferred-leaders",
            "cluster",
            f"{counted(len(moved), 'partition is', 'partitions are')} not led by the preferred replica",
            listed(moved),
            _ELECTION,
        )


_ELECTION = "kcli leader-election --election-type preferred --all-topic-partitions"


def _partitions(snapshot: Snapshot) -> Iterator[tuple[TopicPartition, PartitionDescription]]:
    for name, topic in sorted(snapshot.topics.items()):
        for partition in topic.partitions:
            yield TopicPartition(name, partition.partition), partition


def _replicas(partitions: tuple[PartitionDescription, ...]) -> int:
    return min((len(partition.replicas) for partition in partitions), default=0)


def _min_isr(snapshot: Snapshot, topic: str) -> int | None:
    value = snapshot.topic_configs.get(topic, {}).get(MIN_ISR)
    return parse_int(value) if value else None


def _shown(topics: list[tuple[str, int, int]]) -> tuple[str, ...]:
    """The evidence about topics: name, min.insync.replicas and number of replicas."""
    return listed(f"{name}: {MIN_ISR} {minimum}, {replicas} replicas" for name, minimum, replicas in topics)


def _set_min_isr(topic: str, value: int) -> str:
    return (
        f"kcli configs --alter --entity-type topics {quoted_option('entity-name', topic)} "
        f"--add-config {MIN_ISR}={value}"
    )


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
