"""Beans as text, and the traffic that they come from."""

from __future__ import annotations

import json

from kcli.errors import (
    CorruptRecordException,
    ErrorCode,
    InvalidRecordException,
    RecordTooLargeException,
    UnknownServerException,
)
from kcli.server.beans.bean import bean, gauge
from kcli.server.beans.exposition import PrometheusText, json_bean
from kcli.server.metrics.meters import Histogram, Meter
from kcli.server.metrics.traffic import TrafficTable


def text_of(*beans: object) -> list[str]:
    text = PrometheusText()
    for each in beans:
        text.add(each)
    return "".join(text.blocks()).splitlines()


def meter(count: int) -> dict[str, str | int | float]:
    made = Meter(0.0)
    made.count = count
    return made.attributes("messages", 1.0)


def test_meters_are_counters_and_stand_together() -> None:
    lines = text_of(
        bean("kafka.server", "BrokerTopicMetrics", meter(3), "MessagesInPerSec"),
        gauge("kafka.server", "ReplicaManager", "PartitionCount", 7),
        bean("kafka.server", "BrokerTopicMetrics", meter(2), "MessagesInPerSec", topic="a"),
    )
    assert lines == [
        "# TYPE kafka_server_brokertopicmetrics_messagesin_total counter",
        "kafka_server_brokertopicmetrics_messagesin_total 3",
        'kafka_server_brokertopicmetrics_messagesin_total{topic="a"} 2',
        "# TYPE kafka_server_replicamanager_partitioncount gauge",
        "kafka_server_replicamanager_partitioncount 7",
    ]


def test_histograms_are_summaries() -> None:
    histogram = Histogram(0.0)
    histogram.fold([4.0] * 10, 0.0)
    lines = text_of(
        bean("kafka.network", "RequestMetrics", histogram.attributes(), "TotalTimeMs", request="Fetch")
    )
    assert lines[0] == "# TYPE kafka_network_requestmetrics_totaltimems summary"
    assert 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 4' in lines
    assert lines[-2:] == [
        'kafka_network_requestmetrics_totaltimems_sum{request="Fetch"} 40',
        'kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 10',
    ]


def test_attributes_are_metrics_and_words_are_labels() -> None:
    lines = text_of(bean("kafka.server", "raft-metrics", {"current-epoch": 3, "current-state": "leader"}))
    assert lines == [
        "# TYPE kafka_server_raft_metrics_current_epoch gauge",
        "kafka_server_raft_metrics_current_epoch 3",
        "# TYPE kafka_server_raft_metrics_info gauge",
        'kafka_server_raft_metrics_info{current_state="leader"} 1',
    ]


def test_labels_are_escaped_and_names_quoted() -> None:
    odd = gauge("kafka.log", "LogManager", "LogDirectoryOffline", 0, logDirectory='/a "b",c')
    assert odd.object_name == r'kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="/a \"b\",c"'
    assert text_of(odd)[1] == r'kafka_log_logmanager_logdirectoryoffline{logDirectory="/a \"b\",c"} 0'
    assert json.loads(json_bean(odd)) == {"name": odd.object_name, "Value": 0}


def test_the_total_never_falls_when_a_topic_goes() -> None:
    table = TrafficTable()
    table.of("a").messages_in += 5
    table.of("b").messages_in += 2
    table.forget("a")
    table.forget("never was")
    assert (table.total().messages_in, list(table.topics)) == (7, ["b"])
    assert table.of("a").messages_in == 0, "a new topic of that name begins anew"


def test_only_what_a_broker_should_not_fail_at_is_a_failure() -> None:
    table = TrafficTable()
    table.of("a")
    table.produce_failed("a", RecordTooLargeException(), 900)
    table.produce_failed("a", CorruptRecordException(), 100)
    table.produce_failed("a", InvalidRecordException(), 100)
    table.produce_failed("not there", UnknownServerException(), 100)
    table.fetch_failed("a", ErrorCode.OFFSET_OUT_OF_RANGE)
    table.fetch_failed("a", ErrorCode.UNKNOWN_SERVER_ERROR)
    traffic = table.topics["a"]
    assert list(table.topics) == ["a"], "a client may name what it likes"
    assert (traffic.bytes_rejected, traffic.corrupt_batches) == (900, 1)
    assert (traffic.failed_produces, table.total().failed_produces, traffic.failed_fetches) == (1, 2, 1)
