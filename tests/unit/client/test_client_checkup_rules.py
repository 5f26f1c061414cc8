"""The rules of the check-up: what each reports, with which severity, evidence and command."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kcli.cli.running import _parsed
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.topic_filter import topic_filter
from kcli.client.admin.configs import ConfigEntry
from kcli.client.admin.features import FeatureDescription
from kcli.client.admin.log_dirs import LogDirDescription, ReplicaInfo
from kcli.client.admin.quorum import QuorumDescription, QuorumReplica
from kcli.client.admin.topics import PartitionDescription, TopicDescription
from kcli.client.admin.transactions import ProducerState, TransactionDescription
from kcli.client.client import Node
from kcli.client.diagnosis.checkup import snapshot as parts
from kcli.client.diagnosis.checkup.disks import Growth, days_until_full
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity, listed
from kcli.client.diagnosis.checkup.rules import RULES, Rule, check_up
from kcli.client.diagnosis.checkup.snapshot import (
    ClientSoftware,
    GroupHistory,
    GroupLook,
    HangingTransaction,
    Metrics,
    PartitionHistory,
    Snapshot,
    StoppedGroup,
)
from kcli.errors import KafkaStorageException
from kcli.model.configs import ConfigSource
from kcli.model.topic_partition import TopicPartition

NOW_MS = 1_800_000_000_000
DAY_MS = 24 * 3600 * 1000
GB = 10**9


def partition(
    number: int, *replicas: int, isr: Sequence[int] | None = None, leader: int | None = -1
) -> PartitionDescription:
    in_sync = tuple(replicas if isr is None else isr)
    led_by = replicas[0] if leader == -1 else leader
    return PartitionDescription(
        partition=number,
        leader=led_by,
        leader_epoch=0,
        replicas=replicas,
        isr=in_sync,
        elr=None,
        last_known_elr=None,
    )


def topic(name: str, *partitions: PartitionDescription, is_internal: bool = False) -> TopicDescription:
    return TopicDescription(name=name, topic_id=uuid.uuid4(), is_internal=is_internal, partitions=partitions)


def voter(number: int, caught_up_ms: int | None = NOW_MS) -> QuorumReplica:
    return QuorumReplica(
        id=number,
        directory_id=None,
        log_end_offset=90,
        last_fetch_ms=caught_up_ms,
        last_caught_up_ms=caught_up_ms,
    )


def quorum(*voters: QuorumReplica, leader: int = 1) -> QuorumDescription:
    return QuorumDescription(
        leader_id=leader, leader_epoch=1, high_watermark=100, voters=voters, observers=(), endpoints={}
    )


def feature(level: int) -> FeatureDescription:
    return FeatureDescription(
        name="metadata.version", min_supported=7, max_supported=27, finalized=level, epoch=None
    )


def config(
    name: str, value: str | None, source: ConfigSource = ConfigSource.STATIC_BROKER_CONFIG
) -> ConfigEntry:
    return ConfigEntry(name=name, value=value, source=source, is_sensitive=False, is_read_only=True)


def replica(size_bytes: int) -> ReplicaInfo:
    return ReplicaInfo(topic="t", partition=0, size_bytes=size_bytes, offset_lag=0, is_future=False)


def log_dir(usable: int, *replicas: ReplicaInfo, total: int = 1000 * GB) -> LogDirDescription:
    return LogDirDescription(
        path="/data", error=None, replicas=replicas, total_bytes=total, usable_bytes=usable
    )


OFFLINE = LogDirDescription(
    path="/data", error=KafkaStorageException("gone"), replicas=(), total_bytes=None, usable_bytes=None
)

HEALTHY = Snapshot(
    time_ms=NOW_MS,
    nodes=(Node(1, "a", 9092), Node(2, "b", 9092), Node(3, "c", 9092)),
    topics={"t": topic("t", partition(0, 1, 2, 3), partition(1, 2, 3, 1), partition(2, 3, 1, 2))},
    topic_configs={
        "t": {"min.insync.replicas": "2", "cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS)}
    },
    broker_configs={
        number: (config("num.partitions", "3"), config("node.id", str(number))) for number in (1, 2, 3)
    },
    log_dirs={number: (log_dir(900 * GB, replica(GB)),) for number in (1, 2, 3)},
    quorum=quorum(voter(1), voter(2), voter(3)),
    clock_ahead_ms=3,
    clock_error_ms=1,
    features=(feature(27),),
    groups=(GroupHistory((GroupLook("g", "Stable", 3, 2), GroupLook("g", "Stable", 3, 2))),),
    read_topics=frozenset({"t"}),
    last_record_ms={"t": NOW_MS - 1000},
    certificates={"a:9092": datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(days=90)},
    history={TopicPartition("t", 0): PartitionHistory(0, 1000, 900, 0)},
    metrics=Metrics(
        clients=(ClientSoftware(1, "librdkafka", "2.6.0", 4),), segments={TopicPartition("t", 0): 4}
    ),
)


def only(snapshot: Snapshot) -> CheckupFinding:
    (finding,) = check_up(snapshot)
    return finding


def test_a_healthy_cluster_has_no_findings() -> None:
    assert check_up(HEALTHY) == []


def with_topic(*partitions: PartitionDescription, name: str = "t") -> Snapshot:
    return replace(HEALTHY, topics={name: topic(name, *partitions)})


FAULTS: list[tuple[Snapshot, list[Severity], list[str], str]] = [
    (
        with_topic(partition(0, 1, 2, 3), partition(1, 2, 3, 1, isr=(2, 3), leader=None)),
        [Severity.CRITICAL, Severity.WARNING],
        ["no-leader", "under-replicated"],
        "t-1: replicas 2,3,1",
    ),
    (
        with_topic(partition(0, 1, 2, 3, isr=(1,))),
        [Severity.CRITICAL, Severity.WARNING],
        ["under-min-isr", "under-replicated"],
        "t-0: 1 in sync (ids 1), min.insync.replicas 2",
    ),
    (
        replace(
            with_topic(partition(0, 1, 2, 3, isr=(1, 2))), reassigning=frozenset({TopicPartition("t", 0)})
        ),
        [],
        [],
        "",
    ),
    (with_topic(partition(0, 1)), [Severity.WARNING], ["one-replica"], "t"),
    (
        replace(HEALTHY, topics={"__x": topic("__x", partition(0, 1), is_internal=True)}),
        [Severity.CRITICAL],
        ["one-replica"],
        "__x",
    ),
    (
        replace(HEALTHY, topic_configs={"t": {"min.insync.replicas": "3"}}),
        [Severity.WARNING],
        ["min-isr"],
        "t: min.insync.replicas 3, 3 replicas",
    ),
    (
        replace(HEALTHY, topic_configs={"t": {"min.insync.replicas": "1"}}),
        [Severity.ADVICE],
        ["min-isr"],
        "t: min.insync.replicas 1, 3 replicas",
    ),
    (
        with_topic(partition(0, 1, 2)),
        [Severity.WARNING],
        ["min-isr"],
        "t: min.insync.replicas 2, 2 replicas",
    ),
    (
        with_topic(*(partition(number, 1, 2, 3) for number in range(9))),
        [Severity.WARNING],
        ["uneven-leaders"],
        "broker 1 leads 9",
    ),
    (with_topic(partition(0, 1, 2, 3, leader=2)), [Severity.ADVICE], ["preferred-leaders"], "t-0"),
    (
        replace(HEALTHY, nodes=(*HEALTHY.nodes, Node(4, "d", 9092, None, True))),
        [Severity.WARNING],
        ["fenced-broker"],
        "d:9092 is fenced",
    ),
    (
        replace(HEALTHY, quorum=quorum(voter(1), voter(2, NOW_MS - 60_000), voter(3))),
        [Severity.CRITICAL],
        ["controllers"],
        "voter 2: 10 records behind",
    ),
    (
        replace(HEALTHY, quorum=quorum(*(voter(number) for number in range(1, 5)), voter(5, None))),
        [Severity.WARNING],
        ["controllers"],
        "voter 5: 10 records behind",
    ),
    (
        replace(HEALTHY, quorum=quorum(voter(1), voter(2))),
        [Severity.ADVICE],
        ["controllers"],
        "voter 1",
    ),
    (replace(HEALTHY, clock_ahead_ms=-5000), [Severity.WARNING], ["clocks"], "the controller is behind"),
    (replace(HEALTHY, clock_ahead_ms=None), [Severity.UNKNOWN], ["clocks"], ""),
    (
        replace(
            HEALTHY,
            broker_configs={1: (config("num.partitions", "3"),), 2: (config("num.partitions", "4"),)},
        ),
        [Severity.WARNING],
        ["broker-configs"],
        "num.partitions: broker 1=3, broker 2=4",
    ),
    (
        replace(HEALTHY, features=(feature(25),)),
        [Severity.ADVICE],
        ["features"],
        "metadata.version: level 25, supported 27",
    ),
    (
        replace(
            HEALTHY,
            certificates={"a:9092": datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(days=10)},
        ),
        [Severity.WARNING],
        ["certificates"],
        "valid until",
    ),
    (
        replace(
            HEALTHY,
            log_dirs={1: (OFFLINE,)},
        ),
        [Severity.CRITICAL],
        ["offline-directory"],
        "gone",
    ),
    (
        replace(HEALTHY, log_dirs={1: (log_dir(50 * GB),)}),
        [Severity.CRITICAL],
        ["disk-full"],
        "free: 50 GB of 1 TB",
    ),
    (
        replace(
            HEALTHY,
            metrics=Metrics(segments={TopicPartition("t", 0): 2000}),
        ),
        [Severity.WARNING],
        ["small-segments"],
        "t-0: 2000 segments of 500 kB",
    ),
    (
        replace(HEALTHY, groups=(GroupHistory((GroupLook("g", "PreparingRebalance", None, 2),) * 3),)),
        [Severity.WARNING],
        ["rebalances"],
        "PreparingRebalance, 2 members",
    ),
    (
        replace(
            HEALTHY,
            groups=(GroupHistory(tuple(GroupLook("g", "Stable", epoch, 2) for epoch in (3, 5, 9))),),
        ),
        [Severity.WARNING],
        ["rebalances"],
        "Stable, 2 members",
    ),
    (
        replace(HEALTHY, groups=(GroupHistory((GroupLook("g", "PreparingRebalance", None, 2),)),)),
        [],
        [],
        "",
    ),
    (
        replace(
            HEALTHY,
            hanging=(
                HangingTransaction(
                    TopicPartition("t", 0),
                    ProducerState(
                        producer_id=7,
                        producer_epoch=1,
                        coordinator_epoch=0,
                        last_sequence=3,
                        last_timestamp_ms=NOW_MS - 3 * 3600 * 1000,
                        start_offset=40,
                    ),
                ),
            ),
        ),
        [Severity.CRITICAL],
        ["hanging-transaction"],
        "producer id 7, first offset 40",
    ),
    (
        replace(
            HEALTHY,
            long_transactions=(
                TransactionDescription(
                    transactional_id="x",
                    coordinator=1,
                    producer_id=7,
                    producer_epoch=0,
                    state="Ongoing",
                    timeout_ms=60_000,
                    start_ms=NOW_MS - 600_000,
                    partitions=(TopicPartition("t", 0),),
                ),
            ),
        ),
        [Severity.WARNING],
        ["long-transaction"],
        "state Ongoing, time-out 60 s",
    ),
    (
        replace(HEALTHY, stopped=(StoppedGroup("g", {TopicPartition("t", 0): 7}, 3600),)),
        [Severity.WARNING],
        ["stopped-group"],
        "t-0: up to 7 unread records",
    ),
    (
        replace(HEALTHY, read_topics=frozenset(), last_record_ms={"t": NOW_MS - 40 * DAY_MS}),
        [Severity.ADVICE],
        ["unused-topics"],
        "t: last record 40 days ago",
    ),
    (
        replace(
            HEALTHY,
            metrics=Metrics(
                clients=(
                    ClientSoftware(1, "librdkafka", "1.9.2", 4),
                    ClientSoftware(2, "librdkafka", "1.9.2", 3),
                    ClientSoftware(2, "apache-kafka-java", "3.9.0", 1),
                )
            ),
        ),
        [Severity.ADVICE],
        ["old-clients"],
        "librdkafka 1.9.2: 7 connections",
    ),
]
"""Snapshots with a fault, and the severities, checks and first evidence of their findings."""


@pytest.mark.parametrize(
    ("snapshot", "severity", "check", "evidence"),
    FAULTS,
    ids=lambda value: " ".join(value) if isinstance(value, list) and value and value[0] != "" else None,
)
def test_a_fault_is_found(
    snapshot: Snapshot, severity: list[Severity], check: list[str], evidence: str
) -> None:
    findings = check_up(snapshot)
    assert [each.severity for each in findings] == severity
    assert [each.check for each in findings] == check
    if evidence:
        assert any(evidence in text for text in findings[0].evidence)
    assert all(each.command or each.check == "clocks" for each in findings)


def test_every_command_is_one_that_the_tools_accept() -> None:
    commands = {each.command for snapshot, *_ in FAULTS for each in check_up(snapshot, "h:1") if each.command}
    words = [shlex.split(command) for command in commands if command.startswith("kcli ")]
    assert len(words) > 15
    for _, tool, *arguments in words:
        _parsed(TOOLS[tool].load(), arguments)  # raises an error for an unknown option


def test_a_name_cannot_become_a_part_of_a_command() -> None:
    looks = (GroupLook("g; rm -rf ~", "PreparingRebalance", None, 2),) * 3
    finding = only(replace(HEALTHY, groups=(GroupHistory(looks),)))
    assert finding.command.endswith("--group 'g; rm -rf ~'")


def test_a_command_has_the_servers() -> None:
    leaders = only_with_servers(with_topic(partition(0, 1, 2, 3, leader=2)))
    assert leaders == (
        "kcli leader-election --bootstrap-server h:1 --election-type preferred --all-topic-partitions"
    )
    fenced = only_with_servers(replace(HEALTHY, nodes=(*HEALTHY.nodes, Node(4, "d", 9092, None, True))))
    assert fenced == "kcli cluster list-endpoints --include-fenced-brokers --bootstrap-server h:1"
    smaller = only_with_servers(replace(HEALTHY, topic_configs={"t": {"min.insync.replicas": "3"}}))
    assert smaller.endswith("--entity-type topics --entity-name t --add-config min.insync.replicas=2")


def test_two_replicas_get_a_third_one() -> None:
    finding = only(
        replace(
            HEALTHY,
            topics={"a.b": topic("a.b", partition(0, 1, 2))},
            topic_configs={"a.b": {"min.insync.replicas": "2"}},
        )
    )
    assert finding.command == (
        r"kcli reassign-partitions --balance --topics 'a\.b' --replication-factor 3 --dry-run"
    )
    two = replace(with_topic(partition(0, 1, 2)), nodes=HEALTHY.nodes[:2])
    assert only(two).text.endswith("Add a third broker, and then a third replica")
    assert only(two).command == ""


def test_a_fenced_broker_is_unregistered_only_without_replicas() -> None:
    fenced = (*HEALTHY.nodes[:2], Node(3, "c", 9092, None, True))
    (finding,) = (each for each in check_up(replace(HEALTHY, nodes=fenced)) if each.check == "fenced-broker")
    assert "3 partitions have a replica on it" in finding.evidence
    assert "Only if it never comes back" in finding.text
    assert finding.text.index("--decommission 3") < finding.text.index("unregister --id 3")


def test_only_overrides_of_topics_of_users_are_deleted() -> None:
    def command(**overrides: set[str]) -> str:
        names = ("__consumer_offsets", "t")
        of_one = {TopicPartition(name, 0): 2000 for name in names}
        replicas = [replace(replica(GB), topic=name) for name in names]
        return only(
            replace(
                HEALTHY,
                log_dirs={1: (log_dir(900 * GB, *replicas),)},
                metrics=Metrics(segments=of_one),
                topic_overrides={name: frozenset(keys) for name, keys in overrides.items()},
            )
        ).command

    alter = "kcli configs --alter --entity-type topics --entity-name t --delete-config "
    internal = {"__consumer_offsets": {"segment.bytes", "cleanup.policy"}}
    assert command(**internal, t={"segment.ms", "retention.ms"}) == alter + "segment.ms"
    assert command(t={"segment.ms", "segment.bytes"}) == alter + "segment.bytes,segment.ms"
    assert command(**internal, t={"retention.ms"}).startswith("kcli configs --describe --all")


def test_an_unused_topic_is_deleted_without_its_namesakes() -> None:
    names = ("a.b", "axb")
    finding = only(
        replace(
            HEALTHY,
            topics={name: topic(name, partition(0, 1, 2, 3)) for name in names},
            last_record_ms={"a.b": NOW_MS - 31 * DAY_MS, "axb": NOW_MS},
        )
    )
    _, tool, *arguments = shlex.split(finding.command)
    options: Any = _parsed(TOOLS[tool].load(), arguments)[0]
    assert list(filter(topic_filter(options.topic), names)) == ["a.b"]


def test_an_empty_topic_may_be_new_and_is_not_reported() -> None:
    assert not check_up(replace(HEALTHY, read_topics=frozenset(), last_record_ms={"t": -1}))


def test_a_long_number_in_a_version_does_not_end_the_report() -> None:
    clients = tuple(
        ClientSoftware(1, "librdkafka", version, 1) for version in ("9" * 5000, "1." + "9" * 5000)
    )
    finding = only(replace(HEALTHY, metrics=Metrics(clients=clients)))
    assert finding.evidence == (f"librdkafka 1.{'9' * 48}: 1 connection",)


def test_a_rule_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_rule(_: Snapshot) -> Iterator[CheckupFinding]:
        yield CheckupFinding(Severity.ADVICE, "half", "cluster", "never shown")
        raise ValueError("x" * 5000)

    monkeypatch.setattr("kcli.client.diagnosis.checkup.rules.RULES", (Rule(broken_rule), *RULES))
    found = check_up(with_topic(partition(0, 1)))
    assert [each.check for each in found] == ["one-replica", "not-checked"]
    assert found[1].subject == "broken-rule"
    assert found[1].evidence[0].startswith("ValueError: xxx") and len(found[1].evidence[0]) == 300


def test_a_command_has_the_settings_of_the_client() -> None:
    (finding,) = check_up(with_topic(partition(0, 1, 2, 3, leader=2)), "h:1", "my client.properties")
    assert "--bootstrap-server h:1 --command-config 'my client.properties' " in finding.command


def only_with_servers(snapshot: Snapshot) -> str:
    (finding,) = check_up(snapshot, "h:1")
    return finding.command


def test_a_missing_part_is_named_with_its_rules() -> None:
    finding = only(replace(HEALTHY, missing={parts.QUORUM: "not allowed"}))
    assert (finding.severity, finding.subject, finding.evidence) == (
        Severity.UNKNOWN, "the quorum", ("not allowed",)
    )  # fmt: skip
    assert finding.text == "These checks were not made: clocks, controllers"
    needs = {part for rule in RULES for part in rule.needs}
    everything = replace(Snapshot(time_ms=NOW_MS), missing=dict.fromkeys(needs, "no"))
    assert {each.severity for each in check_up(everything)} == {Severity.UNKNOWN}


def test_a_broker_without_metrics_is_named() -> None:
    finding = only(replace(HEALTHY, metrics=replace(HEALTHY.metrics, without={2: "not set"})))
    assert finding.evidence == ("broker 2: not set",)


def growing(retention: dict[str, str], history: PartitionHistory, size_bytes: int) -> Snapshot:
    return replace(
        HEALTHY,
        topic_configs={"t": {"min.insync.replicas": "2", **retention}},
        log_dirs={1: (log_dir(200 * GB, replica(size_bytes)),)},
        history={TopicPartition("t", 0): history},
    )


def test_a_disk_fills_at_the_growth_of_the_last_day() -> None:
    unlimited = growing({"retention.ms": "-1"}, PartitionHistory(0, 1000, 900, None), 500 * GB)
    finding = only(unlimited)  # a tenth of 500 GB a day, and 200 GB are free
    assert (finding.severity, finding.check) == (Severity.WARNING, "disk-full")
    assert "is full in 4.0 days" in finding.text
    assert "growth: 50 GB a day, by the timestamps of records" in finding.evidence


@pytest.mark.parametrize(
    ("retention", "history"),
    [
        ({"retention.ms": str(7 * DAY_MS)}, PartitionHistory(100, 1000, 900, 300)),  # already deletes
        ({"retention.ms": str(12 * DAY_MS)}, PartitionHistory(0, 1000, 900, 0)),  # deletes in two days
        ({"retention.ms": "-1", "retention.bytes": str(600 * GB)}, PartitionHistory(0, 1000, 900, None)),
        ({"retention.ms": "-1"}, PartitionHistory(0, 1000, 1000, None)),  # nothing was written
    ],
)
def test_retention_ends_the_growth(retention: dict[str, str], history: PartitionHistory) -> None:
    assert check_up(growing(retention, history, 500 * GB)) == []


def test_the_days_until_full_of_several_partitions() -> None:
    assert days_until_full(100, []) is None
    assert days_until_full(100, [Growth(10, None)]) == 10
    assert days_until_full(100, [Growth(10, 4), Growth(20, 2)]) is None  # they grow by 80 and stop
    assert days_until_full(70, [Growth(10, 4), Growth(20, 2)]) == 3  # 60 after two days, and then 10 a day
    assert days_until_full(100, [Growth(10, None), Growth(20, 2)]) == 6


def test_long_evidence_is_cut() -> None:
    assert listed(range(12)) == (*map(str, range(10)), "and 2 more")
    assert listed(range(10)) == tuple(map(str, range(10)))
