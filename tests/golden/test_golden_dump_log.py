"""dump-log against what Kafka 4.1 printed for the same files, byte for byte."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.cli.running import run_command
from kcli.cli.tools.dump_log.command import command

GOLDEN = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden"
INDEX = GOLDEN / "dump" / "INDEX.tsv"

pytestmark = pytest.mark.skipif(not INDEX.exists(), reason="the recordings of Kafka 4.1 are absent")


class Case(NamedTuple):
    output: str
    argv: str
    exit: str
    stderr: str


def _cases() -> list[Case]:
    if not INDEX.exists():
        return []
    with INDEX.open(newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return [Case(*row) for row in rows]


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.output.removesuffix(".txt"))
def test_prints_what_kafka_printed(
    case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN)
    code = run_command(command, case.argv.split())
    printed = capsys.readouterr()
    with open(INDEX.parent / case.output, newline="") as file:
        assert printed.out == file.read()
    assert code == int(case.exit)
    # The index holds one line: messages joined, absolute paths made relative, the usage table left out.
    words = printed.err.replace(os.getcwd() + "/", "").rstrip("\n")
    expected = case.stderr.removesuffix(" [usage omitted]")
    if expected != case.stderr:
        assert words.startswith(expected)
    else:
        assert words.replace("\n", " | ") == expected
