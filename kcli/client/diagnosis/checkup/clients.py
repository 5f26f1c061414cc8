"""Rules about clients: groups, transactions, software, and unused topics."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator

from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity, listed
from kcli.client.diagnosis.checkup.snapshot import GroupHistory, Snapshot
from kcli.model.amounts import counted
from kcli.model.command_words import quoted_option, topic_pattern
from kcli.model.java_text import parse_long

DAY_MS = 24 * 3600 * 1000
UNUSED_DAYS = 30
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"})
LOOKS_MIN = 2
"""The fewest samples that show that a group rebalances constantly. Every sample must show a rebalance, because a single
sample could show a normal rebalance.
"""
DIGITS_MAX = 9
"""The most digits of a number in a version. Clients choose the text of the version, and int() refuses thousands of
digits."""
VERSION_SHOWN_MAX = 50

_OLD_BELOW = {
    "apache-kafka-java": (3,),
    "librdkafka": (2,),
    "confluent-kafka-python": (2,),
    "sarama": (1, 40),
}
"""The oldest versions that are still maintained, by the name that the client reports (KIP-511)."""


def rebalancing_groups(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds groups that rebalance in every sample, or whose epoch increases from each sample to the next."""
    for history in snapshot.groups:
        text = _rebalances(history)
        if text:
            yield CheckupFinding(
                Severity.WARNING,
                "rebalances",
                f"group {history.group_id}",
                f"The group rebalances all the time: {text}. Check whether members exceed max.poll.interval.ms, "
                "or start and end again and again",
                listed(f"{look.state}, {counted(look.members, 'member')}" for look in history.looks),
                f"kcli consumer-groups --describe --members --verbose {quoted_option('group', history.group_id)}",
            )


def stopped_groups(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds groups without members whose oldest unread record is older than a minute."""
    for group in snapshot.stopped:
        age = _duration(group.older_than_s)
        lags = sorted(group.unread.items(), key=lambda item: (-item[1], item[0]))
        yield CheckupFinding(
            Severity.WARNING,
            "stopped-group",
            f"group {group.group_id}",
            f"The group has no members, and unread records wait for more than {age}. If its consumers are not "
            "needed any more, delete the group",
            listed(f"{partition}: up to {counted(lag, 'unread record')}" for partition, lag in lags),
            f"kcli consumer-groups --describe {quoted_option('group', group.group_id)}",
        )


def hanging_transactions(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds transactions that no coordinator will end. A consumer with read_committed cannot read beyond such a
    transaction.
    """
    for transaction in snapshot.hanging:
        producer, (topic, number) = transaction.producer, transaction.partition
        yield CheckupFinding(
            Severity.CRITICAL,
            "hanging-transaction",
            str(transaction.partition),
            "No coordinator will end this transaction, so consumers with read_committed stop before it",
            (
                f"producer id {producer.producer_id}, first offset {producer.start_offset}",
                f"last record {_ago(snapshot, producer.last_timestamp_ms)}",
            ),
            f"kcli transactions abort {quoted_option('topic', topic)} --partition {number} "
            f"--start-offset {producer.start_offset}",
        )


def long_transactions(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds transactions that have been open longer than their time-out."""
    for transaction in snapshot.long_transactions:
        yield CheckupFinding(
            Severity.WARNING,
            "long-transaction",
            transaction.transactional_id,
            "The transaction has been open for longer than its time-out, so its coordinator cannot end it",
            (
                f"state {transaction.state}, time-out {transaction.timeout_ms / 1000:g} s",
                f"began {_ago(snapshot, transaction.start_ms or snapshot.time_ms)}",
                *listed(transaction.partitions),
            ),
            "kcli transactions forceTerminateTransaction "
            + quoted_option("transactionalId", transaction.transactional_id),
        )


def unused_topics(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds topics that no group reads and whose newest record is weeks old.

    No API returns the age of a topic. So an empty topic is not reported, because it may be new.
    """
    limit_ms = snapshot.time_ms - UNUSED_DAYS * DAY_MS
    lines = []
    for name, last_ms in sorted(snapshot.last_record_ms.items()):
        topic = snapshot.topics.get(name)
        if topic is None or topic.is_internal or name in snapshot.read_topics or not 0 <= last_ms <= limit_ms:
            continue
        lines.append(f"{name}: last record {_ago(snapshot, last_ms)}")
    if lines:
        first = lines[0].partition(":")[0]
        yield CheckupFinding(
            Severity.ADVICE,
            "unused-topics",
            "cluster",
            f"{counted(len(lines), 'topic has', 'topics have')} only records that are older than {UNUSED_DAYS} days by "
            "their timestamps, and no group with committed offsets. A consumer without a group would not be seen",
            listed(lines),
            f"kcli topics --delete {quoted_option('topic', topic_pattern(first))} --dry-run",
        )


def old_clients(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds clients with software that is no longer maintained."""
    versions: Counter[tuple[str, str]] = Counter()
    for client in snapshot.metrics.clients:
        oldest = _OLD_BELOW.get(client.name)
        version = tuple(map(parse_long, re.findall(rf"[0-9]{{1,{DIGITS_MAX}}}", client.version)[:3]))
        if oldest is not None and version and version < oldest:
            versions[client.name, client.version[:VERSION_SHOWN_MAX]] += client.connections
    if versions:
        yield CheckupFinding(
            Severity.ADVICE,
            "old-clients",
            "cluster",
            f"{counted(len(versions), 'version', 'versions')} of clients in use are no longer maintained",
            listed(
                f"{name} {version}: {counted(count, 'connection')}"
                for (name, version), count in sorted(versions.items())
            ),
            "kcli jmx --object-name 'kafka.server:type=socket-server-metrics,*'",
        )


def _rebalances(history: GroupHistory) -> str:
    looks = history.looks
    if len(looks) < LOOKS_MIN:
        return ""
    if all(look.state in REBALANCING for look in looks):
        return f"it was in a rebalance in {len(looks)} of {len(looks)} looks"
    epochs = [look.epoch for look in looks if look.epoch is not None]
    if len(epochs) > LOOKS_MIN and all(before < after for before, after in itertools.pairwise(epochs)):
        return f"its epoch went from {epochs[0]} to {epochs[-1]} in {len(looks)} looks"
    return ""


def _duration(seconds: int) -> str:
    for size, noun in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return counted(seconds // size, noun)
    return counted(seconds, "second")


def _ago(snapshot: Snapshot, time_ms: int) -> str:
    minutes = max(0, snapshot.time_ms - time_ms) / 60_000
    if minutes < 120:
        return f"{minutes:.0f} minutes ago"
    return f"{minutes / 60:.0f} hours ago" if minutes < 2880 else f"{minutes / 1440:.0f} days ago"
