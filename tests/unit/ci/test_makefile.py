"""The Makefile names files and directories of tests that exist.

pytest accepts a path after `--ignore` that does not exist. So if slow tests move, `make quick` would run them again.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_path_of_tests_exists() -> None:
    paths = re.findall(r"\btests/[\w/.]*\w", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []
