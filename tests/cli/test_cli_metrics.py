"""A broker's metrics after known traffic, and the tools that show them: jmx, and top on a pipe and on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess, free_port

RECORDS, SIZE = 300, 50
SERVER = "kafka.server:type=BrokerTopicMetrics,name="


class Measured(NamedTuple):
    """A broker, the port of its endpoint, and its beans when the traffic was over: to look at it is traffic too."""

    broker: BrokerProcess
    port: int
    beans: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A broker whose endpoint is opened by the environment, as Kafka's is, and some traffic on it.

    Topic `traffic` of two partitions got RECORDS records; `reader` has read a third of them and committed.
    """
    port = free_port()
    os.environ["JMX_PORT"] = str(port)
    try:
        broker = BrokerProcess(
            tmp_path_factory.mktemp("measured"),
            {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"},
        ).start()
    finally:
        del os.environ["JMX_PORT"]
    with broker:
        _make_traffic(broker)
        yield Measured(broker, port, _beans(port))


def _make_traffic(broker: BrokerProcess) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("traffic", 2, 1)])["traffic"].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce("traffic", bytes(SIZE), partition=number % 2)
    assert producer.flush(30) == 0
    with contextlib.closing(
        Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    ) as consumer:
        consumer.assign([TopicPartition("traffic", 0, 0)])
        read = 0
        while read < RECORDS // 2:
            read += len(consumer.consume(RECORDS, 1.0))
        consumer.commit(offsets=[TopicPartition("traffic", 0, 100)], asynchronous=False)


def _get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def _beans(port: int, query: str = "*:*") -> dict[str, dict[str, Any]]:
    beans = json.loads(_get(port, f"/jmx?qry={query}"))["beans"]
    return {bean.pop("name"): bean for bean in beans}


def test_counts_are_those_of_the_traffic(measured: Measured) -> None:
    beans = measured.beans
    assert beans[f"{SERVER}MessagesInPerSec,topic=traffic"]["Count"] == RECORDS
    bytes_in = beans[f"{SERVER}BytesInPerSec,topic=traffic"]["Count"]
    sizes = [beans[f"kafka.log:type=Log,name=Size,topic=traffic,partition={n}"]["Value"] for n in (0, 1)]
    assert bytes_in == sum(sizes), "every byte of the log came in"
    # Partition 0 was read once, whole; the other was not read.
    assert beans[f"{SERVER}BytesOutPerSec,topic=traffic"]["Count"] == sizes[0]
    assert beans[f"{SERVER}MessagesInPerSec"]["Count"] > RECORDS, "the commit is a record too"
    assert beans["kafka.log:type=Log,name=LogEndOffset,topic=traffic,partition=1"]["Value"] == RECORDS // 2
    assert beans["kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"]["Value"] == 0
    assert beans["kafka.controller:type=KafkaController,name=ActiveControllerCount"]["Value"] == 1
    assert beans["kafka.controller:type=KafkaController,name=GlobalTopicCount"]["Value"] == 2
    assert beans["kafka.server:type=group-coordinator-metrics,protocol=classic"]["group-count"] == 1
    assert beans["kafka.server:type=raft-metrics"]["current-state"] == "leader"


def test_requests_are_counted_once_each(measured: Measured) -> None:
    beans = _beans(measured.port, "kafka.network:type=RequestMetrics,request=Produce,*")
    requests = [bean["Count"] for name, bean in beans.items() if "name=RequestsPerSec" in name]
    assert requests == [beans["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce"]["Count"]]
    total = beans["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce"]
    assert 0 < total["50thPercentile"] <= total["99thPercentile"] <= total["Max"]


def test_refused_records_are_counted(measured: Measured) -> None:
    from confluent_kafka import KafkaException, Producer

    broker, port, _ = measured
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 3_000_000})
    outcome: list[object] = []
    producer.produce(
        "traffic", bytes(2_000_000), partition=0, on_delivery=lambda error, _: outcome.append(error)
    )
    with contextlib.suppress(KafkaException):
        producer.flush(30)
    assert outcome and outcome[0] is not None
    beans = _beans(port)
    assert beans[f"{SERVER}BytesRejectedPerSec,topic=traffic"]["Count"] > 2_000_000
    errors = "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=MESSAGE_TOO_LARGE"
    assert beans[errors]["Count"] == 1
    assert beans[f"{SERVER}MessagesInPerSec,topic=traffic"]["Count"] == RECORDS


def test_prometheus_text_is_well_formed(measured: Measured) -> None:
    text = _get(measured.port, "/metrics")
    assert f'kafka_server_brokertopicmetrics_messagesin_total{{topic="traffic"}} {RECORDS}\n' in text
    sample = re.compile(
        r'[a-zA-Z_][a-zA-Z0-9_]*(\{[a-zA-Z_]+="[^"]*"(,[a-zA-Z_]+="[^"]*")*\})? ([-0-9.e+]+|NaN)'
    )
    seen: set[str] = set()
    metric = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            metric = line.split()[2]
            assert metric not in seen, f"{metric} does not stand together"
            seen.add(metric)
        else:
            assert sample.fullmatch(line), line
            assert line.startswith(metric), line


def _jmx(capsys: pytest.CaptureFixture[str], port: int, *words: str) -> tuple[int, str, str]:
    code = run(["jmx", "--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_jmx_prints_each_report_format(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    port = measured.port
    name = f"{SERVER}MessagesInPerSec,topic=traffic"
    once = ("--object-name", name, "--attributes", "Count,RateUnit", "--one-time", "--date-format", "'now'")
    code, out, err = _jmx(capsys, port, *once)
    assert (code, out) == (0, f'"time","{name}:Count","{name}:RateUnit"\nnow,{RECORDS},SECONDS\n')
    assert err == f"Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi\n"
    for format_, expected in (
        ("properties", f"time=now\n{name}:Count={RECORDS}\n{name}:RateUnit=SECONDS\n"),
        ("CSV", f'time,"now"\n{name}:Count,"{RECORDS}"\n{name}:RateUnit,"SECONDS"\n'),
        ("tsv", f"time\tnow\n{name}:Count\t{RECORDS}\n{name}:RateUnit\tSECONDS\n"),
    ):
        assert _jmx(capsys, port, *once, "--report-format", format_)[1] == expected
    row = json.loads(_jmx(capsys, port, *once, "--output", "json")[1])
    assert row == {"time": "now", f"{name}:Count": RECORDS, f"{name}:RateUnit": "SECONDS"}


def test_jmx_finds_objects_by_pattern(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    port = measured.port
    pattern = ("--object-name", "kafka.log:type=Log,name=LogEndOffset,topic=traffic,*")
    code, out, _ = _jmx(capsys, port, *pattern, "--reporting-interval", "-1", "--report-format", "properties")
    assert code == 0
    assert out.startswith("time=")
    assert re.findall(r"partition=(\d):Value=(\d+)", out) == [("0", "150"), ("1", "150")]
    code, out, err = _jmx(capsys, port, "--object-name", "no.such:type=Thing", "--one-time")
    assert (code, out) == (1, "")
    assert err.endswith("No matched attributes for the queried objects [no.such:type=Thing].\n")
    assert _jmx(capsys, port, "--object-name", "nonsense")[2] == (
        "javax.management.MalformedObjectNameException: Domain part must be specified (--object-name nonsense)\n"
    )


def test_jmx_waits_for_what_is_missing(
    measured: Measured, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.cli.tools.jmx.WAIT_MAX_MS", 300)
    there = ("--object-name", "kafka.server:type=KafkaServer,name=BrokerState", "--wait", "--one-time")
    assert _jmx(capsys, measured.port, *there)[0] == 0
    code, out, err = _jmx(capsys, measured.port, *there, "--object-name", "no.such:type=Thing")
    assert (code, out) == (1, "")
    assert "Could not find all object names, retrying\n" in err
    assert err.endswith(
        "Could not find all requested object names after 300 ms. Missing no.such:type=Thing\n"
    )


def test_jmx_tries_to_connect_for_a_while(
    measured: Measured, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.cli.tools.jmx.CONNECT_MAX_MS", 200)
    code, out, err = _jmx(capsys, free_port(), "--one-time")
    assert (code, out) == (1, "")
    assert err.count("Could not connect to JMX url: ") > 1
    assert err.endswith("after 200 ms.\n")


def test_jmx_gives_up_at_a_port_without_http(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _jmx(capsys, measured.broker.port, "--one-time")
    assert (code, out) == (1, "")
    assert err.count("Trying to connect to JMX url: ") == 1
    assert "does not speak HTTP" in err


def test_top_once_prints_topics_groups_and_brokers(
    measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["top", "--bootstrap-server", measured.broker.bootstrap, "--once", "--interval", "0.2"]
    assert run(words) == 0
    text = capsys.readouterr().out
    assert re.search(r"^traffic +2 +0 +0 B +.* +300$", text, re.MULTILINE)
    assert "PARTITIONS IN TROUBLE" not in text
    assert run([*words, "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (group,) = [row for row in rows if row["table"] == "group"]
    assert (group["group"], group["lag"], group["partitions"]) == ("reader", 50, 1)
    assert 0 < group["lag_seconds"] < 600
    (broker,) = [row for row in rows if row["table"] == "broker"]
    assert (broker["broker"], broker["leaders"], broker["is_controller"]) == (1, 4, True)
    assert broker["requests"] > 0 and broker["memory_bytes"] > 10_000_000
    assert broker["why_not"] == ""


def test_top_without_metrics_lives_by_offsets(measured: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    broker = measured.broker
    nowhere = f"127.0.0.1:{free_port()}"
    words = [
        "top",
        "--bootstrap-server",
        broker.bootstrap,
        "--once",
        "--interval",
        "0.2",
        "--metrics",
        nowhere,
    ]
    assert run([*words, "--topic", "traffic", "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (topic,) = [row for row in rows if row["table"] == "topic"]
    assert (topic["messages_in"], topic["bytes_in"], topic["records"]) == (0.0, None, RECORDS)
    (shown,) = [row for row in rows if row["table"] == "broker"]
    assert shown["why_not"].startswith(f"{nowhere}: ")


class Terminal:
    """`kcli top` on its own terminal."""

    def __init__(self, *words: str, columns: int, rows: int) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, "-m", "kcli", "top", *words])
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.mode = termios.tcgetattr(self.file)
        self.shown = b""

    def read_until(self, condition: Callable[[bytes], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition(self.shown):
            assert time.monotonic() < deadline, self.shown[-2000:]
            if select.select([self.file], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.shown += os.read(self.file, 65536)

    def ended(self) -> int:
        """The exit code; the mode of the terminal is looked at while it is still open."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([self.file], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.shown += os.read(self.file, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"it did not end: {self.shown[-2000:]!r}")


ALTERNATE, MAIN, SHOW_CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


@pytest.mark.parametrize("end", ["q", "ctrl-c", "kill"])
def test_top_on_a_terminal(measured: Measured, end: str) -> None:
    """It lives on the alternate screen, and leaves no trace of itself."""
    terminal = Terminal(
        "--bootstrap-server", measured.broker.bootstrap, "--interval", "0.3", columns=60, rows=16
    )
    try:
        terminal.read_until(lambda shown: b"traffic" in shown and b"reader" in shown)
        os.write(terminal.file, b"s+")
        terminal.read_until(lambda shown: b"every 0.6 s" in shown and b"sorted by in" in shown)
        match end:
            case "q":
                os.write(terminal.file, b"q")
            case "ctrl-c":
                os.write(terminal.file, b"\x03")
            case _:
                os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.ended() == 0
        assert (terminal.shown.count(ALTERNATE), terminal.shown.count(MAIN)) == (1, 1)
        assert terminal.shown.rfind(SHOW_CURSOR) > terminal.shown.rfind(b"traffic")
        assert termios.tcgetattr(terminal.file)[3] == terminal.mode[3], "echo and lines are as they were"
        assert b"Traceback" not in terminal.shown
    finally:
        os.close(terminal.file)


def test_top_shows_an_unreachable_cluster(measured: Measured) -> None:
    del measured
    nowhere = f"127.0.0.1:{free_port()}"
    terminal = Terminal("--bootstrap-server", nowhere, "--timeout", "500", columns=80, rows=24)
    try:
        terminal.read_until(lambda shown: f"{nowhere}: ".encode() in shown)
        os.write(terminal.file, b"q")
        assert terminal.ended() == 0
    finally:
        os.close(terminal.file)


def test_no_endpoint_unless_asked_for(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["top", "--bootstrap-server", broker.bootstrap, "--once", "--interval", "0.2", "--output", "json"]
    assert run(words) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (row,) = [row for row in rows if row["table"] == "broker"]
    assert row["why_not"] == "kcli.metrics.listener is not set"


def test_a_port_that_is_taken_is_reported(tmp_path: Path, broker: BrokerProcess) -> None:
    second = BrokerProcess(tmp_path, {"kcli.metrics.listener": broker.bootstrap})
    with pytest.raises(RuntimeError, match=r"address already in use"):
        second.start()
