"""Writes the dashboards for Grafana: `python monitoring/make_dashboards.py` writes monitoring/dashboards/*.json.

A dashboard is a list of rows, and a row is a list of panels with their queries. All queries use the names of the
default profile of /metrics. Import a file in Grafana, and choose the data source that has the metrics. This file is
long, because it is mostly a table of panels.
"""
# ruff: noqa: E501  (a query stays on one line)

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "dashboards"
GRID_WIDTH, PANEL_HEIGHT = 24, 8
SCHEMA_VERSION = 39
"""The version of Grafana 10's dashboards. Later versions of Grafana read it too."""

BYTES, BYTES_PER_SECOND, SECONDS, MILLISECONDS = "bytes", "Bps", "s", "ms"
SHARE, COUNT, PER_SECOND, TIME = "percentunit", "short", "cps", "dateTimeFromNow"

# The labels that every query has. $instance is a list of nodes.
J = 'job=~"$job"'
I = 'job=~"$job",instance=~"$instance"'  # noqa: E741 (short, because it is in every line)


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph. `queries` are pairs of a query and the text of its legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    about: str = ""
    is_number: bool = False
    """Whether the panel shows one number in place of a graph."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str], ...] = field(default=())
    """Pairs of a variable and the query of its values."""


def graph(title: str, unit: str, *queries: tuple[str, str], about: str = "") -> Panel:
    return Panel(title, unit, queries, about)


def number(title: str, query: str, unit: str = COUNT, about: str = "") -> Panel:
    return Panel(title, unit, ((query, ""),), about, is_number=True)


CONTROLLER, REPLICAS = "kafka_controller_kafkacontroller", "kafka_server_replicamanager"
TRAFFIC = "kafka_server_brokertopicmetrics"
RATE = "[$__rate_interval]"
ALL = ".+"
"""The value of a variable if all of its values are chosen. It leaves out the sums, which have no label."""


def rates(metric: str, by: str, labels: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}{RATE}))"


def failures(kind: str) -> str:
    """The failed requests of topics. A topic has no metric for them before the first one, so it shows 0."""
    failed = rates(f"{TRAFFIC}_failed{kind}requests_total", "topic", T)
    return f"{failed} or 0 * {rates(f'{TRAFFIC}_total{kind}requests_total', 'topic', T)}"


def quantile(share: float, metric: str, by: str, labels: str) -> str:
    return f"histogram_quantile({share}, sum by ({by}, le) (rate({metric}_bucket{{{labels}}}{RATE})))"


# The nodes.

JOB = ("job", "label_values(kafka_server_kafkaserver_brokerstate, job)")
INSTANCE = ("instance", 'label_values(kafka_server_kafkaserver_brokerstate{job=~"$job"}, instance)')

CLUSTER = Dashboard(
    "kcli-cluster",
    "Kafka cluster",
    "Is the cluster well? Start here.",
    (
        (
            "Health",
            (
                number("Brokers", f"count({REPLICAS}_leadercount{{{J}}})"),
                number(
                    "Active controllers",
                    f"sum({CONTROLLER}_activecontrollercount{{{J}}})",
                    about="1 is right.",
                ),
                number("Offline partitions", f"max({CONTROLLER}_offlinepartitionscount{{{J}}})"),
                number("Under min ISR", f"sum({REPLICAS}_underminisrpartitioncount{{{J}}})"),
                number("Under-replicated", f"sum({REPLICAS}_underreplicatedpartitions{{{J}}})"),
                number(
                    "Offline log directories", f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{J}}})"
                ),
                number("Topics", f"max({CONTROLLER}_globaltopiccount{{{J}}})"),
                number("Partitions", f"max({CONTROLLER}_globalpartitioncount{{{J}}})"),
            ),
        ),
        (
            "Traffic",
            (
                graph(
                    "Messages in",
                    PER_SECOND,
                    (rates(f"{TRAFFIC}_messagesin_total", "instance", f'{J},topic=""'), "{{instance}}"),
                ),
                graph(
                    "Bytes in",
                    BYTES_PER_SECOND,
                    (rates(f"{TRAFFIC}_bytesin_total", "instance", f'{J},topic=""'), "{{instance}}"),
                ),
                graph(
                    "Bytes out",
                    BYTES_PER_SECOND,
                    (rates(f"{TRAFFIC}_bytesout_total", "instance", f'{J},topic=""'), "{{instance}}"),
                ),
                graph(
                    "Bytes of replication",
                    BYTES_PER_SECOND,
                    (rates(f"{TRAFFIC}_replicationbytesin_total", "instance", J), "in {{instance}}"),
                    (rates(f"{TRAFFIC}_replicationbytesout_total", "instance", J), "out {{instance}}"),
                ),
            ),
        ),
        (
            "Requests of all brokers",
            (
                graph(
                    "Requests",
                    PER_SECOND,
                    (rates("kafka_network_requestmetrics_requests_total", "request", J), "{{request}}"),
                ),
                graph(
                    "Time of Produce",
                    SECONDS,
                    *(
                        (
                            quantile(each, "kcli_request_duration_seconds", "api", f'{J},api="Produce"'),
                            f"p{each * 100:g}",
                        )
                        for each in (0.5, 0.99, 0.999)
                    ),
                    about="From histograms, so it is right for the whole cluster.",
                ),
                graph(
                    "Errors",
                    PER_SECOND,
                    (
                        rates("kafka_network_requestmetrics_errors_total", "error", f'{J},error!="NONE"'),
                        "{{error}}",
                    ),
                ),
                graph(
                    "Largest delay of the event loop",
                    SECONDS,
                    (f"max by (instance) (kcli_event_loop_delay_max_seconds{{{J}}})", "{{instance}}"),
                ),
            ),
        ),
        (
            "Replication and metadata",
            (
                graph(
                    "Leaders", COUNT, (f"sum by (instance) ({REPLICAS}_leadercount{{{J}}})", "{{instance}}")
                ),
                graph(
                    "Changes of ISRs",
                    PER_SECOND,
                    (rates(f"{REPLICAS}_isrshrinks_total", "instance", J), "shrinks {{instance}}"),
                    (rates(f"{REPLICAS}_isrexpands_total", "instance", J), "expands {{instance}}"),
                ),
                graph(
                    "Lag of replicas",
                    COUNT,
                    (f"max by (instance) (kafka_server_replicafetchermanager_maxlag{{{J}}})", "{{instance}}"),
                ),
                graph(
                    "Epoch of the quorum",
                    COUNT,
                    (f"max by (instance) (kafka_server_raftmetrics_current_epoch{{{J}}})", "{{instance}}"),
                ),
            ),
        ),
        (
            "Disks and certificates",
            (
                graph(
                    "Free share of the volumes",
                    SHARE,
                    (
                        f"min by (instance, directory) (kcli_log_dir_usable_bytes{{{J}}} / kcli_log_dir_total_bytes{{{J}}})",
                        "{{instance}} {{directory}}",
                    ),
                ),
                graph(
                    "Bytes of all logs",
                    BYTES,
                    (f"sum by (instance) (kcli_broker_size_bytes{{{J}}})", "{{instance}}"),
                ),
                graph(
                    "Days until a certificate ends",
                    "d",
                    (
                        f"min by (listener, subject) (kcli_certificate_expiry_timestamp_seconds{{{J}}} - time()) / 86400",
                        "{{listener}} {{subject}}",
                    ),
                    about="Of the listeners that use TLS.",
                ),
            ),
        ),
    ),
    (JOB,),
)

BROKER = Dashboard(
    "kcli-broker",
    "Kafka broker",
    "Why is a broker slow?",
    (
        (
            "Load",
            (
                graph(
                    "Idle share of the event loop",
                    SHARE,
                    (
                        f"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{I}}}",
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Delay of the event loop",
                    SECONDS,
                    *(
                        (
                            quantile(each, "kcli_event_loop_delay_seconds", "instance", I),
                            f"p{each * 100:g} {{{{instance}}}}",
                        )
                        for each in (0.5, 0.99)
                    ),
                    (f"kcli_event_loop_delay_max_seconds{{{I}}}", "max {{instance}}"),
                ),
                graph(
                    "CPU",
                    "none",
                    (f"rate(process_cpu_seconds_total{{{I}}}{RATE})", "{{instance}}"),
                    about="1 is one CPU.",
                ),
                graph("Memory", BYTES, (f"process_resident_memory_bytes{{{I}}}", "{{instance}}")),
                graph(
                    "Open files",
                    COUNT,
                    (f"process_open_fds{{{I}}}", "{{instance}}"),
                    (f"process_max_fds{{{I}}}", "limit {{instance}}"),
                ),
                graph(
                    "Garbage collections",
                    PER_SECOND,
                    (
                        rates("python_gc_collections_total", "instance, generation", I),
                        "{{instance}} {{generation}}",
                    ),
                ),
            ),
        ),
        (
            "Requests",
            (
                graph(
                    "Requests",
                    PER_SECOND,
                    (rates("kafka_network_requestmetrics_requests_total", "request", I), "{{request}}"),
                ),
                graph(
                    "Total time, p99",
                    SECONDS,
                    (quantile(0.99, "kcli_request_duration_seconds", "api", I), "{{api}}"),
                ),
                graph(
                    "Local time, p99",
                    SECONDS,
                    (quantile(0.99, "kcli_request_local_duration_seconds", "api", I), "{{api}}"),
                    about="The broker works on the request.",
                ),
                graph(
                    "Remote time, p99",
                    MILLISECONDS,
                    (
                        f'kafka_network_requestmetrics_remotetimems{{{I},quantile="0.99"}}',
                        "{{instance}} {{request}}",
                    ),
                    about="The request waits for followers, records or members.",
                ),
                graph(
                    "Slow requests",
                    PER_SECOND,
                    (rates("kcli_request_slow_total", "api", I), "{{api}}"),
                    about="The broker worked on them for more than a second.",
                ),
                graph(
                    "Waiting requests",
                    COUNT,
                    (
                        f'kafka_network_requestchannel_requestqueuesize{{{I},processor=""}}',
                        "requests {{instance}}",
                    ),
                    (
                        f'kafka_network_requestchannel_responsequeuesize{{{I},processor=""}}',
                        "answers {{instance}}",
                    ),
                    (
                        f"kafka_server_delayedoperationpurgatory_purgatorysize{{{I}}}",
                        "{{delayedOperation}} {{instance}}",
                    ),
                ),
            ),
        ),
        (
            "Connections and quotas",
            (
                graph(
                    "Connections",
                    COUNT,
                    (
                        f"sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count{{{I}}})",
                        "{{instance}} {{listener}}",
                    ),
                ),
                graph(
                    "Connections by client software",
                    COUNT,
                    (
                        f"sum by (clientSoftwareName, clientSoftwareVersion) (kafka_server_socket_server_metrics_connections_software{{{I}}})",
                        "{{clientSoftwareName}} {{clientSoftwareVersion}}",
                    ),
                ),
                graph(
                    "Failed logins",
                    PER_SECOND,
                    (
                        rates(
                            "kafka_server_socket_server_metrics_failed_authentication_total",
                            "instance, listener",
                            I,
                        ),
                        "{{instance}} {{listener}}",
                    ),
                ),
                graph(
                    "Throttled by quotas",
                    MILLISECONDS,
                    (
                        f"max by (user, client_id) (kafka_server_produce_throttle_time{{{I}}})",
                        "Produce {{user}} {{client_id}}",
                    ),
                    (
                        f"max by (user, client_id) (kafka_server_fetch_throttle_time{{{I}}})",
                        "Fetch {{user}} {{client_id}}",
                    ),
                    (
                        f"max by (user, client_id) (kafka_server_request_throttle_time{{{I}}})",
                        "Request {{user}} {{client_id}}",
                    ),
                    about="Empty if no client has a quota.",
                ),
            ),
        ),
        (
            "Disk",
            (
                graph(
                    "Time of appends, p99",
                    SECONDS,
                    (quantile(0.99, "kcli_disk_append_seconds", "instance", I), "{{instance}}"),
                ),
                graph(
                    "Time of flushes, p99",
                    MILLISECONDS,
                    (f'kafka_log_logflushstats_logflushrateandtimems{{{I},quantile="0.99"}}', "{{instance}}"),
                ),
                graph(
                    "Bytes of the disk",
                    BYTES_PER_SECOND,
                    (
                        f"rate(kafka_server_kafkaserver_linux_disk_read_bytes{{{I}}}{RATE})",
                        "read {{instance}}",
                    ),
                    (
                        f"rate(kafka_server_kafkaserver_linux_disk_write_bytes{{{I}}}{RATE})",
                        "written {{instance}}",
                    ),
                ),
            ),
        ),
    ),
    (JOB, INSTANCE),
)

T = f'{J},topic=~"$topic"'

TOPIC = Dashboard(
    "kcli-topic",
    "Kafka topics",
    "Traffic, sizes and replicas of topics.",
    (
        (
            "Traffic",
            (
                graph(
                    "Messages in by topic",
                    PER_SECOND,
                    (rates(f"{TRAFFIC}_messagesin_total", "topic", T), "{{topic}}"),
                ),
                graph(
                    "Bytes in by topic",
                    BYTES_PER_SECOND,
                    (rates(f"{TRAFFIC}_bytesin_total", "topic", T), "{{topic}}"),
                ),
                graph(
                    "Bytes out by topic",
                    BYTES_PER_SECOND,
                    (rates(f"{TRAFFIC}_bytesout_total", "topic", T), "{{topic}}"),
                ),
                graph(
                    "Failed requests by topic",
                    PER_SECOND,
                    (failures("produce"), "Produce {{topic}}"),
                    (failures("fetch"), "Fetch {{topic}}"),
                ),
            ),
        ),
        (
            "Sizes",
            (
                graph(
                    "Bytes of topics",
                    BYTES,
                    (f"sum by (topic) (kcli_topic_size_bytes{{{T}}})", "{{topic}}"),
                    about="All replicas together.",
                ),
                graph(
                    "Growth in the last hour",
                    BYTES,
                    (f"sum by (topic) (delta(kcli_topic_size_bytes{{{T}}}[1h]))", "{{topic}}"),
                ),
                graph(
                    "Records that are kept",
                    COUNT,
                    (
                        f"sum by (topic) (kafka_topic_partition_current_offset{{{T}}} - kafka_topic_partition_oldest_offset{{{T}}})",
                        "{{topic}}",
                    ),
                    about="Differences of offsets. A compacted topic has fewer records.",
                ),
                graph(
                    "Largest partition in relation to the average",
                    "none",
                    (
                        f"max by (topic) (kafka_log_log_size{{{T}}}) / (avg by (topic) (kafka_log_log_size{{{T}}}) > 0)",
                        "{{topic}}",
                    ),
                    about="1 means that all partitions have the same size.",
                ),
            ),
        ),
        (
            "Partitions",
            (
                graph("Partitions", COUNT, (f"max by (topic) (kafka_topic_partitions{{{T}}})", "{{topic}}")),
                graph(
                    "Under-replicated",
                    COUNT,
                    (
                        f"sum by (topic) (kafka_topic_partition_under_replicated_partition{{{T}}})",
                        "{{topic}}",
                    ),
                ),
                graph(
                    "Not led by the preferred replica",
                    COUNT,
                    (f"sum by (topic) (1 - kafka_topic_partition_leader_is_preferred{{{T}}})", "{{topic}}"),
                ),
                graph(
                    "Behind the last stable offset",
                    COUNT,
                    (f"max by (topic) (kafka_cluster_partition_laststableoffsetlag{{{T}}})", "{{topic}}"),
                    about="Open transactions keep it above 0.",
                ),
            ),
        ),
    ),
    (JOB, ("topic", 'label_values(kafka_server_brokertopicmetrics_bytesin_total{job=~"$job"}, topic)')),
)

G = f'{J},group=~"$group"'

GROUP = Dashboard(
    "kcli-group",
    "Kafka consumer groups",
    "Which group falls behind, and by how much?",
    (
        (
            "Groups",
            (
                graph(
                    "State",
                    COUNT,
                    (f"max by (group) (kcli_group_status{{{G}}})", "{{group}}"),
                    about="1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.",
                ),
                graph("Lag in records", COUNT, (f"sum by (group) (kcli_group_lag{{{G}}})", "{{group}}")),
                graph(
                    "Lag in seconds",
                    SECONDS,
                    (f"max by (group) (kcli_group_lag_seconds{{{G}}})", "{{group}}"),
                    about="The age of the oldest record that waits.",
                ),
                graph("Members", COUNT, (f"max by (group) (kcli_group_members{{{G}}})", "{{group}}")),
            ),
        ),
        (
            "Partitions",
            (
                graph(
                    "Lag of the ten slowest partitions",
                    COUNT,
                    (
                        f'topk(10, kafka_consumergroup_lag{{{J},consumergroup=~"$group"}})',
                        "{{consumergroup}} {{topic}}-{{partition}}",
                    ),
                ),
                graph(
                    "Time to catch up",
                    SECONDS,
                    (
                        f"max by (group, topic) (kcli_group_partition_catch_up_seconds{{{G}}})",
                        "{{group}} {{topic}}",
                    ),
                    about="At the rates of the last minutes. A group that never catches up has no line.",
                ),
                graph(
                    "Records consumed",
                    PER_SECOND,
                    (
                        f'sum by (consumergroup, topic) (rate(kafka_consumergroup_current_offset{{{J},consumergroup=~"$group"}}{RATE}))',
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                graph(
                    "Time since the last commit",
                    SECONDS,
                    (
                        f"max by (group, topic) (kcli_group_partition_commit_age_seconds{{{G}}})",
                        "{{group}} {{topic}}",
                    ),
                ),
            ),
        ),
    ),
    (JOB, ("group", 'label_values(kcli_group_members{job=~"$job"}, group)')),
)

SPARK = Dashboard(
    "kcli-spark",
    "Spark job on Kafka",
    "A Spark job as the brokers see it, and as its own driver sees it.",
    (
        (
            "On the brokers",
            (
                graph(
                    "Lag of the job",
                    COUNT,
                    (f"sum by (group) (kcli_group_lag{{{G}}})", "{{group}}"),
                    about="For jobs with --transactional-id: it is also the name of the group.",
                ),
                graph(
                    "Age of the oldest record that waits",
                    SECONDS,
                    (f"max by (group) (kcli_group_lag_seconds{{{G}}})", "{{group}}"),
                ),
                graph(
                    "Bytes read and written",
                    BYTES_PER_SECOND,
                    (rates(f"{TRAFFIC}_bytesout_total", "topic", T), "out {{topic}}"),
                    (rates(f"{TRAFFIC}_bytesin_total", "topic", T), "in {{topic}}"),
                ),
                graph(
                    "Open transactions that block consumers",
                    COUNT,
                    (f"max by (topic) (kafka_cluster_partition_laststableoffsetlag{{{T}}})", "{{topic}}"),
                ),
            ),
        ),
        (
            "In the Spark driver",
            (
                graph(
                    "Active tasks",
                    COUNT,
                    ("sum by (application_name) (metrics_executor_activeTasks)", "{{application_name}}"),
                    about="From the job `spark` of prometheus.yml.",
                ),
                graph(
                    "Failed tasks",
                    COUNT,
                    (
                        "sum by (application_name) (metrics_executor_failedTasks_total)",
                        "{{application_name}}",
                    ),
                ),
                graph(
                    "Memory of executors",
                    BYTES,
                    ("sum by (application_name) (metrics_executor_memoryUsed_bytes)", "{{application_name}}"),
                ),
                graph(
                    "Bytes of shuffles",
                    BYTES_PER_SECOND,
                    (
                        f"sum by (application_name) (rate(metrics_executor_totalShuffleRead_bytes_total{RATE}))",
                        "read {{application_name}}",
                    ),
                    (
                        f"sum by (application_name) (rate(metrics_executor_totalShuffleWrite_bytes_total{RATE}))",
                        "written {{application_name}}",
                    ),
                ),
            ),
        ),
    ),
    (
        JOB,
        ("group", 'label_values(kcli_group_members{job=~"$job"}, group)'),
        ("topic", 'label_values(kafka_server_brokertopicmetrics_bytesin_total{job=~"$job"}, topic)'),
    ),
)

DASHBOARDS = (CLUSTER, BROKER, TOPIC, GROUP, SPARK)


# Grafana's JSON.


def grafana(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["kafka", "kcli"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {
                "type": "dashboards",
                "tags": ["kcli"],
                "title": "Kafka",
                "asDropdown": True,
                "includeVars": True,
            }
        ],
        "templating": {"list": [_data_source(), *(_variable(*each) for each in dashboard.variables)]},
        "panels": list(_panels(dashboard)),
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ALL,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    top, identity = 0, 1
    for title, panels in dashboard.rows:
        yield {
            "id": identity,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": _at(0, top, GRID_WIDTH, 1),
        }
        identity, top, left = identity + 1, top + 1, 0
        for panel in panels:
            width, height = (3, 4) if panel.is_number else (8, PANEL_HEIGHT)
            if left + width > GRID_WIDTH:
                left, top = 0, top + height
            yield _panel(panel, identity, _at(left, top, width, height))
            identity, left = identity + 1, left + width
        top += PANEL_HEIGHT


def _at(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel, identity: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": identity,
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "gridPos": place,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": query,
                "legendFormat": legend,
                "exemplar": "_bucket" in query,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def text_of(dashboard: Dashboard) -> str:
    return json.dumps(grafana(dashboard), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for dashboard in DASHBOARDS:
        (DIRECTORY / f"{dashboard.uid.removeprefix('kcli-')}.json").write_text(text_of(dashboard))


if __name__ == "__main__":
    main()
