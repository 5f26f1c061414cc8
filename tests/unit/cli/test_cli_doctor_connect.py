"""`kcli doctor --connect`: the worker, its protocol and login, and the connectors that do not run."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.local_cluster.ports import free_port
from rigs.certificates import make_certificates
from rigs.connect_rest import ConnectApi, connect_api

JAVA = "org.apache.kafka.connect.errors.ConnectException: "


@pytest.fixture
def api() -> Iterator[ConnectApi]:
    with connect_api() as served:
        yield served


def doctor(url: str, capsys: pytest.CaptureFixture[str], *, code: int = 1) -> list[str]:
    """The findings that are not ok, each as `step subject: text -> advice`."""
    assert run(["doctor", "--connect", url, "--output", "json"]) == code
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [
        f"{one['step']} {one['subject'].replace(url, 'URL')}: {one['text']} -> {one['advice']}"
        for one in findings
        if one["status"] != "OK"
    ]


def test_connectors_that_run_are_one_line(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.has("a", "RUNNING", "RUNNING")
    api.has("b", "RUNNING")
    api.has("c", connector="STOPPED")
    api.has("d\x1b", "PAUSED", connector="PAUSED")
    assert run(["doctor", "--connect", api.url]) == 0
    assert capsys.readouterr().out == (
        f"ok       worker       {api.url}: the worker runs, version 4.1.0, cluster c\n"
        "ok       connector    c: STOPPED, because a user asked for it\n"
        "ok       connector    d\\x1b: PAUSED, because a user asked for it\n"
        f"ok       connector    {api.url}: 2 connectors with 3 tasks run\n"
    )


def test_a_connector_without_a_worker_or_without_tasks_is_a_warning(
    api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.has("gone", "UNASSIGNED", connector="UNASSIGNED")
    api.has("idle")
    api.has("part", "RUNNING", "UNASSIGNED")
    gone, idle, part = doctor(api.url, capsys, code=0)
    assert gone.startswith("connector gone: UNASSIGNED: no worker runs the connector -> a worker has left")
    assert "scheduled.rebalance.max.delay.ms, 5 minutes by default" in gone
    assert idle.startswith("connector idle: RUNNING without tasks")
    assert part.startswith("task part task 1: UNASSIGNED: no worker runs it")
    api.answers["GET /rebalance"] = (200, {"delay_ms": 7400})
    assert "take over its work in 7 s, because of" in doctor(api.url, capsys, code=0)[0]


def test_a_worker_that_is_gone_is_named(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    """A worker that was killed leaves the states of its tasks as they were."""
    api.worker = gone = f"127.0.0.1:{free_port()}"
    api.has("a", "RUNNING", "RUNNING")
    assert doctor(api.url, capsys, code=0) == [], (
        "no address of a worker answers, so they are for other workers"
    )
    api.worker = api.url.removeprefix("http://")
    api.has("b", "RUNNING")
    (finding,) = doctor(api.url, capsys, code=0)
    text = "no answer: the port is closed. 3 connectors or tasks may not run on it now"
    assert finding.startswith(f"worker {gone}: {text} -> a worker has left")


def test_tasks_with_one_error_are_one_finding(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.has(
        "s",
        *["FAILED"] * 12,
        connector="FAILED",
        trace=f"{JAVA}boom\n\tat x\nCaused by: a\n\tat y\nCaused by: b\n",
    )
    connector, tasks = doctor(api.url, capsys)
    advice = f"correct the cause, then: kcli connect restart s --failed --url {api.url}"
    error = f"FAILED on 127.0.0.1:8083: {JAVA}boom; cause: b -> {advice}"
    assert connector == f"connector s: {error}"
    assert tasks == f"task s tasks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more: {error}"


PUT = f"{JAVA}Exiting WorkerSinkTask due to unrecoverable exception.\nCaused by: "
TOLERANCE = f"{JAVA}Tolerance exceeded in error handler\nCaused by: "
TOO_LARGE = (
    f"{JAVA}Unrecoverable exception from producer send callback\nCaused by: RecordTooLargeException: x"
)
NO_SCHEMA = (
    f'{TOLERANCE}DataException: JsonConverter with schemas.enable requires "schema" and "payload" fields'
)
UNKNOWN = f"{JAVA}Failed to find any class that implements Connector and which name matches x.FileStreamSnk, available"
DEAD_LETTERS = {"errors.deadletterqueue.topic.name": "dlq"}


@pytest.mark.parametrize(
    ("trace", "config", "advice"),
    [
        (
            f"{PUT}{JAVA}boom",
            {},
            "covers only converters and transformations, so a dead-letter topic would not help",
        ),
        (f"{PUT}{JAVA}boom", DEAD_LETTERS, "so dlq has no record of it"),
        (
            f"{PUT}{TOLERANCE}errant",
            {},
            "set errors.tolerance=all and errors.deadletterqueue.topic.name=TOPIC",
        ),
        (TOO_LARGE, {"max.request.size": "9"}, "max.request.size without a prefix has no effect"),
        (TOO_LARGE, {}, "set producer.override.max.request.size of the connector"),
        (NO_SCHEMA, {}, "and value.converter=org.apache.kafka.connect.json.JsonConverter, because"),
        (NO_SCHEMA, {"value.converter": "J"}, "schemas.enable=false. If"),
        (
            f"{TOLERANCE}DataException: Only Struct objects supported for [x]",
            {},
            "values with fields and a schema",
        ),
        (
            f"{TOLERANCE}DataException: Converting byte[] to Kafka Connect data failed",
            {},
            "the producer used",
        ),
        (UNKNOWN, {}, "did you mean org.apache.kafka.connect.file.FileStreamSinkConnector?"),
        (
            f"{JAVA}Class no.such.Thing could not be found.",
            {},
            "install the plugin of no.such.Thing on every",
        ),
        (f"{JAVA}x\nCaused by: OffsetOutOfRangeException: x", {}, "kcli connect offsets s --reset --url"),
        (f"{JAVA}dlq\nCaused by: InvalidReplicationFactorException: 3", {}, "topic.replication.factor"),
        (
            "x\nCaused by: org.apache.kafka.common.errors.GroupAuthorizationException: g",
            {},
            "group connect-s",
        ),
        ("x.TooManyTasksException: 3 tasks", {}, "raise tasks.max"),
        (
            f"{JAVA}The process of task s-0 has ended unexpectedly: signal SIGKILL",
            {},
            "memory of its machine",
        ),
        ("MemoryError", {}, "kcli.task.memory.max.bytes"),
        ("", {}, "kcli connect restart s --failed"),
    ],
)
def test_a_known_error_has_advice(
    trace: str, config: dict[str, str], advice: str, api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.plugins(["org.apache.kafka.connect.file.FileStreamSinkConnector"])
    api.has("s", "FAILED", trace=trace, config=config)
    (finding,) = doctor(api.url, capsys)
    assert advice in finding.partition(" -> ")[2]


@pytest.mark.parametrize(
    ("status", "word"), [(503, "the worker is starting: later"), (500, "the worker is unhealthy: later")]
)
def test_a_worker_that_is_not_ready_ends_the_checks(
    status: int, word: str, api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers["GET /health"] = (status, {"status": "x", "message": "later"})
    (finding,) = doctor(api.url, capsys)
    assert finding.startswith(f"health URL: {word} -> ")


def test_a_worker_without_health_is_checked(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    del api.answers["GET /health"]
    assert doctor(api.url, capsys, code=0) == []


def test_a_rebalance_is_a_warning(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    message = "Cannot complete request momentarily due to stale configuration (typically caused by ...)"
    api.answers["GET /connectors"] = (409, {"error_code": 409, "message": message})
    (finding,) = doctor(api.url, capsys, code=0)
    assert finding.startswith("worker URL: the workers rebalance: Cannot complete")


@pytest.mark.parametrize("answer", [(404, None), (200, {}), (200, None)])
def test_another_api_is_named(
    answer: tuple[int, object], api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers = {"GET /": answer}
    (finding,) = doctor(api.url, capsys)
    assert finding.startswith("protocol URL: this is not the REST API of Kafka Connect")


def test_an_old_worker_is_named(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers["GET /connectors"] = (200, ["a"])
    (finding,) = doctor(api.url, capsys)
    assert "use a worker of Kafka 2.3 or newer" in finding


def test_a_login_that_is_missing_or_wrong_is_named(
    api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.login = "ann:p@ss"
    place = api.url.removeprefix("http://")
    assert doctor(api.url, capsys) == [
        "login URL: the worker needs a login (HTTP 401) -> put user:password@ before the host of the URL"
    ]
    (finding,) = doctor(f"http://ann:wrong@{place}", capsys)
    assert "the worker refuses the login" in finding
    assert "wrong@" not in finding
    assert doctor(f"http://ann:p%40ss@{place}", capsys, code=0) == []


def test_the_protocol_of_the_port_is_named(
    api: ConnectApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (finding,) = doctor(api.url.replace("http:", "https:"), capsys)
    assert finding == "TLS URL: this port speaks no TLS, the URL asks for it -> begin the URL with http://"
    certificates = make_certificates(str(tmp_path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.pem)
    with connect_api(tls=context) as secure:
        (finding,) = doctor(secure.url.replace("https:", "http:"), capsys)
        assert finding == "TLS URL: this port speaks TLS, the URL does not -> begin the URL with https://"
        (finding,) = doctor(secure.url, capsys)
        assert finding.startswith("TLS URL: the certificate of the worker is not trusted: ")


def test_a_closed_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = doctor(f"http://127.0.0.1:{free_port()}", capsys)
    assert finding.startswith("worker URL: no worker answers: the port is closed -> check host and port")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--connect", "ftp://x"], "--connect ftp://x: expected a URL such as http://localhost:8083"),
        (["--connect", "http://x", "--topic", "t"], "--connect checks a worker"),
    ],
)
def test_invalid_options_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", *words]) == 1
    assert message in capsys.readouterr().err
