"""bench/launch.py measures a command alone, without the process that starts the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[2] / "bench" / "launch.py"
PARENT_BYTES = 200_000_000


def launched(output: Path, script: str) -> dict[str, float]:
    command = [sys.executable, "-I", "-S", LAUNCHER, output, sys.executable, "-I", "-S", "-c", script]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer


def test_the_peak_memory_does_not_include_that_of_the_parent(tmp_path: Path) -> None:
    parent = b"x" * PARENT_BYTES
    cost = launched(tmp_path / "output", "print('done')")
    assert cost["code"] == 0
    assert 1e6 < cost["peak_mb"] * 1e6 < len(parent) / 2
    assert (tmp_path / "output").read_text() == "done\n"


def test_a_command_has_its_exit_code_and_its_own_peak(tmp_path: Path) -> None:
    cost = launched(tmp_path / "output", f"import sys; x = b'x' * {PARENT_BYTES}; sys.exit(3)")
    assert cost["code"] == 3
    assert cost["peak_mb"] * 1e6 > PARENT_BYTES
