"""`.ci/run` as a process, in its own small project whose linters are stubs: which failures fail a run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COPIED = (".ci/run", ".ci/second_try.py", "bin/test", "bin/_venv.sh", "tests/conftest.py")
# Only the plugins whose options are used, because a process of pytest starts twice as fast with them.
PYPROJECT = """\
[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = "--import-mode=importlib -p xdist -p randomly -p hypothesispytest"
"""
# The head of each test module. `passes_from(2, name)` fails the first time and passes from the second time on.
TRIES = """\
import os
from pathlib import Path
import pytest

def tries(name):
    with Path(__file__).with_name(f"tries {name}").open("a+") as file:
        file.write("x")
        return file.tell()

def passes_from(first, name):
    assert tries(name) >= first

def test_good():
    pass

"""

# The programs that .ci/run needs, those that it installs with their packages, and those in /usr/sbin.
TOOLS = ("bash", "dirname")
INSTALLED = {
    "kcat": "kcat",
    "java": "openjdk-17-jre-headless",
    "man": "man-db",
    "krb5-config": "libkrb5-dev",
    "chromium": "chromium",
    "promtool": "prometheus",
    "pg_ctlcluster": "postgresql",
}
SYSTEM = ("krb5kdc", "kadmin.local", "mariadbd")

Run = Callable[[str], subprocess.CompletedProcess[str]]


def executable(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with the real scripts and a stub of every other check, without tests."""
    root = tmp_path / "project"
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "pyproject.toml").write_text(PYPROJECT)
    for name in ("ruff", "mypy", "lint-imports"):
        executable(root / ".venv/bin" / name, "exit 0")
    # A link would start a Python that does not find the packages of the virtual environment.
    executable(root / ".venv/bin/python", f'exec "{sys.executable}" "$@"')
    # The stamp is newer than pyproject.toml, so nothing is installed.
    (root / ".venv/.installed-test,spark,tables").touch()
    return root


@pytest.fixture
def run(project: Path, tmp_path: Path) -> Run:
    """Runs `.ci/run` of the project, with these lines after the head of its one test module."""
    for name in (*INSTALLED, *SYSTEM):
        executable(tmp_path / "installed" / name, "exit 0")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    environment["TEST_WORKERS"] = "2"
    # With Debian's Python, .ci/run would also install what that Python lacks.
    environment["PYTHON"] = sys.executable
    environment["PATH"] = f"{tmp_path / 'installed'}{os.pathsep}{environment['PATH']}"

    def run(lines: str) -> subprocess.CompletedProcess[str]:
        (project / "tests/test_some.py").write_text(TRIES + lines, encoding="utf-8")
        return subprocess.run(
            [project / ".ci/run"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    return run


def closing_lines(output: str) -> list[str]:
    return re.findall(r"^=+ .* in [0-9.]+s(?: \([0-9:]+\))? =+$", output, re.MULTILINE)


def run_without(project: Path, tmp_path: Path, *missing: str) -> subprocess.CompletedProcess[str]:
    """Runs `.ci/run` on a machine without some programs, whose apt-get cannot install a package."""
    programs = tmp_path / "programs"
    for name in (*INSTALLED, *SYSTEM):
        if name not in missing:
            executable(programs / name, "exit 0")
    for name in TOOLS:
        (programs / name).symlink_to(shutil.which(name) or name)
    executable(programs / "id", "echo 0")
    executable(
        programs / "apt-get", f'echo "$@" >>{tmp_path / "asked"}', 'case "$*" in *install*) exit 100 ;; esac'
    )
    executable(project / "bin/test", "echo the tests run")
    return subprocess.run(
        [project / ".ci/run"],
        env={"PATH": str(programs), "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


@pytest.mark.parametrize("missing", INSTALLED)
def test_a_program_that_cannot_be_installed_fails_the_run(
    project: Path, tmp_path: Path, missing: str
) -> None:
    result = run_without(project, tmp_path, missing)
    assert (result.returncode, result.stdout) == (1, f".ci/run: cannot install {INSTALLED[missing]}\n")
    update, install = (tmp_path / "asked").read_text().splitlines()
    assert update.endswith("update -qq")
    assert install.endswith(f"--no-install-recommends {INSTALLED[missing]}")


def test_a_clean_run_has_no_second_try(run: Run) -> None:
    result = run("")
    assert result.returncode == 0, result.stdout
    assert "second try" not in result.stdout
    assert closing_lines(result.stdout) == [result.stdout.splitlines()[-1]]


def test_a_test_that_passes_alone_is_listed_and_does_not_fail_the_run(run: Run) -> None:
    result = run(
        "IDS = ['two  words', 'a[b]::c -x \"$HOME\\'']\n"
        "@pytest.mark.parametrize('name', 'pq', ids=IDS)\n"
        "def test_odd(name): passes_from(2, name)\n"
        "class TestGröße:\n"
        "    @pytest.fixture\n"
        "    def broken(self): passes_from(2, 'fixture')\n"
        "    def test_setup(self, broken): pass\n"
    )
    assert result.returncode == 0, result.stdout
    *_, heading, count, closing = result.stdout.splitlines()
    assert heading.startswith("== unsteady")
    title, names = count.split(" (", 1)
    assert title == "unsteady: 3"
    assert set(names.removesuffix(")").split(", ")) == {
        "tests/test_some.py::test_odd[two  words]",
        "tests/test_some.py::test_odd[a[b]::c -x \"$HOME']",
        "tests/test_some.py::TestGröße::test_setup",
    }
    assert "2 failed, 1 passed, 1 error" in closing
    assert closing == closing_lines(result.stdout)[0]


def test_a_test_that_does_not_pass_alone_fails_the_run(run: Run) -> None:
    result = run(
        "def test_late(): passes_from(2, 'late')\n"
        "def test_bad(): passes_from(3, 'bad')\n"
        "def test_skipped_alone():\n"
        "    if tries('skipped') > 1: pytest.skip('not now')\n"
        "    raise AssertionError\n"
    )
    assert result.returncode == 1, result.stdout
    assert "unsteady: 1 (tests/test_some.py::test_late)\n" in result.stdout
    assert "failed twice: 2 (" in result.stdout
    assert result.stdout.splitlines()[-1] == closing_lines(result.stdout)[0]


def test_more_than_three_failures_have_no_second_try(run: Run, project: Path) -> None:
    result = run("@pytest.mark.parametrize('name', 'pqrs')\ndef test_unsteady(name): passes_from(2, name)\n")
    assert result.returncode == 1, result.stdout
    assert "no second try: 4 tests failed" in result.stdout
    assert "4 failed, 1 passed" in result.stdout.splitlines()[-1]
    assert (project / "tests/tries p").read_text() == "x"


def test_a_linter_that_fails_has_no_second_try(run: Run, project: Path) -> None:
    executable(project / ".venv/bin/ruff", "exit 1")
    result = run("def test_unsteady(): passes_from(2, 'unsteady')\n")
    assert result.returncode not in (0, 1), result.stdout
    assert "second try" not in result.stdout
    assert "1 failed, 1 passed" in closing_lines(result.stdout)[0]


def test_a_module_that_cannot_be_collected_has_no_second_try(run: Run, project: Path) -> None:
    (project / "tests/test_broken.py").write_text("import a_module_that_is_missing\n")
    result = run("def test_unsteady(): passes_from(2, 'unsteady')\n")
    assert result.returncode == 1, result.stdout
    assert "no second try: tests/test_broken.py cannot be collected" in result.stdout


def test_a_worker_that_dies_has_no_second_try(run: Run) -> None:
    result = run("def test_deadly():\n    if tries('deadly') == 1: os._exit(1)\n")
    assert result.returncode == 1, result.stdout
    assert re.search(r"no second try: worker gw\d died", result.stdout)


def test_a_session_that_is_interrupted_has_no_second_try(run: Run) -> None:
    result = run("def test_stops():\n    if tries('stops') == 1: pytest.exit('enough')\n")
    assert result.returncode not in (0, 1), result.stdout
    assert "second try" not in result.stdout


def test_a_usage_error_has_no_second_try(run: Run, project: Path) -> None:
    pyproject = project / "pyproject.toml"
    pyproject.write_text(PYPROJECT.replace("-p xdist", "-p xdist --no-such-option"))
    (project / ".venv/.installed-test,spark,tables").touch()
    result = run("")
    assert result.returncode == 4, result.stdout
    assert "second try" not in result.stdout
