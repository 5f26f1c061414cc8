from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcli.cli.main import run

CLUSTER_ID = "Z29sZGVuLWNsdXN0ZXItMQ"
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"


def config_file(tmp_path: Path, **changes: str) -> str:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": f"{tmp_path}/a,{tmp_path}/b",
    } | {key.replace("_", "."): value for key, value in changes.items()}
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in texts.items()))
    return str(path)


def test_format_then_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_file(tmp_path)
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", config, "--standalone"]) == 0
    assert (
        f"Formatting data directory {tmp_path}/b with metadata.version 4.1-IV1.\n" in capsys.readouterr().out
    )
    assert run(["storage", "info", "-c", config]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        f"Found log directories:\n  {tmp_path}/a\n  {tmp_path}/b\n\nFound metadata: {{cluster.id="
    )
    assert run(["storage", "info", "-c", config, "--output", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["directories"] == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert row["metadata"]["cluster.id"] == CLUSTER_ID
    assert row["problems"] == []


def test_format_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_file(tmp_path)
    words = ["storage", "format", "-t", CLUSTER_ID, "-c", config, "-s", "--output", "json"]
    assert run(words) == 0
    first = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["metadata"]["cluster.id"] for row in first] == [CLUSTER_ID] * len(first)
    assert {row["formatted_now"] for row in first} == {True}
    assert run([*words, "-g"]) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert again == [row | {"formatted_now": False} for row in first]


def test_info_names_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, node_id, cluster in (("a", 1, "x"), ("b", 2, "x"), ("c", 1, "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(
            f"version=1\nnode.id={node_id}\ncluster.id={cluster}\n"
        )
    (tmp_path / "d").mkdir()
    (tmp_path / "e").write_text("")
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "meta.properties").write_text("version=7\n")
    config = config_file(tmp_path, log_dirs=",".join(f"{tmp_path}/{name}" for name in "abcdefg"))
    assert run(["storage", "info", "-c", config]) == 1
    problems = capsys.readouterr().out.partition("Found problems:\n")[2].splitlines()
    assert problems[:5] == [
        "  Mismatched node IDs between storage directories.",
        "  Mismatched cluster IDs between storage directories.",
        f"  {tmp_path}/d is not formatted.",
        f"  {tmp_path}/e is not a directory",
        f"  {tmp_path}/f does not exist",
    ]
    assert problems[5] == (
        f"  Error loading {tmp_path}/g/meta.properties: Unknown meta.properties version number 7"
    )


def test_info_of_a_directory_of_the_zookeeper_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert run(["storage", "info", "-c", config_file(tmp_path, log_dirs=f"{tmp_path}/a")]) == 1
    shown = capsys.readouterr().out
    assert "Found metadata: {broker.id=1, version=0}\n" in shown
    assert "but the directories are formatted for legacy mode." in shown


def test_format_asks_for_the_controllers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_file(tmp_path)
    voters = f"1@127.0.0.1:9093:{DIRECTORY_ID},2@[::1]:9093:JEXY6aqzQY-32P5TStzaFA"
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", config, "--initial-controllers", voters]) == 0
    assert f"directory.id={DIRECTORY_ID}\n" in (tmp_path / "a" / "meta.properties").read_text()
    assert f"Formatting dynamic metadata voter directory {tmp_path}/a with" in capsys.readouterr().out


def test_a_controller_among_others_may_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_file(tmp_path)
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", config, "-N"]) == 0
    assert f"Formatting metadata directory {tmp_path}/a with" in capsys.readouterr().out
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", config, "-N", "-s"]) == 1
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("voters", "message"),
    [
        ("1", "No @ found in dynamic voter string."),
        ("x@h:1:" + DIRECTORY_ID, "Failed to parse node id in dynamic voter string."),
        ("-1@h:1:" + DIRECTORY_ID, "Invalid negative node id -1 in dynamic voter string."),
        ("1@h", "No colon following hostname could be found."),
        ("1@[::1", "Hostname began with left bracket, but no right bracket was found."),
        ("1@[::1]", "No colon following hostname could be found."),
        ("1@h:1", "No colon following port could be found."),
        ("1@h:p:" + DIRECTORY_ID, "Failed to parse port in dynamic voter string."),
        ("1@h:70000:" + DIRECTORY_ID, "Invalid port 70000 in dynamic voter string."),
        ("1@h:1:abc", "Failed to parse directory ID in dynamic voter string."),
        (f"1@h:1:{DIRECTORY_ID},1@h:2:{DIRECTORY_ID}", "Node id 1 was specified more than once."),
        (",", "No voters given."),
    ],
)
def test_controllers_that_make_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], voters: str, message: str
) -> None:
    argv = [
        "storage",
        "format",
        "-t",
        CLUSTER_ID,
        "-c",
        config_file(tmp_path),
        f"--initial-controllers={voters}",
    ]
    assert run(argv) == 1
    assert capsys.readouterr().err == (
        f'Exception in thread "main" java.lang.IllegalArgumentException: {message}\n'
    )
    assert not (tmp_path / "a").exists()


def test_a_reserved_directory_id_of_a_controller_is_accepted(tmp_path: Path) -> None:
    voters = "3@h:1:AAAAAAAAAAAAAAAAAAAAAg,1@h:2:AAAAAAAAAAAAAAAAAAAAAQ"
    argv = [
        "storage",
        "format",
        "-t",
        CLUSTER_ID,
        "-c",
        config_file(tmp_path),
        "--initial-controllers",
        voters,
    ]
    assert run(argv) == 0
    assert "directory.id=AAAAAAAAAAAAAAAAAAAAAQ" in (tmp_path / "a" / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-f", "group.version"], "Can't parse feature=level string group.version: equals sign not found."),
        (
            ["-f", "group.version=x"],
            "Can't parse feature=level string group.version=x: unable to parse x as a short.",
        ),
        (["-r", "4.2-IV0"], "metadata.version 4.2-IV0 is not yet stable."),
    ],
)
def test_features_that_make_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", config_file(tmp_path), "-s", *argv]) == 1
    assert capsys.readouterr().err.endswith(f"{message}\n")


def test_a_broken_file_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "info", "-c", config_file(tmp_path, num_partitions="0")]) == 1
    assert capsys.readouterr().err == (
        'Exception in thread "main" org.apache.kafka.common.config.ConfigException: '
        "Invalid value 0 for configuration num.partitions: Value must be at least 1 (server.properties:7)\n"
    )


@pytest.mark.parametrize(
    ("feature", "out", "err"),
    [
        ("transaction.version=2", "transaction.version=2 has no dependencies.\n", ""),
        ("metadata.version=25", "metadata.version=25 (4.0-IV3) has no dependencies.\n", ""),
        ("kraft.version=1", "kraft.version=1 requires:\n    metadata.version=21 (3.9-IV0)\n", ""),
        ("metadata.version=99", "", "Unknown metadata.version 99\n"),
        ("transaction.version=99", "", "Feature level 99 is not supported for feature transaction.version\n"),
        ("bad=1", "", "Unknown feature: bad\n"),
        (
            "bad",
            "",
            "Invalid feature format: bad. Expected format: 'feature=version' (e.g. 'group.version=1')\n",
        ),
        ("group.version=a", "", "Invalid version format: a for feature group.version\n"),
    ],
)
def test_feature_dependencies_lists_the_features_that_a_level_requires(
    capsys: pytest.CaptureFixture[str], feature: str, out: str, err: str
) -> None:
    assert run(["storage", "feature-dependencies", "-f", feature]) == (1 if err else 0)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (out, err)


def test_version_mapping_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "version-mapping", "-r", "4.0", "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {"feature": "metadata.version", "level": 25, "version": "4.0"}
    assert {row["feature"]: row["level"] for row in rows}["eligible.leader.replicas.version"] == 0


def test_random_uuid_prints_22_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "random-uuid"]) == 0
    assert len(capsys.readouterr().out) == 23
