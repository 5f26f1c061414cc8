"""What is generated from the tools' declarations and checked in must be what the generators make today."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from kcli import KAFKA_VERSION
from kcli.cli.man import pages
from kcli.cli.shims import CONFLUENT_SCRIPTS, MAIN_CLASSES, RUN_CLASS, shims
from kcli.cli.syntax.registry import TOOLS

ROOT = Path(__file__).resolve().parents[3]


def test_man_pages_are_current() -> None:
    checked_in = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "man").glob("*.1")}
    fresh = pages()
    assert sorted(checked_in) == sorted(fresh), "run: python -m kcli.cli.man"
    stale = [name for name, text in fresh.items() if checked_in[name] != text]
    assert not stale, f"run: python -m kcli.cli.man (stale: {stale})"


def test_shims_are_current() -> None:
    for name, text in shims().items():
        path = ROOT / "bin" / name
        assert path.is_file(), f"{name} is missing; run: python -m kcli.cli.shims"
        assert path.read_text(encoding="utf-8") == text, f"{name} is stale; run: python -m kcli.cli.shims"
        assert os.access(path, os.X_OK), f"{name} cannot be executed"
    patterns = ("kafka-*.sh", "connect-*.sh", "schema-registry-*")
    checked_in = {path.name for pattern in patterns for path in (ROOT / "bin").glob(pattern)}
    assert checked_in == set(shims())


def test_a_shim_runs_the_kcli_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    kcli = tmp_path / ".venv" / "bin" / "kcli"
    kcli.write_text('#!/bin/sh\nfor word in "$KCLI_SCRIPT" "$@"; do echo "[$word]"; done\n')
    kcli.chmod(0o755)
    shim = tmp_path / "bin" / "kafka-topics.sh"
    shim.write_text(shims()["kafka-topics.sh"])
    shim.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [shim, "--list", "a b"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[kafka-topics.sh]\n[topics]\n[--list]\n[a b]\n"
    done = subprocess.run(
        ["sh", "kafka-topics.sh"],
        cwd=shim.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[kafka-topics.sh]\n[topics]\n"


def run_class(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kcli = tmp_path / "kcli"
    kcli.write_text('#!/bin/sh\necho "$@"\n')
    script = tmp_path / RUN_CLASS
    script.write_text(shims()[RUN_CLASS])
    kcli.chmod(0o755)
    script.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "LOG_DIR": str(tmp_path / "logs")}
    return subprocess.run([script, *words], env=environment, capture_output=True, text=True, check=False)


def test_classes_of_kafka_are_run_as_the_commands_that_stand_for_them(tmp_path: Path) -> None:
    # kafka-server-stop.sh is a shell script in Kafka, too.
    scripts = {tool.name for tool in TOOLS.values() if tool.script} - {"server-stop"}
    assert sorted(MAIN_CLASSES.values()) == sorted(scripts | set(CONFLUENT_SCRIPTS.values()))
    done = run_class(tmp_path, "kafka.Kafka", "server.properties", "--override", "node.id=2")
    assert done.stdout == "server-start server.properties --override node.id=2\n"
    done = run_class(tmp_path, "-loggc", "-name", "x", "org.apache.kafka.tools.TopicCommand", "--list")
    assert done.stdout == "topics --list\n"


def test_a_class_in_the_background_writes_where_kafkas_does(tmp_path: Path) -> None:
    done = run_class(tmp_path, "-daemon", "-name", "groups", "org.apache.kafka.tools.GroupsCommand", "--list")
    assert (done.returncode, done.stdout) == (0, "")
    written = tmp_path / "logs" / "groups.out"
    end = time.monotonic() + 60
    while not written.exists() or "groups --list" not in written.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_no_class_and_a_class_that_nothing_stands_for(tmp_path: Path) -> None:
    done = run_class(tmp_path)
    assert done.returncode == 1 and done.stdout.startswith("USAGE: ")
    done = run_class(tmp_path, "com.example.Main")
    assert done.returncode == 1 and "com.example.Main" in done.stderr and not done.stdout


def test_a_man_page_says_what_the_command_takes() -> None:
    page = pages()["kcli-cluster.1"]
    assert page.startswith(".TH KCLI\\-CLUSTER 1")
    assert f"kafka\\-cluster.sh of Apache Kafka {KAFKA_VERSION}" in page
    assert ".SS unregister" in page and "\\fB\\-\\-id\\fR" in page
