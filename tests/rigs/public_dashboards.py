"""Public dashboards for Kafka: the names that they read, and the names that kcli does not have, with the reasons.

docs/monitoring.md has the same table for readers. A test compares both, and a real Prometheus checks the names.
"""

from __future__ import annotations

from dataclasses import dataclass

JVM = "kcli has no Java virtual machine"
KUBERNETES = "from Kubernetes, not from the broker"
CONFLUENT = "only Confluent's own server has it"
OTHER = "from a program that is not Kafka"
QUEUES = "kcli has no queue of answers"
CONVERSIONS = "Kafka 4 converts no batches for clients, and kcli neither"


@dataclass(frozen=True)
class Public:
    """One dashboard. `names` may use braces, as in `a_{b,c}`. `empty` has the names without data, and the reasons."""

    title: str
    profile: str
    names: str
    empty: dict[str, str]

    def expanded(self) -> list[str]:
        return [each for name in self.names.split() for each in _expanded(name)]


def _expanded(name: str) -> list[str]:
    head, brace, rest = name.partition("{")
    if not brace:
        return [name]
    choices, _, tail = rest.partition("}")
    return [each for choice in choices.split(",") for each in _expanded(head + choice + tail)]


PUBLIC = (
    Public(
        "Strimzi: strimzi-kafka.json",
        "default",
        """
        kafka_server_replicamanager_{leadercount,partitioncount,underreplicatedpartitions}
        kafka_controller_kafkacontroller_{activecontrollercount,offlinepartitionscount}
        kafka_controller_controllerstats_uncleanleaderelections_total
        kafka_cluster_partition_{atminisr,underminisr,replicascount}
        kafka_server_brokertopicmetrics_{bytesin,bytesout,messagesin}_total
        kafka_server_brokertopicmetrics_{totalproducerequests,failedproducerequests}_total
        kafka_server_brokertopicmetrics_{totalfetchrequests,failedfetchrequests}_total
        kafka_network_socketserver_networkprocessoravgidle_percent
        kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
        kafka_server_kafkaserver_linux_disk_{read,write}_bytes
        kafka_server_socket_server_metrics_connection_count
        kafka_log_log_size process_open_fds
        jvm_memory_used_bytes jvm_gc_collection_seconds_{sum,count} jvm_threads_current
        container_memory_usage_bytes kubelet_volume_stats_available_bytes
        """,
        {
            "jvm_memory_used_bytes": JVM,
            "jvm_gc_collection_seconds_sum": JVM,
            "jvm_gc_collection_seconds_count": JVM,
            "jvm_threads_current": JVM,
            "container_memory_usage_bytes": KUBERNETES,
            "kubelet_volume_stats_available_bytes": KUBERNETES,
        },
    ),
    Public(
        "Strimzi: strimzi-kraft.json",
        "default",
        """
        kafka_server_raftmetrics_{current_state,current_leader,current_vote,current_epoch}
        kafka_server_raftmetrics_{high_watermark,log_end_offset,append_records_rate,fetch_records_rate}
        kafka_server_raftmetrics_commit_latency_avg
        kafka_server_raftchannelmetrics_{incoming_byte,outgoing_byte,request,response}_total
        """,
        {},
    ),
    Public(
        "Strimzi: strimzi-kafka-exporter.json",
        "default",
        """
        kafka_broker_info kafka_consumergroup_{current_offset,lag} kafka_topic_partitions
        kafka_topic_partition_{current_offset,oldest_offset,in_sync_replica,leader_is_preferred}
        kafka_topic_partition_{replicas,under_replicated_partition}
        kafka_cluster_partition_{atminisr,underminisr}
        """,
        {},
    ),
    Public(
        "Strimzi: strimzi-cruise-control.json",
        "default",
        "kafka_cruisecontrol_anomalydetector_balancedness_score_value",
        {"kafka_cruisecontrol_anomalydetector_balancedness_score_value": OTHER},
    ),
    Public(
        "Confluent: kafka-cluster-kraft.json",
        "confluent",
        """
        kafka_server_kafkaserver_{brokerstate,linux_disk_read_bytes,linux_disk_write_bytes}
        kafka_server_replicamanager_{partitioncount,leadercount,underreplicatedpartitions}
        kafka_server_replicamanager_{isrshrinkspersec,isrexpandspersec}
        kafka_cluster_partition_underminisr
        kafka_controller_kafkacontroller_{activecontrollercount,offlinepartitionscount}
        kafka_controller_kafkacontroller_preferredreplicaimbalancecount
        kafka_controller_controllerstats_uncleanleaderelectionspersec
        kafka_server_brokertopicmetrics_{bytesinpersec,bytesoutpersec,messagesinpersec}
        kafka_server_brokertopicmetrics_{fetchmessageconversionspersec,producemessageconversionspersec}
        kafka_network_requestmetrics_{requestspersec,errorspersec,localtimems,remotetimems,totaltimems}
        kafka_network_requestmetrics_{requestqueuetimems,responsequeuetimems,responsesendtimems}
        kafka_network_requestchannel_{requestqueuesize,responsequeuesize}
        kafka_network_acceptor_acceptorblockedpercent
        kafka_network_socketserver_networkprocessoravgidlepercent
        kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate
        kafka_server_replicafetchermanager_{maxlag,minfetchrate}
        kafka_server_fetchsessioncache_{numincrementalfetchsessions,incrementalfetchsessionevictionspersec}
        kafka_server_socketservermetrics_{connections,connection_count}
        kafka_server_socketservermetrics_{connection_creation_rate,connection_close_rate}
        kafka_coordinator_group_groupmetadatamanager_numgroups{,stable,empty,dead}
        kafka_coordinator_group_groupmetadatamanager_numgroups{preparingrebalance,completingrebalance}
        kafka_log_log_size kafka_log_log_tiersize
        """,
        {
            "kafka_log_log_tiersize": CONFLUENT,
            "kafka_network_requestmetrics_responsequeuetimems": QUEUES,
            "kafka_server_brokertopicmetrics_fetchmessageconversionspersec": CONVERSIONS,
            "kafka_server_brokertopicmetrics_producemessageconversionspersec": CONVERSIONS,
        },
    ),
    Public(
        "Confluent: kraft.json",
        "confluent",
        """
        kafka_controller_controllereventmanager_{eventqueuetimems,eventqueueprocessingtimems}
        kafka_controller_kafkacontroller_{activebrokercount,fencedbrokercount}
        kafka_controller_kafkacontroller_{lastappliedrecordlagms,metadataerrorcount}
        kafka_server_raft_metrics_{append_records_rate,commit_latency_avg,current_epoch,current_leader}
        kafka_server_raft_metrics_{election_latency_max,fetch_records_rate,high_watermark}
        """,
        {},
    ),
    Public(
        "Confluent: kafka-topics-kraft.json",
        "confluent",
        """
        kafka_controller_kafkacontroller_{globaltopiccount,globalpartitioncount}
        kafka_log_log_{logstartoffset,logendoffset,size}
        kafka_server_brokertopicmetrics_{bytesinpersec,bytesoutpersec,messagesinpersec}
        """,
        {},
    ),
    Public(
        "Confluent: kafka-quotas.json",
        "confluent",
        """
        kafka_server_{produce,fetch}_{byte_rate,throttle_time} kafka_server_request_{request_time,throttle_time}
        """,
        {},
    ),
    Public(
        "grafana.com 721: Kafka Overview",
        "default",
        """
        kafka_server_brokertopicmetrics_{messagesin,bytesin,bytesout}_total process_cpu_seconds_total
        jvm_memory_bytes_used jvm_gc_collection_seconds_sum
        """,
        {"jvm_memory_bytes_used": JVM, "jvm_gc_collection_seconds_sum": JVM},
    ),
    Public(
        "Grafana Cloud: Kafka integration",
        "confluent",
        """
        kafka_server_brokertopicmetrics_{bytesinpersec,bytesoutpersec,messagesinpersec}
        kafka_controller_controllerstats_uncleanleaderelectionspersec
        kafka_controller_kafkacontroller_{activecontrollercount,offlinepartitionscount}
        kafka_controller_kafkacontroller_preferredreplicaimbalancecount
        kafka_server_replicamanager_leadercount
        """,
        {},
    ),
    Public(
        "grafana.com 7589: Kafka Exporter Overview",
        "default",
        """
        kafka_topic_partition_current_offset kafka_consumergroup_{lag,current_offset} kafka_topic_partitions
        """,
        {},
    ),
    Public(
        "grafana.com 14012, 14013, 14014: kminion",
        "default",
        """
        kminion_kafka_{cluster_info,broker_info,broker_log_dir_size_total_bytes}
        kminion_kafka_topic_{log_dir_size_total_bytes,partition_high_water_mark,partition_low_water_mark}
        kminion_kafka_consumer_group_{info,members,empty_members,topic_members,topic_assigned_partitions}
        kminion_kafka_consumer_group_{topic_offset_sum,topic_lag,topic_partition_lag}
        kminion_kafka_topic_{info,high_water_mark_sum,low_water_mark_sum} kminion_exporter_up
        kminion_end_to_end_messages_produced_total
        """,
        {
            "kminion_kafka_topic_high_water_mark_sum": "sum the metrics of the partitions",
            "kminion_kafka_topic_low_water_mark_sum": "sum the metrics of the partitions",
            "kminion_exporter_up": "`up` of Prometheus tells it",
            "kminion_end_to_end_messages_produced_total": "a node sends no test messages",
        },
    ),
    Public(
        "kafbat UI: metrics of a broker",
        "default",
        "kafka_server_BrokerTopicMetrics_FifteenMinuteRate",
        {},
    ),
    Public(
        "Dashboards of the Strimzi Metrics Reporter",
        "reporter",
        """
        kafka_server_brokertopicmetrics_{bytesinpersec,bytesoutpersec,messagesinpersec}_total
        kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total
        kafka_server_raft_metrics_{current_epoch,current_state_info}
        kafka_server_raft_channel_metrics_incoming_byte kafka_server_socket_server_metrics_connection_count
        kafka_network_requestmetrics_requestspersec_total
        """,
        {},
    ),
)
