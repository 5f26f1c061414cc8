"""`kcli cluster up`, `down` and `status` without processes: options, errors, and the script of Kafka without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.script_form import SCRIPT_VARIABLE
from kcli.local_cluster.directory import create_cluster, held_by_this_process
from kcli.local_cluster.layout import plan_nodes, ports_needed
from kcli.local_cluster.ports import free_port, free_ports
from kcli.local_cluster.supervisor import system_machine

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """The directory of a cluster that does not run."""
    nodes = plan_nodes(3, free_ports(ports_needed(3)), ["r"])
    create_cluster(tmp_path / "c", nodes, {"num.partitions": "7"}, system_machine())
    return tmp_path / "c"


def refused(capsys: Printed, *words: str) -> str:
    assert run(["cluster", *words]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_help_shows_the_sub_commands_of_kcli_and_kafkas_script_does_not(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["cluster", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "{cluster-id,unregister,list-endpoints,up,down,status}" in shown
    assert "--nodes" in shown
    monkeypatch.setenv(SCRIPT_VARIABLE, "kafka-cluster.sh")
    assert run(["cluster", "--help"]) == 1
    shown = capsys.readouterr().out
    assert "{cluster-id,unregister,list-endpoints} ..." in shown
    assert "--nodes" not in shown and "kcli cluster up" not in shown


def test_kafkas_script_refuses_them_as_kafka_does(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCRIPT_VARIABLE, "kafka-cluster.sh")
    assert refused(capsys, "up").endswith(
        "invalid choice: 'up' (choose from 'cluster-id', 'unregister', 'list-endpoints')\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "0"], "--nodes 0: expected 1 to 100\n"),
        (["--nodes", "101"], "--nodes 101: expected 1 to 100\n"),
        (["--port", "65533"], "--port 65533: expected 1 to 65530 for 3 nodes\n"),
        (["--racks", "a,,c"], "--racks a,,c: expected 1 to 3 names, separated by commas\n"),
        (["--override", "num.partitions"], "--override num.partitions: expected key=value\n"),
        (["--override", "node.id=7"], "--override node.id: each node has its own value"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_created(
    tmp_path: Path, capsys: Printed, words: list[str], message: str
) -> None:
    assert refused(capsys, "up", "--dir", str(tmp_path / "c"), *words).startswith(message)
    assert not (tmp_path / "c" / "node-1").exists()


def test_a_rack_and_racks_exclude_each_other(capsys: Printed, tmp_path: Path) -> None:
    said = refused(capsys, "up", "--dir", str(tmp_path), "--rack", "a", "--racks", "a,b")
    assert "not allowed with argument" in said


def test_ports_that_are_taken_are_named_before_anything_is_created(tmp_path: Path, capsys: Printed) -> None:
    import socket

    base = free_port()
    with socket.create_server(("127.0.0.1", base)):
        said = refused(capsys, "up", "--dir", str(tmp_path / "c"), "--port", str(base))
    assert said.startswith(
        f"--port {base}: the ports {base} to {base + 5} are needed, and other programs listen on {base}"
    )
    assert not (tmp_path / "c" / "node-1").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "4"], "--nodes 4: the cluster in DIR has 3 nodes\n"),
        (
            ["--override", "num.partitions=8"],
            "the options ask for num.partitions=8, and DIR/node-1/server.properties has 7:",
        ),
        (["--rack", "s"], "the options ask for broker.rack=s, and DIR/node-1/server.properties has r:"),
        (
            ["--port", "9092"],
            "the options ask for listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9095, and ",
        ),
    ],
)
def test_an_existing_cluster_is_not_changed(
    cluster: Path, capsys: Printed, words: list[str], message: str
) -> None:
    before = {path: path.read_bytes() for path in cluster.rglob("*") if path.is_file()}
    said = refused(capsys, "up", "--dir", str(cluster), *words)
    assert said.replace(str(cluster), "DIR").startswith(message)
    assert before == {path: path.read_bytes() for path in cluster.rglob("*") if path.is_file()}


def test_a_running_cluster_is_not_started_twice(cluster: Path, capsys: Printed) -> None:
    with held_by_this_process(cluster, system_machine()):
        said = refused(capsys, "up", "--dir", str(cluster))
    assert said.startswith(f"the cluster in {cluster} runs already")


@pytest.mark.parametrize("name", ["down", "status"])
def test_a_directory_without_a_cluster_is_reported(tmp_path: Path, capsys: Printed, name: str) -> None:
    assert refused(capsys, name, "--dir", str(tmp_path)).startswith(f"there is no cluster in {tmp_path}")
    said = refused(capsys, name)
    assert said.endswith("error: argument --dir is required\n")


def test_status_of_a_cluster_that_is_down(cluster: Path, capsys: Printed) -> None:
    assert run(["cluster", "status", "--dir", str(cluster)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "NODE", "STATE", "PID", "ADDRESS", "CONTROLLER", "QUORUM", "BROKER", "RACK", "LEADS", "UNDER-REPLICATED",
    ]  # fmt: skip
    assert lines[1].split()[:3] == ["1", "down", "-"]
    assert "0 of 3 nodes running" in lines[5]
    assert run(["cluster", "status", "--dir", str(cluster), "--output", "json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["node"], row["state"], row["pid"], row["rack"]) for row in rows] == [
        (number, "down", None, "r") for number in (1, 2, 3)
    ]


def test_down_of_a_cluster_that_is_down_is_no_error(cluster: Path, capsys: Printed) -> None:
    assert run(["cluster", "down", "--dir", str(cluster)]) == 0
    assert capsys.readouterr().out == f"The cluster in {cluster} was not running.\n"
