"""The recorded runs of Kafka's connect-plugin-path.sh, and ours with the same arguments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.cli.script_form import SCRIPT_VARIABLE
from rigs.golden3 import check_differences, recording, steps

_JARS = "the recorded plugins are Java archives"

KNOWN: dict[str, str] = {
    "help": "the help of our commands has a form of its own",
    "list-help": "the same",
    "list-location": _JARS,
    "list-location-dir": _JARS,
    "list-path": _JARS,
    "list-paths": _JARS,
    "list-worker": _JARS,
    "sync-dry": _JARS,
    "sync-keep": _JARS,
    "sync": _JARS,
    "list-after-sync": _JARS,
}


def directory(root: Path) -> None:
    """The files of the recording. What is in an archive does not matter, because it holds Java classes."""
    for name in ("one/connect-file-4.1.0.jar", "plugins/gold/gold-1.0.jar", "plugins/notajar.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "worker.properties").write_text(f"plugin.path={root}/plugins,{root}/one\n")
    (root / "noplug.properties").write_text("bootstrap.servers=127.0.0.1:9092\n")


def differences(root: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    for step in steps(recording("connect/standalone/plugin-path.jsonl")):
        arguments = [argument.replace("{DIR}", str(root)) for argument in step["args"]]
        code = run(["connect-plugin-path", *arguments])
        printed = capsys.readouterr().out.replace(str(root), "{DIR}")
        expected: Any = (step["exit"], text_of(step["stdout"]))
        if (code, printed.rstrip("\n")) != expected:
            yield step["id"], f"expected {expected}, got {code, printed}"


def text_of(recorded: str | list[str]) -> str:
    return (recorded if isinstance(recorded, str) else "\n".join(recorded)).rstrip("\n")


def test_runs_equal_those_of_kafkas_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SCRIPT_VARIABLE, "connect-plugin-path.sh")
    directory(tmp_path)
    check_differences(dict(differences(tmp_path, capsys)), KNOWN)
