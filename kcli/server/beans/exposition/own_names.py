"""The names of the figures that Kafka does not have. They are the same in all profiles.

process_*, python_*     the names of the usual client libraries of Prometheus
kafka_*                 the names of kafka_exporter
kminion_*               the names of kminion
kcli_*                  figures that no other exporter has: kcli_<type>_<attribute>
"""

from __future__ import annotations

from kcli.server.beans.exposition.profile import Info, MetricType, Sensor

_COUNTER = MetricType.COUNTER
_GROUP = {"group": "consumergroup"}
_KMINION = {"group": "group_id", "topic": "topic_name", "partition": "partition_id"}
_LAG = "kcli.lag:"
_KCLI = "kcli:"


def _known(name: str, *, type_: MetricType = MetricType.GAUGE, factor: float = 1.0) -> tuple[Sensor, ...]:
    """Returns a metric for a figure of the process. A negative value means that the figure is unknown, so it is left
    out.
    """
    return (Sensor(name=name, type=type_, factor=factor, least=0.0),)


def _exporter(name: str) -> Sensor:
    """A metric of kafka_exporter."""
    return Sensor(name=f"kafka_{name}", labels=_GROUP)


def _kminion(name: str) -> Sensor:
    return Sensor(name=f"kminion_kafka_{name}", labels=_KMINION)


def _own(name: str) -> Sensor:
    return Sensor(name=f"kcli_{name}")


OWN_SENSORS: dict[str, tuple[Sensor, ...]] = {
    _KCLI + "python-gc": (Sensor(name="python_gc_{attribute}"),),
}

OWN_ATTRIBUTES: dict[tuple[str, str], tuple[Sensor, ...]] = {
    (_KCLI + "Process", "AvailableProcessors"): _known("kcli_process_available_processors"),
    (_KCLI + "Process", "MaxFileDescriptorCount"): _known("process_max_fds"),
    (_KCLI + "Process", "OpenFileDescriptorCount"): _known("process_open_fds"),
    (_KCLI + "Process", "ProcessCpuSeconds"): _known("process_cpu_seconds_total", type_=_COUNTER),
    (_KCLI + "Process", "ResidentMemoryBytes"): _known("process_resident_memory_bytes"),
    (_KCLI + "Process", "StartTimeMs"): _known("process_start_time_seconds", factor=0.001),
    (_KCLI + "Process", "TaskCount"): _known("kcli_process_tasks"),
    (_KCLI + "Process", "ThreadCount"): _known("process_threads"),
    (_KCLI + "Process", "VirtualMemoryBytes"): _known("process_virtual_memory_bytes"),
    (_LAG + "Group", "Members"): (
        _exporter("consumergroup_members"),
        _kminion("consumer_group_members"),
        _own("group_members"),
    ),
    (_LAG + "Group", "MembersWithoutPartitions"): (_kminion("consumer_group_empty_members"),),
    (_LAG + "Group", "OffsetCommits"): (
        Sensor(name="kminion_kafka_consumer_group_offset_commits_total", type=_COUNTER, labels=_KMINION),
    ),
    (_LAG + "Group", "Lag"): (_own("group_lag"),),
    (_LAG + "Group", "LagSeconds"): (_own("group_lag_seconds"),),
    (_LAG + "Group", "Status"): (_own("group_status"),),
    (_LAG + "Topic", "CommittedOffset"): (
        _exporter("consumergroup_current_offset_sum"),
        _kminion("consumer_group_topic_offset_sum"),
    ),
    (_LAG + "Topic", "Lag"): (_exporter("consumergroup_lag_sum"), _kminion("consumer_group_topic_lag")),
    (_LAG + "Topic", "Members"): (_kminion("consumer_group_topic_members"),),
    (_LAG + "Topic", "AssignedPartitions"): (_kminion("consumer_group_topic_assigned_partitions"),),
    (_LAG + "Partition", "CommittedOffset"): (_exporter("consumergroup_current_offset"),),
    (_LAG + "Partition", "Lag"): (
        _exporter("consumergroup_lag"),
        _kminion("consumer_group_topic_partition_lag"),
    ),
    (_LAG + "Partition", "EndOffset"): (),  # kafka_topic_partition_current_offset has it, without the group
    (_LAG + "Partition", "LagSeconds"): (_own("group_partition_lag_seconds"),),
    (_LAG + "Partition", "CatchUpSeconds"): (_own("group_partition_catch_up_seconds"),),
    (_LAG + "Partition", "CommitAgeSeconds"): (_own("group_partition_commit_age_seconds"),),
    (_LAG + "Partition", "Status"): (_own("group_partition_status"),),
    (_LAG + "Sampler", "Partitions"): (_own("lag_sampler_partitions"),),
    (_LAG + "Sampler", "SkippedGroups"): (_own("lag_sampler_skipped_groups"),),
    (_LAG + "Sampler", "SkippedPartitions"): (_own("lag_sampler_skipped_partitions"),),
    (_LAG + "Sampler", "UnknownEndOffsets"): (_own("lag_sampler_unknown_end_offsets"),),
    (_LAG + "Sampler", "SampleAgeSeconds"): (_own("lag_sampler_age_seconds"),),
    (_KCLI + "cluster", "brokers"): (_exporter("brokers"),),
    (_KCLI + "topic", "partitions"): (_exporter("topic_partitions"),),
    (_KCLI + "topic-size", "bytes"): (_own("topic_size_bytes"), _kminion("topic_log_dir_size_total_bytes")),
    (_KCLI + "broker-size", "bytes"): (
        _own("broker_size_bytes"),
        Sensor(name="kminion_kafka_broker_log_dir_size_total_bytes", labels={"broker": "broker_id"}),
    ),
    (_KCLI + "topic-partition", "current-offset"): (
        _exporter("topic_partition_current_offset"),
        _kminion("topic_partition_high_water_mark"),
    ),
    (_KCLI + "topic-partition", "oldest-offset"): (
        _exporter("topic_partition_oldest_offset"),
        _kminion("topic_partition_low_water_mark"),
    ),
    **{
        (_KCLI + "topic-partition", attribute): (_exporter("topic_partition_" + attribute.replace("-", "_")),)
        for attribute in (
            "in-sync-replica",
            "leader",
            "leader-is-preferred",
            "replicas",
            "under-replicated-partition",
        )
    },
}

OWN_INFOS: dict[str, tuple[Info, ...]] = {
    _KCLI + "broker": (
        Info(
            name="kafka_broker_info",
            texts={"address": "address"},
            labels={"broker": "id"},
            type=MetricType.GAUGE,
        ),
        Info(
            name="kminion_kafka_broker_info",
            texts={"host": "address", "port": "port", "rack": "rack_id", "is-controller": "is_controller"},
            labels={"broker": "broker_id"},
            type=MetricType.GAUGE,
        ),
    ),
    _KCLI + "cluster": (
        Info(
            name="kminion_kafka_cluster_info",
            texts={
                "version": "cluster_version",
                "broker-count": "broker_count",
                "controller": "controller_id",
                "cluster-id": "cluster_id",
            },
            type=MetricType.GAUGE,
        ),
    ),
    _KCLI + "topic": (
        Info(
            name="kminion_kafka_topic_info",
            texts={"partition-count": "partition_count", "replication-factor": "replication_factor"},
            labels=_KMINION,
            type=MetricType.GAUGE,
        ),
    ),
    _LAG + "Group": (
        Info(
            name="kminion_kafka_consumer_group_info",
            texts={"State": "state", "Protocol": "protocol", "ProtocolType": "protocol_type"},
            labels=_KMINION,
            type=MetricType.GAUGE,
        ),
        Info(name="kcli_group_info", texts={"State": "state", "StatusName": "status"}),
    ),
    # The explanation is a sentence that changes often, so it is not used as a label. The answer to /jmx contains it.
    _LAG + "Partition": (),
    _KCLI + "python": (
        Info(
            name="python_info",
            texts={"implementation": "implementation", "version": "version"},
            type=MetricType.GAUGE,
        ),
    ),
}
