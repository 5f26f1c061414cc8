"""Runs the tests that failed in the main run once more, each alone in its own process, and decides about the run.

Usage: python .ci/second_try.py OUTCOMES [PYTEST OPTION ...], where OUTCOMES was written by `pytest --outcomes`.
A test that passes now is unsteady: it is listed, and does not fail the run. A test that fails twice fails the run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# More failures at once have one cause, which is a fault and not bad luck.
MAX_FAILED = 3


def main() -> int:
    path, *options = sys.argv[1:]
    outcomes = json.loads(Path(path).read_text(encoding="utf-8"))
    failed = [test for test, outcome in outcomes["tests"].items() if outcome == "failed"]
    refusal = why_not(failed, outcomes["broken"])
    if refusal is not None:
        report(f"no second try: {refusal}")
        return 1
    steady, unsteady = [], []
    for test in failed:
        report(f"== second try: {test}")
        (unsteady if passes(test, options) else steady).append(test)
    report("== unsteady (failed in the main run, passed alone)")
    report(summary("unsteady", unsteady))
    if steady:
        report("== failed twice")
        report(summary("failed twice", steady))
    return 1 if steady else 0


def why_not(failed: list[str], broken: list[str]) -> str | None:
    """Why the run fails without a second try, or None."""
    if broken:
        return "; ".join(broken)
    if not failed:
        return "pytest failed, but no test did"
    if len(failed) > MAX_FAILED:
        return f"{len(failed)} tests failed, which is more than {MAX_FAILED}"
    return None


def passes(test: str, options: list[str]) -> bool:
    """Whether this test, run alone, passes. A test that is skipped now did not pass."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "outcomes.json"
        command = [sys.executable, "-m", "pytest", "-n", "0", *options, "--outcomes", str(path), test]
        if subprocess.run(command).returncode != 0:
            return False
        return json.loads(path.read_text(encoding="utf-8"))["tests"] == {test: "passed"}


def summary(title: str, tests: list[str]) -> str:
    names = f" ({', '.join(tests)})" if tests else ""
    return f"{title}: {len(tests)}{names}"


def report(line: str) -> None:
    # Flushed at once, because pytest writes to the same output between these lines.
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
