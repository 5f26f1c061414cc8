"""The command line of mirror-maker, by its own name and by the name of Kafka's script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kcli.cli.running import run_tool
from kcli.cli.script_form import SCRIPT_VARIABLE
from kcli.cli.syntax.registry import TOOLS
from kcli.mirror import program

SCRIPT = "connect-mirror-maker.sh"
USAGE = "usage: connect-mirror-maker [-h] [--clusters CLUSTER [CLUSTER ...]]"


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[str]]]:
    """The calls of the program, which ends at once."""
    calls: list[tuple[str, Sequence[str]]] = []

    def run(file: str, clusters: Sequence[str]) -> int:
        calls.append((Path(file).name, clusters))
        return 143

    monkeypatch.setattr(program, "run", run)
    return calls


@pytest.mark.parametrize(
    ("arguments", "clusters"),
    [
        (["{file}"], ()),
        (["{file}", "--clusters", "A", "B"], ("A", "B")),
        (["--clusters=A", "{file}"], ("A",)),
        (["--clusters", "A", "B", "--", "{file}"], ("A", "B")),
    ],
)
def test_options_stand_on_both_sides_of_the_file(
    arguments: list[str], clusters: Sequence[str], tmp_path: Path, runs: list[tuple[str, Sequence[str]]]
) -> None:
    file = tmp_path / "mm2.properties"
    file.touch()
    assert run_tool(TOOLS["mirror-maker"], [text.replace("{file}", str(file)) for text in arguments]) == 143
    assert runs == [("mm2.properties", clusters)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "too few arguments"),
        (["--clusters", "A"], "too few arguments"),
        (["--clusters"], "argument --clusters: expected 1 argument(s)"),
        (["--bogus"], "unrecognized arguments: '--bogus'"),
        (["/dev/null", "more"], "unrecognized arguments: 'more'"),
        (["/no"], "argument  config:  Insufficient permissions to\nread file: '/no'"),
    ],
)
def test_errors_of_the_script_are_those_of_java(
    arguments: list[str], error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SCRIPT_VARIABLE, SCRIPT)
    assert run_tool(TOOLS["mirror-maker"], arguments) == 255
    text = capsys.readouterr().err
    assert text.startswith(USAGE)
    assert f"connect-mirror-maker: error: {error}" in text


def test_a_file_that_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool(TOOLS["mirror-maker"], ["/no"]) == 255
    assert capsys.readouterr().err == "Cannot read /no: No such file or directory\n"
