"""Beans as text for Prometheus: the names of each profile, the formats, and what a client may write into a label."""

from __future__ import annotations

import gzip
import json
import math

import pytest

from kcli.server.beans.bean import Bean, Kind, bean, gauge, gauges, histogram, meter, single_beans
from kcli.server.beans.exposition.encoding import (
    LINES_PER_PART,
    OPEN_METRICS,
    TEXT,
    accepted_format,
    accepts_gzip,
    encoded,
    gzipped,
    json_bean,
    json_parts,
)
from kcli.server.beans.exposition.families import LABELS_KEPT_MAX, Families
from kcli.server.beans.exposition.profiles import PROFILES
from kcli.server.metrics.exemplars import Exemplar
from kcli.server.metrics.meters import Attributes, Histogram, Meter


def text_of(*beans: Bean, profile: str = "default") -> list[str]:
    families = Families(PROFILES[profile])
    for each in beans:
        families.add(each)
    return b"".join(encoded(families, TEXT)).decode().splitlines()


def open_text_of(*beans: Bean) -> list[str]:
    families = Families(PROFILES["default"], with_exemplars=True)
    for each in beans:
        families.add(each)
    return b"".join(encoded(families, OPEN_METRICS)).decode().splitlines()


def metered(count: int) -> Attributes:
    made = Meter(0.0)
    made.count = count
    return made.attributes("messages", 1.0)


def observed(value: float, count: int) -> Attributes:
    made = Histogram(0.0)
    made.fold([value] * count, 0.0)
    return made.attributes()


def test_meters_are_counters_and_the_lines_of_a_metric_follow_each_other() -> None:
    lines = text_of(
        meter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", metered(3)),
        gauge("kafka.server", "ReplicaManager", "PartitionCount", 7),
        meter("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", metered(2), topic="a"),
    )
    assert lines == [
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter",
        "kafka_server_brokertopicmetrics_messagesin_total 3",
        'kafka_server_brokertopicmetrics_messagesin_total{topic="a"} 2',
        "# TYPE kafka_server_replicamanager_partitioncount gauge",
        "kafka_server_replicamanager_partitioncount 7",
    ]


def test_histograms_are_summaries() -> None:
    lines = text_of(
        histogram("kafka.network", "RequestMetrics", "TotalTimeMs", observed(4.0, 10), request="Fetch")
    )
    assert lines[0] == "# TYPE kafka_network_requestmetrics_totaltimems summary"
    assert 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 4' in lines
    assert lines[-2:] == [
        'kafka_network_requestmetrics_totaltimems_sum{request="Fetch"} 40',
        'kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 10',
    ]


# The object name and its attributes -> the lines of each profile. The lines without a number are only searched.
BYTES_IN = meter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", metered(9), topic="a")
UNCLEAN = meter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec", metered(1))
HANDLER_IDLE = meter("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", metered(5))
NETWORK_IDLE = gauge("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent", 0.75)
TOTAL_TIME = histogram("kafka.network", "RequestMetrics", "TotalTimeMs", observed(4.0, 10), request="Fetch")
FLUSHES = bean(
    "kafka.log",
    "LogFlushStats",
    observed(2.0, 3) | metered(3),
    "LogFlushRateAndTimeMs",
    kind=Kind.TIMER,
)
EPOCH = bean("kafka.server", "raft-metrics", {"current-epoch": 3, "current-state": "leader"})
CHANNEL = bean("kafka.server", "raft-channel-metrics", {"incoming-byte-total": 8})
APPLIED = bean("kafka.server", "broker-metadata-metrics", {"last-applied-record-offset": 6})
SOCKETS = bean(
    "kafka.server", "socket-server-metrics", {"connection-count": 2}, listener="L", networkProcessor="0"
)
SOFTWARE = bean(
    "kafka.server",
    "socket-server-metrics",
    {"connections": 1},
    clientSoftwareName="java",
    clientSoftwareVersion="4",
    listener="L",
    networkProcessor="0",
)
CIPHERS = bean(
    "kafka.server",
    "socket-server-metrics",
    {"connections": 1},
    cipher="C",
    protocol="TLSv1.3",
    listener="L",
    networkProcessor="0",
)
QUOTA = bean("kafka.server", "Produce", {"byte-rate": 1.5}, user="u", **{"client-id": "c"})
FETCHER = gauge("kafka.server", "FetcherLagMetrics", "ConsumerLag", 4, clientId="F", topic="t", partition="0")
GROUPS = bean("kafka.server", "group-coordinator-metrics", {"group-count": 2}, protocol="classic")

NAMES = [
    (BYTES_IN, "default", 'kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 9'),
    (
        BYTES_IN,
        "default",
        'kafka_server_BrokerTopicMetrics_FifteenMinuteRate{topic="a",name="BytesInPerSec"} 0',
    ),
    (BYTES_IN, "confluent", 'kafka_server_brokertopicmetrics_bytesinpersec{topic="a"} 9'),
    (BYTES_IN, "reporter", 'kafka_server_brokertopicmetrics_bytesinpersec_total{topic="a"} 9'),
    (UNCLEAN, "default", "kafka_controller_controllerstats_uncleanleaderelections_total 1"),
    (UNCLEAN, "confluent", "kafka_controller_controllerstats_uncleanleaderelectionspersec 1"),
    (UNCLEAN, "reporter", "kafka_controller_controllerstats_uncleanleaderelectionspersec_total 1"),
    (HANDLER_IDLE, "default", "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent 0"),
    (HANDLER_IDLE, "default", "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count 5"),
    (HANDLER_IDLE, "confluent", "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent 5"),
    (
        HANDLER_IDLE,
        "confluent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate 0",
    ),
    (HANDLER_IDLE, "reporter", "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total 5"),
    (NETWORK_IDLE, "default", "kafka_network_socketserver_networkprocessoravgidle_percent 0.75"),
    (NETWORK_IDLE, "default", "kafka_network_socketserver_networkprocessoravgidlepercent 0.75"),
    (NETWORK_IDLE, "confluent", "kafka_network_socketserver_networkprocessoravgidlepercent 0.75"),
    (NETWORK_IDLE, "reporter", "kafka_network_socketserver_networkprocessoravgidlepercent 0.75"),
    (TOTAL_TIME, "confluent", 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 4'),
    (TOTAL_TIME, "confluent", 'kafka_network_requestmetrics_totaltimems{request="Fetch"} 10'),
    (TOTAL_TIME, "reporter", 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.5"} 4'),
    (FLUSHES, "default", "kafka_log_logflushstats_logflushrateandtimems_count 3"),
    (FLUSHES, "confluent", "kafka_log_logflushstats_logflushrateandtimems 3"),
    (EPOCH, "default", "kafka_server_raftmetrics_current_epoch 3"),
    (EPOCH, "default", "kafka_server_raft_metrics_current_epoch 3"),
    (EPOCH, "default", 'kafka_server_raftmetrics_current_state{current_state="leader"} 1'),
    (EPOCH, "default", 'kafka_server_raft_metrics_current_state_info{state="leader"} 1'),
    (EPOCH, "confluent", "kafka_server_raft_metrics_current_epoch 3"),
    (EPOCH, "reporter", 'kafka_server_raft_metrics_current_state_info{current_state="leader"} 1'),
    (CHANNEL, "default", "kafka_server_raftchannelmetrics_incoming_byte_total 8"),
    (CHANNEL, "default", "kafka_server_raft_channel_metrics_incoming_byte_total 8"),
    (CHANNEL, "reporter", "kafka_server_raft_channel_metrics_incoming_byte 8"),
    (APPLIED, "default", "kafka_server_brokermetadatametrics_last_applied_record_offset 6"),
    (APPLIED, "confluent", "kafka_server_broker_metadata_metrics_last_applied_record_offset 6"),
    (
        SOCKETS,
        "default",
        'kafka_server_socket_server_metrics_connection_count{listener="L",networkProcessor="0"} 2',
    ),
    (
        SOCKETS,
        "confluent",
        'kafka_server_socketservermetrics_connection_count{listener="L",network_processor="0"} 2',
    ),
    (
        SOFTWARE,
        "default",
        (
            'kafka_server_socket_server_metrics_connections_software{clientSoftwareName="java",'
            'clientSoftwareVersion="4",listener="L",networkProcessor="0"} 1'
        ),
    ),
    (
        SOFTWARE,
        "confluent",
        (
            'kafka_server_socketservermetrics_connections{client_software_name="java",'
            'client_software_version="4",listener="L",network_processor="0"} 1'
        ),
    ),
    (
        CIPHERS,
        "default",
        (
            'kafka_server_socket_server_metrics_connections_tls_info{cipher="C",protocol="TLSv1.3",'
            'listener="L",networkProcessor="0"} 1'
        ),
    ),
    (QUOTA, "default", 'kafka_server_produce_byte_rate{user="u",client_id="c"} 1.5'),
    (QUOTA, "default", 'kafka_server_quota_byte_rate{user="u",clientId="c",resource="Produce"} 1.5'),
    (QUOTA, "confluent", 'kafka_server_produce_byte_rate{user="u",client_id="c"} 1.5'),
    (
        FETCHER,
        "default",
        'kafka_server_fetcherlagmetrics_consumerlag{clientId="F",topic="t",partition="0"} 4',
    ),
    (
        FETCHER,
        "confluent",
        'kafka_server_fetcherlagmetrics_consumerlag{clientid="F",topic="t",partition="0"} 4',
    ),
    (GROUPS, "default", 'kafka_server_group_coordinator_metrics_group_count{protocol="classic"} 2'),
]


@pytest.mark.parametrize(("which", "profile", "line"), NAMES, ids=lambda each: str(each)[:60])
def test_each_profile_has_the_names_of_its_exporter(which: Bean, profile: str, line: str) -> None:
    assert line in text_of(which, profile=profile)


def test_texts_without_a_rule_are_labels_of_one_metric() -> None:
    about = bean("kafka.server", "app-info", {"start-time-ms": 5, "version": "4.1.0"}, id="1")
    assert text_of(about) == [
        "# TYPE kafka_server_app_info_start_time_ms gauge",
        'kafka_server_app_info_start_time_ms{id="1"} 5',
        "# TYPE kafka_server_app_info_info gauge",
        'kafka_server_app_info_info{id="1",version="4.1.0"} 1',
    ]
    assert text_of(gauge("kafka.server", "KafkaServer", "ClusterId", "x"))[1] == (
        'kafka_server_kafkaserver_clusterid_info{value="x"} 1'
    )


def test_unknown_figures_of_the_process_are_left_out_and_times_are_seconds() -> None:
    lines = text_of(bean("kcli", "Process", {"MaxFileDescriptorCount": -1, "StartTimeMs": 1_500}))
    assert lines == ["# TYPE process_start_time_seconds gauge", "process_start_time_seconds 1.5"]


def test_the_names_of_the_lag_exporters() -> None:
    lag = bean(
        "kcli.lag", "Partition", {"Lag": 7, "Explanation": "late"}, group="g", topic="t", partition="0"
    )
    assert text_of(lag) == [
        "# TYPE kafka_consumergroup_lag gauge",
        'kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"} 7',
        "# TYPE kminion_kafka_consumer_group_topic_partition_lag gauge",
        'kminion_kafka_consumer_group_topic_partition_lag{group_id="g",topic_name="t",partition_id="0"} 7',
    ]


def test_labels_are_escaped_and_names_quoted() -> None:
    odd = gauge("kafka.log", "LogManager", "LogDirectoryOffline", 0, logDirectory='/a "b",c')
    assert odd.object_name == r'kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="/a \"b\",c"'
    assert text_of(odd)[1] == r'kafka_log_logmanager_logdirectoryoffline{logDirectory="/a \"b\",c"} 0'
    assert json.loads(json_bean(odd)) == {"name": odd.object_name, "Value": 0}


def test_several_gauges_have_the_lines_of_single_ones() -> None:
    several = gauges(
        "kafka.log", "Log", {"Size": 5, "LogEndOffset": 7, "Share": 0.5}, topic='t"', partition="0"
    )
    singly = list(single_beans(several))
    assert singly[0] == gauge("kafka.log", "Log", "Size", 5, topic='t"', partition="0")
    assert [each.attributes for each in singly] == [{"Value": 5}, {"Value": 7}, {"Value": 0.5}]
    for profile in PROFILES:
        assert text_of(several, several, profile=profile) == text_of(*singly, *singly, profile=profile)
    assert list(single_beans(BYTES_IN)) == [BYTES_IN]


def test_a_hostile_client_id_stays_inside_its_label() -> None:
    quota = bean("kafka.server", "Request", {"request-time": 1}, **{"client-id": 'x"} 1\nevil{a="b\\'})
    assert text_of(quota)[1] == r'kafka_server_request_request_time{client_id="x\"} 1\nevil{a=\"b\\"} 1'


def test_many_labels_are_not_kept() -> None:
    beans = [
        gauge("kafka.log", "Log", "Size", number, topic="t", partition=str(number % 3_000))
        for number in range(LABELS_KEPT_MAX * 3)
    ]
    assert text_of(*beans)[-1] == 'kafka_log_log_size{topic="t",partition="2999"} 2999'


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("nan"), "NaN"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (2.0, "2"), (0.1, "0.1")],
)
def test_numbers_are_as_prometheus_reads_them(value: float, text: str) -> None:
    assert text_of(gauge("kafka.server", "X", "Y", value))[1] == f"kafka_server_x_y {text}"


# OpenMetrics

LATENCIES = Bean(
    "kcli",
    {"type": "request", "name": "duration-seconds", "api": "Produce"},
    {"0.001": 2, "0.01": 3, "+Inf": 4, "Count": 4, "Sum": 0.5},
    Kind.BUCKETS,
    {"0.01": Exemplar(0.005, "abc", 12_500)},
)


def test_open_metrics_has_counters_without_total_in_their_type_and_an_end() -> None:
    lines = open_text_of(BYTES_IN, EPOCH)
    assert lines[0] == "# TYPE kafka_server_brokertopicmetrics_bytesin counter"
    assert lines[1].startswith("kafka_server_brokertopicmetrics_bytesin_total{")
    assert "# TYPE kafka_server_raft_metrics_current_state info" in lines
    assert lines[-1] == "# EOF"


def test_histograms_have_buckets_and_only_open_metrics_has_exemplars() -> None:
    assert text_of(LATENCIES) == [
        "# TYPE kcli_request_duration_seconds histogram",
        'kcli_request_duration_seconds_bucket{api="Produce",le="0.001"} 2',
        'kcli_request_duration_seconds_bucket{api="Produce",le="0.01"} 3',
        'kcli_request_duration_seconds_bucket{api="Produce",le="+Inf"} 4',
        'kcli_request_duration_seconds_sum{api="Produce"} 0.5',
        'kcli_request_duration_seconds_count{api="Produce"} 4',
    ]
    assert open_text_of(LATENCIES)[2] == (
        'kcli_request_duration_seconds_bucket{api="Produce",le="0.01"} 3 # {trace_id="abc"} 0.005 12.500'
    )


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text; version=1.0.0", True),
        (
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
            ),
            True,
        ),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.9", False),
        ("application/openmetrics-text;q=nonsense", False),
    ],
)
def test_the_accept_header_decides_the_format(accept: str, is_open: bool) -> None:
    assert accepted_format(accept).is_open is is_open


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("gzip", True),
        ("gzip, deflate", True),
        ("deflate, GZIP;q=0.1", True),
        ("*", True),
        ("*, gzip;q=0", False),
        ("deflate", False),
        ("", False),
    ],
)
def test_the_accept_encoding_header_decides_the_compression(accept: str, wanted: bool) -> None:
    assert accepts_gzip(accept) is wanted


def test_compressed_parts_are_one_text() -> None:
    parts = [b"a 1\n" * 50_000, b"", b"b 2\n"]
    packed = list(gzipped(parts))
    assert gzip.decompress(b"".join(packed)) == b"".join(parts)
    assert sum(map(len, packed)) < 2_000


def test_long_texts_are_encoded_in_parts() -> None:
    count = LINES_PER_PART * 2 + 1
    families = Families(PROFILES["default"])
    for number in range(count):
        families.add(gauge("kafka.log", "Log", "Size", number, topic="t", partition=str(number)))
    parts = list(encoded(families, TEXT))
    assert max(part.count(b"\n") for part in parts) == LINES_PER_PART
    assert b"".join(parts).count(b"\n") == count + 1


@pytest.mark.parametrize("count", [0, 1, LINES_PER_PART, LINES_PER_PART + 1])
def test_json_in_parts_is_one_document(count: int) -> None:
    beans = [json_bean(gauge("kafka.log", "Log", "Size", number)) for number in range(count)]
    assert len(json.loads(b"".join(json_parts(beans)))["beans"]) == count


def test_a_bean_in_json_has_texts_for_numbers_that_json_lacks() -> None:
    made = bean("d", "T", {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 1.5, "e": "text"})

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(json_bean(made), parse_constant=refuse)
    assert found == {"name": "d:type=T", "a": "NaN", "b": "Infinity", "c": "-Infinity", "d": 1.5, "e": "text"}
