"""docs/registry.md: the commands of the page run, in the order of the page, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.tools.schemas.connection import URL_VARIABLE
from rigs.registry_thread import Started, registries

PAGE = Path("docs/registry.md")
PATIENCE_SECONDS = 120.0
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
REPOSITORY = "git init -q -b main . && git add . && git -c user.name=a -c user.email=a@b commit -qm a"


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(PAGE.read_text()) if found == language]


@dataclass
class Reader:
    """A reader who runs the lines of the page."""

    started: Started
    capsys: pytest.CaptureFixture[str]

    def runs(self, script: str) -> tuple[int, str]:
        """Runs lines until one of them fails. Returns the exit code of the last one, and the output of all."""
        one, two = self.started.urls
        places = {"localhost:9092": self.started.bootstrap, "http://localhost:8081": one}
        for name, address in (places | {"http://localhost:8082": two}).items():
            script = script.replace(name, address)
        code, printed = 0, ""
        for line in script.replace("\\\n", "").splitlines():
            code, out = self._tool(line) if line.startswith("kcli schemas ") else self._shell(line)
            printed += out
            if code:
                break
        return code, printed

    def _tool(self, line: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = run(shlex.split(line)[1:])
        return code, self.capsys.readouterr().out

    def _shell(self, line: str) -> tuple[int, str]:
        kcli = f'kcli() {{ "{sys.executable}" -m kcli "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-c", kcli + line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.returncode, done.stdout


def test_the_page_shows_what_the_tools_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = blocks("json")
    use, check, pipeline, offline, copies = blocks("shell")
    [shown] = [text for text in blocks("") if text.startswith("orders-value.avsc: not compatible")]
    work = tmp_path / "work"
    (work / "schemas").mkdir(parents=True)
    with registries(tmp_path / "broker", {}, {}) as started:
        reader, file = Reader(started, capsys), work / "orders-value.avsc"
        monkeypatch.setenv(URL_VARIABLE, started.urls[0])
        monkeypatch.chdir(work)
        file.write_text(first)
        code, out = reader.runs(use)
        assert (code, '{"id":7}' in out) == (0, True), out
        file.write_text(second)
        assert reader.runs(check) == (1, shown)
        file.write_text(second.replace('"string"', '"string", "default": ""'))
        code, out = reader.runs(f"{check}kcli schemas put orders-value.avsc\n")
        assert (code, out.splitlines()[-1]) == (0, "orders-value: registered as version 2, id 2")

        file.rename(work / "schemas/orders-value.avsc")
        assert reader.runs(pipeline)[0] == 0
        code, out = reader.runs(f"{REPOSITORY}\n{offline}")
        assert (code, "compatible with orders-value (level FULL_TRANSITIVE)" in out) == (0, True), out

        code, out = reader.runs(copies)
        assert (code, out.splitlines()[-1]) == (0, "There is no difference: 2 versions are equal."), out
