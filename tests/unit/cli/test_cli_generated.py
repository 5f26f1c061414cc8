"""What is generated from the tools' declarations and checked in must be what the generators make today."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kcli import KAFKA_VERSION
from kcli.cli.man import pages
from kcli.cli.shims import shims

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
    checked_in = {path.name for path in (ROOT / "bin").glob("kafka-*.sh")}
    assert checked_in == set(shims())


def test_a_shim_runs_the_kcli_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    kcli = tmp_path / ".venv" / "bin" / "kcli"
    kcli.write_text('#!/bin/sh\nfor word in "$@"; do echo "[$word]"; done\n')
    kcli.chmod(0o755)
    shim = tmp_path / "bin" / "kafka-topics.sh"
    shim.write_text(shims()["kafka-topics.sh"])
    shim.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [shim, "--list", "a b"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[topics]\n[--list]\n[a b]\n"
    done = subprocess.run(
        ["sh", "kafka-topics.sh"],
        cwd=shim.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[topics]\n"


def test_a_man_page_says_what_the_command_takes() -> None:
    page = pages()["kcli-cluster.1"]
    assert page.startswith(".TH KCLI\\-CLUSTER 1")
    assert f"kafka\\-cluster.sh of Apache Kafka {KAFKA_VERSION}" in page
    assert ".SS unregister" in page and "\\fB\\-\\-id\\fR" in page
