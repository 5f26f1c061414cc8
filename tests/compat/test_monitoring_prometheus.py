"""A real Prometheus scrapes three nodes with traffic. The queries of all dashboards and alerts must have data."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.testing.broker_process import BrokerProcess, free_port
from kcli.testing.cluster_processes import ClusterProcesses
from rigs.certificates import Certificates, make_certificates
from rigs.public_dashboards import PUBLIC, Public

if TYPE_CHECKING:
    from confluent_kafka import Consumer
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

SPARK_PATH = "/metrics/executors/prometheus"
CONTENT_TYPE = "text/plain;charset=utf-8"
"""The header that the servlet sends."""
# The answer of the Prometheus servlet of a driver of PySpark 4 with `spark.ui.prometheus.enabled=true`. It was recorded
# while a job was running: two tasks were active, one task had failed, and a shuffle was done.
RECORDED = Path(__file__).with_name("spark_driver_metrics.txt")


@contextmanager
def recorded_spark_driver() -> Iterator[str]:
    """Serves the recorded answer, and yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Servlet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Servlet(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = RECORDED.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Writes no line for each request."""


ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
DATA_SECONDS = 60.0
"""The longest wait for data. A rate needs two scrapes, and the lag of a group two samples of the broker."""
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """The addresses that have the metrics of a job, the profile, and the path."""

    targets: Sequence[str]
    profile: str = "default"
    path: str = "/metrics"


class Prometheus:
    """Scrapes each job every second."""

    def __init__(self, directory: Path, jobs: Mapping[str, Job], rules: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        config = {  # JSON is also YAML
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {
                    "job_name": name,
                    "metrics_path": job.path,
                    "params": {"profile": [job.profile]},
                    "static_configs": [{"targets": list(job.targets)}],
                }
                for name, job in jobs.items()
            ],
        }
        directory.mkdir(parents=True)
        (directory / "prometheus.yml").write_text(json.dumps(config))

    def __enter__(self) -> Self:
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.directory / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None and time.monotonic() < until, (
                self.directory / "log"
            ).read_text()
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the HTTP API. Raises AssertionError with the text of an error."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, query: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found = self.get("query", query=query)["result"]
        assert isinstance(found, list)
        return found

    def names(self, job: str) -> set[str]:
        """The names of all metrics of a job."""
        return set(self.get("label/__name__/values", **{"match[]": f'{{job="{job}"}}'}))

    def without_data(self, queries: Collection[str]) -> list[str]:
        """The queries that have no data at the same time, after a wait of at most DATA_SECONDS."""
        return wait_until_empty(lambda: [query for query in queries if not self.query(query)])

    def without_names(self, job: str, names: Collection[str]) -> list[str]:
        """The names that no metric of a job has, after a wait of at most DATA_SECONDS."""
        return wait_until_empty(lambda: sorted(set(names) - self.names(job)))


def wait_until_empty(missing: Callable[[], list[str]]) -> list[str]:
    """The last result of `missing`: an empty list, or what is still missing after DATA_SECONDS."""
    until = time.monotonic() + DATA_SECONDS
    while (found := missing()) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return found


pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")

MONITORING = ROOT / "monitoring"
HISTORY_RECORDS, HISTORY_RECORDS_READ = 10_000, 10
"""The records of the topic `history`, and those that its reader takes at a time, so that it has lag during the test."""
VARIABLES = {"$job": "kafka", "$__rate_interval": "15s"}  # every other variable stands for `all`
ALL = ".+"
"""The value of a variable if all of its values are chosen in Grafana."""
_PROFILES = ("default", "confluent", "reporter")
_BUSY = "request_percentage=0.01"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus with traffic, until every panel has data. The jobs have the names of the profiles."""
    directory = tmp_path_factory.mktemp("monitoring")
    settings = {
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "min.insync.replicas": "2",
    }
    cluster = ClusterProcesses(directory / "cluster", nodes=3, overrides=settings)
    _add_tls(cluster.nodes[1], make_certificates(str(directory)))
    targets = []
    for node in cluster.nodes.values():
        targets.append(f"127.0.0.1:{free_port()}")
        node.overrides["kcli.metrics.listener"] = targets[-1]
    with cluster, recorded_spark_driver() as driver:
        jobs = {("kafka" if name == "default" else name): Job(targets, name) for name in _PROFILES}
        jobs["spark"] = Job([driver], path=SPARK_PATH)
        scraping = Prometheus(directory / "prometheus", jobs, MONITORING / "alerts.yml")
        with scraping as running, _traffic(cluster.bootstrap):
            running.without_data([query for _, _, query in _panels()])
            yield running


def _add_tls(node: BrokerProcess, certificates: Certificates) -> None:
    """Adds the listener TLS to a node, so that it shows a certificate."""
    properties, listener = node.properties, f"TLS://127.0.0.1:{free_port()}"
    for key in ("listeners", "advertised.listeners"):
        node.overrides[key] = f"{properties[key]},{listener}"
    protocols = "listener.security.protocol.map"
    node.overrides[protocols] = f"{properties[protocols]},TLS:SSL"
    node.overrides |= certificates.broker_config()


@contextmanager
def _traffic(bootstrap: str) -> Iterator[None]:
    """Clients that produce, consume and ask, some of them over their quotas and with errors."""
    _prepare(bootstrap)
    stop = threading.Event()
    threads = [
        threading.Thread(target=work, args=(bootstrap, stop))
        for work in (_produce, _produce_without_keys, _consume, _catch_up, _ask)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _prepare(bootstrap: str) -> None:
    """Makes the topics, the records of the topic `history`, and quotas that clients exceed."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    from kcli.cli.main import run

    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = NewTopic("compacted", 1, 3, config={"cleanup.policy": "compact"})
    topics = [NewTopic("orders", 6, 3), NewTopic("history", 1, 3), compacted]
    for created in admin.create_topics(topics).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(HISTORY_RECORDS):
        producer.produce("history", b"1")
    assert not producer.flush(30)
    for client_id, quota in (("metered", "producer_byte_rate=200,consumer_byte_rate=200"), ("busy", _BUSY)):
        assert not run(
            [
                *("configs", "--bootstrap-server", bootstrap, "--alter", "--add-config", quota),
                *("--entity-type", "clients", "--entity-name", client_id),
            ]
        )


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


def _produce_without_keys(bootstrap: str, stop: threading.Event) -> None:
    """Sends records that a compacted topic refuses."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    while not stop.wait(0.5):
        producer.produce("compacted", b"1")
        assert not producer.flush(30)


def _consume(bootstrap: str, stop: threading.Event) -> None:
    readers = [_reader(bootstrap, "readers", "reader"), _reader(bootstrap, "others", "metered")]
    for reader in readers:
        reader.subscribe(["orders"])
    while not stop.is_set():
        for reader in readers:
            reader.consume(5, 0.2)
    for reader in readers:
        reader.close()


def _catch_up(bootstrap: str, stop: threading.Event) -> None:
    """Reads a topic slowly, to which nothing is produced meanwhile."""
    reader = _reader(bootstrap, "late", "late")
    reader.subscribe(["history"])
    while not stop.wait(0.2):
        reader.consume(HISTORY_RECORDS_READ, 0.2)
    reader.close()


def _reader(bootstrap: str, group: str, client_id: str) -> Consumer:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )


def _panels() -> Iterator[tuple[str, str, str]]:
    """The dashboard, the title and the query of each panel."""
    for file in sorted((MONITORING / "dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield file.stem, panel["title"], _filled(target["expr"])


def _filled(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return re.sub(r"\$\w+", ALL, query)


def test_each_query_of_our_dashboards_has_data(prometheus: Prometheus) -> None:
    panels = {query: f"{dashboard}: {title}: {query}" for dashboard, title, query in _panels()}
    assert [panels[query] for query in prometheus.without_data(panels)] == []


# Panels whose figures are 0 in a cluster without the events that move them.
MOVED = {
    "a certificate that is valid": "min(kcli_certificate_expiry_timestamp_seconds - time()) > 0",
    "failed requests": (
        'sum(rate(kafka_server_brokertopicmetrics_failedproducerequests_total{topic="compacted"}[15s])) > 0'
    ),
    "a group that catches up": 'kcli_group_partition_catch_up_seconds{group="late"} > 0',
    "tasks of Spark": 'sum(metrics_executor_activeTasks{job="spark"}) > 0',
    "failed tasks of Spark": 'sum(metrics_executor_failedTasks_total{job="spark"}) > 0',
    "shuffles of Spark": 'sum(metrics_executor_totalShuffleWrite_bytes_total{job="spark"}) > 0',
}


@pytest.mark.parametrize("query", MOVED.values(), ids=MOVED.keys())
def test_the_cluster_has_what_a_panel_is_for(prometheus: Prometheus, query: str) -> None:
    assert prometheus.without_data([query]) == []


def test_each_alert_is_evaluated_and_reads_metrics_that_exist(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 20
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    names = prometheus.names("kafka")
    for rule in rules:
        for name in set(re.findall(r"\b(?:kafka|kcli)_[a-z_]+", re.sub(r"\{.*?\}", "", rule["query"]))):
            assert name in names, f"{rule['name']} reads {name}"
        for pattern in re.findall(r'__name__=~"(.*?)"', rule["query"]):
            assert any(re.fullmatch(pattern, name) for name in names), f"{rule['name']} reads {pattern}"


def test_a_cluster_that_is_well_has_no_alert_that_pages(prometheus: Prometheus) -> None:
    alerts = prometheus.query('ALERTS{alertstate="firing",severity="page"}')
    assert [each["metric"]["alertname"] for each in alerts] == []


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.title)
def test_the_names_of_public_dashboards(prometheus: Prometheus, public: Public) -> None:
    job = "kafka" if public.profile == "default" else public.profile
    assert prometheus.without_names(job, set(public.expanded()) - set(public.empty)) == []
    assert not public.empty.keys() & prometheus.names(job), "a name of `empty` has data"


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
    assert prometheus.without_data([query]) == [], job


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
