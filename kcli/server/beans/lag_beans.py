"""The beans of the domain kcli.lag, which Kafka does not have: the lag of the groups that this broker coordinates.

The values come from the last sample (`coordinators/group_lag.py`). An attribute is left out if its value is unknown.
Status has Burrow's numbers: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcli.lag.group_lag import GroupLag
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.log_text import one_line
from kcli.server.beans.bean import Bean, bean
from kcli.server.beans.sources import BrokerSources
from kcli.server.coordinators.group_lag import GroupLagSampler
from kcli.server.metrics.meters import Attributes

LAG = "kcli.lag"


def lag_beans(broker: BrokerSources) -> Iterator[Bean]:
    """Returns no beans if the broker takes no samples."""
    sampler = broker.group_lag
    if sampler is None:
        return
    yield _sampler_bean(sampler)
    for group in sampler.report.groups:
        yield _group_bean(group)
        yield from _topic_beans(group)
        for partition in group.partitions:
            yield _partition_bean(group, partition)


def _sampler_bean(sampler: GroupLagSampler) -> Bean:
    return bean(
        LAG,
        "Sampler",
        {
            "Partitions": sampler.windows,
            "SampleAgeSeconds": sampler.age_seconds,
            "SkippedGroups": sampler.report.skipped_groups,
            "SkippedPartitions": sampler.report.skipped,
            "UnknownEndOffsets": sampler.report.unknown_ends,
        },
    )


def _group_bean(group: GroupLag) -> Bean:
    is_unknown = group.is_unknown
    attributes: dict[str, str | int | float | None] = {
        "Lag": None if is_unknown else group.lag,
        "LagSeconds": _seconds(group.lag_seconds, is_at_least=group.is_at_least),
        "Members": group.members,
        "MembersWithoutPartitions": group.idle_members,
        "OffsetCommits": group.commits,
        "Protocol": one_line(group.protocol),
        "ProtocolType": one_line(group.protocol_type),
        "State": group.state,
        "Status": None if is_unknown else group.status.value,
        "StatusName": None if is_unknown else group.status.name,
    }
    return bean(LAG, "Group", _known(attributes), group=group.group_id)


def _topic_beans(group: GroupLag) -> Iterator[Bean]:
    for topic, sums in group.topics.items():
        attributes: dict[str, str | int | float | None] = {
            "AssignedPartitions": sums.assigned_partitions,
            "CommittedOffset": sums.committed,
            "Lag": None if sums.is_unknown else sums.lag,
            "Members": sums.members,
        }
        yield bean(LAG, "Topic", _known(attributes), group=group.group_id, topic=topic)


def _partition_bean(group: GroupLag, partition: TopicPartition) -> Bean:
    partition_lag = group.partitions[partition]
    attributes: dict[str, str | int | float | None] = {
        "CatchUpSeconds": partition_lag.catch_up_seconds,
        "CommitAgeSeconds": partition_lag.commit_age_seconds,
        "CommittedOffset": partition_lag.committed,
        "EndOffset": partition_lag.end,
        "Explanation": one_line(group.sentence(partition)),
        "Lag": partition_lag.lag,
        "LagSeconds": _seconds(partition_lag.lag_seconds, is_at_least=partition_lag.is_at_least),
        "Status": None if partition_lag.end is None else partition_lag.status.value,
        "StatusName": None if partition_lag.end is None else partition_lag.status.name,
    }
    return bean(
        LAG,
        "Partition",
        _known(attributes),
        group=group.group_id,
        topic=partition.topic,
        partition=str(partition.partition),
    )


def _seconds(value: float | None, *, is_at_least: bool) -> float | None:
    """The lag in seconds. The first sample after a start has no value, because the lag is not known yet."""
    return value or None if is_at_least else value


def _known(attributes: dict[str, str | int | float | None]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}
