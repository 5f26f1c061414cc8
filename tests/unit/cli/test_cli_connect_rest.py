"""`kcli connect` with the REST API of a worker: its output, its requests, and its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.tools.connect import rest_calls
from kcli.local_cluster.ports import free_port
from rigs.connect_rest import Answer, ConnectApi, config_key, connect_api, validation

CONFIG = {"connector.class": "org.example.Sink", "topics": "t", "name": "a"}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectApi]:
    with connect_api() as served:
        served.has("a", "RUNNING", "FAILED", trace="boom\n\tat x", config=CONFIG)
        served.answers["GET /connectors/a/config"] = (200, CONFIG)
        monkeypatch.setenv(rest_calls.URL_VARIABLE, served.url)
        monkeypatch.setattr(rest_calls, "RETRY_SECONDS", 0.001)
        yield served


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What the command prints on stdout, or on stderr if it ends with an error."""
    assert run(["connect", *words]) == code
    printed = capsys.readouterr()
    return printed.err if code and not printed.out else printed.out


def test_connectors_and_their_parts_are_shown(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.has("idle", connector="STOPPED")
    assert said(capsys, "list") == (
        "a     sink     RUNNING     1 of 2 tasks run, 1 FAILED  127.0.0.1:8083\n"
        "idle  sink     STOPPED     0 of 0 tasks run  127.0.0.1:8083\n"
    )
    rows = [json.loads(line) for line in said(capsys, "list", "--output", "json").splitlines()]
    assert [(row["name"], row["tasks"], row["failed"]) for row in rows] == [("a", 2, 1), ("idle", 0, 0)]
    assert said(capsys, "status", "a") == (
        "connector  RUNNING     127.0.0.1:8083\n"
        "task 0     RUNNING     127.0.0.1:8083\n"
        "task 1     FAILED      127.0.0.1:8083\n"
        "    boom\n"
        "    \tat x\n"
    )
    api.answers["GET /connectors"] = (200, {})
    assert said(capsys, "list") == "There are no connectors.\n"


@pytest.mark.parametrize(
    ("answer", "when"),
    [
        ((404, {"error_code": 404, "message": "HTTP 404"}), "after scheduled.rebalance.max.delay.ms"),
        ((200, {"delay_ms": 61_000}), "in 61 s"),
        ((200, {"delay_ms": 0}), "with the next rebalance"),
    ],
)
def test_work_that_waits_for_a_lost_worker_has_a_time(
    answer: Answer, when: str, api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.has("lost", "UNASSIGNED", connector="UNASSIGNED")
    api.answers["GET /rebalance"] = answer
    assert f"The others take over its work {when}" in said(capsys, "status", "lost")


@pytest.mark.parametrize(
    ("words", "request_line"),
    [
        (("pause", "a"), "PUT /connectors/a/pause"),
        (("resume", "a"), "PUT /connectors/a/resume"),
        (("stop", "a"), "PUT /connectors/a/stop"),
        (("restart", "a"), "POST /connectors/a/restart?includeTasks=true&onlyFailed=false"),
        (("restart", "a", "--failed"), "POST /connectors/a/restart?includeTasks=true&onlyFailed=true"),
        (
            ("restart", "a", "--connector-only"),
            "POST /connectors/a/restart?includeTasks=false&onlyFailed=false",
        ),
        (("delete", "a", "--yes"), "DELETE /connectors/a"),
        (("offsets", "a", "--reset", "--yes"), "DELETE /connectors/a/offsets"),
        (("pause", "a/b ü"), "PUT /connectors/a%2Fb%20%C3%BC/pause"),
    ],
)
def test_an_action_is_one_request(
    words: tuple[str, ...], request_line: str, api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers[request_line.partition("?")[0]] = (200, {"message": "done"})
    assert said(capsys, *words)
    assert api.requests == [(request_line, None)]


def test_offsets_are_compact_json(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    offsets = [{"partition": {"file": "ü"}, "offset": {"n": 7}}, {"partition": {"file": "x"}, "offset": None}]
    api.answers["GET /connectors/a/offsets"] = (200, {"offsets": offsets})
    assert said(capsys, "offsets", "a") == '{"file":"ü"} {"n":7}\n{"file":"x"} null\n'
    api.answers["GET /connectors/a/offsets"] = (200, {"offsets": []})
    assert said(capsys, "offsets", "a").startswith("a has no offsets yet.")
    assert said(capsys, "offsets", "a", "--output", "json") == ""


def test_files_are_applied_only_if_they_change_something(
    api: ConnectApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(CONFIG))
    (tmp_path / "b.properties").write_text("name=b\nconnector.class=org.example.Sink\n")
    (tmp_path / "notes.txt").write_text("x")
    api.answers["PUT /connectors/b/config"] = (201, {})
    api.answers["PUT /connectors/a/config"] = (200, {})
    dry = said(capsys, "apply", str(tmp_path), "--dry-run")
    assert dry == "a: unchanged\nb: created\nNothing was changed, because of --dry-run.\n"
    assert api.requests == []
    (tmp_path / "a.json").write_text(json.dumps({**CONFIG, "topics": "u"}))
    assert said(capsys, "apply", str(tmp_path)) == "a: changed (topics)\nb: created\n"
    assert [line for line, _ in api.requests] == ["PUT /connectors/a/config", "PUT /connectors/b/config"]


def test_a_new_connector_gets_the_state_of_its_file(
    api: ConnectApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    api.answers["POST /connectors"] = (201, {})
    bodies = [
        {"name": name, "config": CONFIG | {"name": name}, "initial_state": state}
        for name, state in (("n1", "STOPPED"), ("n2", "RUNNING"))
    ]
    for body in bodies:
        (tmp_path / f"{body['name']}.json").write_text(json.dumps(body))
    assert said(capsys, "apply", str(tmp_path)) == "n1: created\nn2: created\n"
    assert api.requests == [("POST /connectors", body) for body in bodies]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"name": "z",\n "topics" "t"}', "It begins as JSON, but the body is not valid JSON: Expecting ':'"),
        ('{"name": "z", "settings": {}}', 'Expected an object of texts, or {"name": NAME, "config": {'),
        ("topics=t\n", "is missing the mandatory 'name' configuration\n"),
        ("name=a\n", "a.json have the same name: a"),
    ],
)
def test_nothing_is_changed_if_one_file_is_wrong(
    content: str, message: str, api: ConnectApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**CONFIG, "topics": "u"}))
    (tmp_path / "z.properties").write_text(content)
    assert message in said(capsys, "apply", str(tmp_path), code=1)
    assert api.requests == []


@pytest.mark.parametrize("command", ["list", "status", "logs", "offsets", "plugins"])
@pytest.mark.parametrize("answer", [None, "text"])
def test_the_answer_of_another_server_is_one_clear_error(
    command: str, answer: object, api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ("/connectors", "/connectors/a/status", "/connectors/a/offsets", "/connector-plugins")
    api.answers |= {f"GET {path}": (200, answer) for path in paths}
    words = [command] if command in ("list", "plugins") else [command, "a"]
    assert "in another form than a worker" in said(capsys, *words, code=1)


def test_a_file_is_validated_by_the_worker(
    api: ConnectApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(CONFIG))
    path = "PUT /connector-plugins/org.example.Sink/config/validate"
    api.answers[path] = (200, validation(config_key("topics", errors=["no such topic"])))
    assert said(capsys, "validate", str(file), code=1) == "topics: no such topic\n"
    api.answers[path] = (200, validation(config_key("topics")))
    assert said(capsys, "validate", str(file)) == "a is valid.\n"
    assert api.requests[-1][1] == CONFIG
    file.write_text(json.dumps({**CONFIG, "connector.class": "a/b?c"}))
    api.answers["PUT /connector-plugins/a%2Fb%3Fc/config/validate"] = (404, {"message": "Unknown plugin"})
    assert "Unknown plugin" in said(capsys, "validate", str(file), code=1)


def test_a_rebalance_is_waited_for(
    api: ConnectApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_calls, "RETRIES_MAX", 3)
    message = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    api.answers["PUT /connectors/a/pause"] = (409, {"error_code": 409, "message": message})
    assert message in said(capsys, "pause", "a", code=1)
    assert len(api.requests) == 3
    api.answers["PUT /connectors/a/pause"] = (409, {"error_code": 409, "message": "Connector a exists"})
    assert "Connector a exists" in said(capsys, "pause", "a", code=1)
    assert len(api.requests) == 4


def test_the_login_is_in_the_url_and_never_in_an_error(
    api: ConnectApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.login = "ann:p@ss"
    place = api.url.removeprefix("http://")
    assert "1 of 2" in said(capsys, "list", "--url", f"ann:p%40ss@{place}")
    refused = said(capsys, "list", "--url", f"http://ann:wrong@{place}", code=1)
    assert "HTTP 401. Check the login in --url" in refused
    assert "before the host of --url" in said(capsys, "list", "--url", place, code=1)
    nowhere = f"http://ann:wrong@127.0.0.1:{free_port()}"
    for url, message in (
        (nowhere, "no worker of Kafka Connect answers at http://127"),
        ("ftp://u:wrong@h", "--url h"),
    ):
        printed = said(capsys, "list", "--url", url, code=1)
        assert message in printed
        assert "wrong" not in printed


def test_a_worker_of_java_has_no_log(api: ConnectApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.worker = api.url.removeprefix("http://")
    api.has("a", "RUNNING")
    assert "it is not a worker of kcli" in said(capsys, "logs", "a", code=1)
    api.answers["GET /connectors/a/logs"] = (200, ["one", "two"])
    assert said(capsys, "logs", "a") == "one\ntwo\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FileStremSink", " Did you mean org.apache.kafka.connect.file.FileStreamSinkConnector?"),
        ("org.example.Other", ""),
    ],
)
def test_an_unknown_class_has_a_short_error(
    name: str, meant: str, api: ConnectApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Kafka's message lists all plugins, in more than a thousand characters."""
    message = (
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors "
        "are: PluginDesc{klass=class org.apache.kafka.connect.file.FileStreamSinkConnector, name='x', type=sink}, "
        "PluginDesc{klass=class io.confluent.connect.jdbc.JdbcSinkConnector, name='y', type=sink}"
    )
    api.answers["PUT /connectors/c/config"] = (400, {"error_code": 400, "message": message})
    (tmp_path / "c.json").write_text(json.dumps({"name": "c", "config": {"connector.class": name}}))
    expected = f"The worker has no class {name}.{meant} `kcli connect plugins` lists its classes."
    assert expected in said(capsys, "apply", str(tmp_path / "c.json"), code=1)
