"""The programs that bin/quickstart runs: the access log is always the same, and charts show its counts."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(__file__).resolve().parents[3] / "bin"


def access_lines(count: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(BIN / "_access_log.py"), str(count)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_access_log_has_all_lines_and_is_always_the_same() -> None:
    lines = access_lines(1000)
    assert len(lines) == 1000
    assert lines == access_lines(1000)
    head = r"10\.\d+\.\d+\.\d+ - - \[21/Nov/2026:\d\d:\d\d:\d\d \+0000\]"
    form = head + r' "(GET|POST) /\S* HTTP/1.1" \d{3} \d+ "-" "[^"]+"'
    assert all(re.fullmatch(form, line) for line in lines)
    times = [line[line.index("[") : line.index("]")] for line in lines]
    assert times == sorted(times)


def test_the_report_finds_its_columns_in_each_line() -> None:
    columns = runpy.run_path(str(BIN / "_access_report.py"))["COLUMNS"]
    assert set(columns) == {"hour", "path", "status"}
    assert all(re.search(pattern, line) for line in access_lines(200) for pattern in columns.values())


def test_a_chart_in_text() -> None:
    chart = runpy.run_path(str(BIN / "_access_report.py"))["chart"]
    assert chart("requests by status", {"200": 1200, "404": 600, "500": 1}, "#") == [
        "requests by status",
        "  200    1,200 " + "#" * 60,
        "  404      600 " + "#" * 30,
        "  500        1 #",
    ]
    assert chart("nothing", {}) == ["nothing"]


@pytest.mark.parametrize("script", ["quickstart", "_venv.sh", "test"])
def test_the_scripts_are_valid_shell(script: str) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    subprocess.run([shell, "-n", str(BIN / script)], check=True)
