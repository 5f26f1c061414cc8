"""A real Prometheus scrapes three nodes with traffic. The queries of all dashboards and alerts must have data."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.testing.broker_process import free_port
from kcli.testing.cluster_processes import ClusterProcesses
from rigs.prometheus import ROOT, Prometheus
from rigs.public_dashboards import PUBLIC, Public

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")

MONITORING = ROOT / "monitoring"
TRAFFIC_SECONDS = 25
"""Long enough for two samples of the lag, which is sampled every 10 s."""
VARIABLES = {"$job": "kafka", "$__rate_interval": "15s"}  # every other variable stands for `all`

# Panels that are empty here, and why.
EMPTY = {
    "Days until a certificate ends": "no listener uses TLS",
    "Failed requests by topic": "no request failed because of the broker",
    "Time to catch up": "there may be no lag, or it may never end",
    "Active tasks": "there is no Spark driver",
    "Failed tasks": "there is no Spark driver",
    "Memory of executors": "there is no Spark driver",
    "Bytes of shuffles": "there is no Spark driver",
}
# Metrics of alerts that are absent here, and why.
ABSENT = {
    "kcli_certificate_expiry_timestamp_seconds": "no listener uses TLS",
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus after some seconds of traffic. The jobs have the names of the profiles."""
    directory = tmp_path_factory.mktemp("monitoring")
    settings = {
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "min.insync.replicas": "2",
    }
    cluster = ClusterProcesses(directory / "cluster", nodes=3, overrides=settings)
    targets = []
    for node in cluster.nodes.values():
        targets.append(f"127.0.0.1:{free_port()}")
        node.overrides["kcli.metrics.listener"] = targets[-1]
    jobs = {("kafka" if name == "default" else name): (targets, name) for name in _PROFILES}
    with cluster, Prometheus(directory / "prometheus", jobs, MONITORING / "alerts.yml") as running:
        stop = threading.Event()
        _prepare(cluster.bootstrap)
        threads = [
            threading.Thread(target=work, args=(cluster.bootstrap, stop))
            for work in (_produce, _consume, _ask)
        ]
        for thread in threads:
            thread.start()
        time.sleep(TRAFFIC_SECONDS)
        yield running
        stop.set()
        for thread in threads:
            thread.join()


_PROFILES = ("default", "confluent", "reporter")


def _prepare(bootstrap: str) -> None:
    """Makes the topic, and a quota that the producer exceeds."""
    from confluent_kafka.admin import AdminClient, NewTopic

    from kcli.cli.main import run

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result(30)
    for client_id, quota in (("metered", "producer_byte_rate=200,consumer_byte_rate=200"), ("busy", _BUSY)):
        assert not run(
            [
                *("configs", "--bootstrap-server", bootstrap, "--alter", "--add-config", quota),
                *("--entity-type", "clients", "--entity-name", client_id),
            ]
        )


_BUSY = "request_percentage=0.01"


def _ask(bootstrap: str, stop: threading.Event) -> None:
    """Sends small requests, and exceeds the quota of its client id."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "busy"})
    while not stop.wait(0.2):
        admin.list_topics(timeout=30)


def _produce(bootstrap: str, stop: threading.Event) -> None:
    from confluent_kafka import Producer

    metered = Producer({"bootstrap.servers": bootstrap, "client.id": "metered", "linger.ms": 20})
    free = Producer({"bootstrap.servers": bootstrap, "client.id": "free", "linger.ms": 20})
    while not stop.wait(0.05):
        for producer, size in ((metered, 100), (free, 20)):
            producer.produce("orders", bytes(size))
            producer.poll(0)
    metered.purge()
    free.flush(10)


def _consume(bootstrap: str, stop: threading.Event) -> None:
    from confluent_kafka import Consumer

    readers = [
        Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": client_id,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
            }
        )
        for group, client_id in (("readers", "reader"), ("others", "metered"))
    ]
    for reader in readers:
        reader.subscribe(["orders"])
    while not stop.is_set():
        for reader in readers:
            reader.consume(5, 0.2)
    for reader in readers:
        reader.close()


def _panels() -> Iterator[tuple[str, str, str]]:
    """The dashboard, the title and the query of each panel."""
    for file in sorted((MONITORING / "dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield file.stem, panel["title"], _filled(target["expr"])


def _filled(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return re.sub(r"\$\w+", ".*", query)


def test_each_query_of_our_dashboards_has_data(prometheus: Prometheus) -> None:
    empty = [
        f"{dashboard}: {title}: {query}"
        for dashboard, title, query in _panels()
        if not prometheus.query(query) and title not in EMPTY
    ]
    assert not empty, "\n".join(empty)


def test_each_alert_is_evaluated_and_reads_metrics_that_exist(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 20
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    names = prometheus.names("kafka")
    for rule in rules:
        for name in set(re.findall(r"\b(?:kafka|kcli)_[a-z_]+", re.sub(r"\{.*?\}", "", rule["query"]))):
            assert name in names or name in ABSENT, f"{rule['name']} reads {name}"
        for pattern in re.findall(r'__name__=~"(.*?)"', rule["query"]):
            has_data = any(re.fullmatch(pattern, name) for name in names)
            assert has_data or pattern in ABSENT, f"{rule['name']} reads {pattern}"


def test_a_cluster_that_is_well_has_no_alert_that_pages(prometheus: Prometheus) -> None:
    alerts = prometheus.query('ALERTS{alertstate="firing",severity="page"}')
    assert [each["metric"]["alertname"] for each in alerts] == []


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.title)
def test_the_names_of_public_dashboards(prometheus: Prometheus, public: Public) -> None:
    found = prometheus.names("kafka" if public.profile == "default" else public.profile)
    missing = [name for name in public.expanded() if name not in found and name not in public.empty]
    assert not missing, f"{missing} have no data"
    assert not [name for name in public.empty if name in found], "a name of `empty` has data"


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.title)
def test_the_documentation_lists_what_stays_empty(public: Public) -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {public.title} |")]
    assert public.profile in row or "program" in row
    for name in public.empty:
        families = [f"`{name[: place + 1]}*`" for place, each in enumerate(name) if each == "_"]
        assert any(each in text for each in (f"`{name}`", *families)), f"{name} is not explained"


# Queries of public dashboards whose labels matter, by job.
LABELS = [
    ("kafka", 'sum(rate(kafka_server_brokertopicmetrics_bytesin_total{topic!=""}[15s]))'),
    ("kafka", 'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}'),
    ("kafka", 'kafka_server_raftmetrics_current_state{current_state="leader"}'),
    ("kafka", "sum by (clientSoftwareName) (kafka_server_socket_server_metrics_connections_software)"),
    ("kafka", 'sum(kafka_consumergroup_lag{consumergroup="readers"}) by (consumergroup, topic)'),
    ("confluent", 'kafka_server_replicafetchermanager_maxlag{clientid="Replica"}'),
    ("confluent", 'kafka_network_requestmetrics_totaltimems{request="FetchConsumer",quantile="0.99"}'),
    ("confluent", 'kafka_server_produce_throttle_time{client_id="metered"} > 0'),
    ("confluent", "sum by (client_software_name) (kafka_server_socketservermetrics_connections)"),
    ("reporter", 'kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.5"}'),
    ("kafka", 'kafka_server_BrokerTopicMetrics_FifteenMinuteRate{name="BytesOutPerSec",topic="orders"}'),
]


@pytest.mark.parametrize(("job", "query"), LABELS)
def test_the_labels_of_public_dashboards(prometheus: Prometheus, job: str, query: str) -> None:
    assert prometheus.query(query), f"{job}: {query}"


def test_figures_of_the_cluster_count_nothing_twice(prometheus: Prometheus) -> None:
    for query, value in (
        ('sum(kafka_brokers{job="kafka"})', 3),
        ('count(kafka_broker_info{job="kafka"})', 3),
        ('sum(kafka_topic_partitions{job="kafka",topic="orders"})', 6),
        ('count(kafka_topic_partition_current_offset{job="kafka",topic="orders"})', 6),
        ('count(kafka_consumergroup_members{job="kafka",consumergroup="readers"})', 1),
    ):
        (found,) = prometheus.query(query)
        assert float(found["value"][1]) == value, query


def test_the_committed_dashboards_are_those_of_the_generator(tmp_path: Path) -> None:
    import runpy

    made = runpy.run_path(str(MONITORING / "make_dashboards.py"))
    for dashboard in made["DASHBOARDS"]:
        file = MONITORING / "dashboards" / f"{dashboard.uid.removeprefix('kcli-')}.json"
        assert file.read_text() == made["text_of"](dashboard), f"run {MONITORING / 'make_dashboards.py'}"
