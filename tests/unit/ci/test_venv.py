"""`bin/_venv.sh` with a stub of pip: what is installed, when, and what happens if it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Writes down what it installs, and fails if the file `broken` has the name of one of the extras.
PYTHON = """\
#!/bin/sh
for last; do :; done
extras=${last#"$ROOT"}
echo "$extras" >>"$ROOT/installed"
echo "a log of $extras"
! grep -qxF "$extras" "$ROOT/broken"
"""


@dataclass(frozen=True)
class Project:
    root: Path

    def ensure(self, extras: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", '. "$ROOT/bin/_venv.sh"; ensure_venv "$1"', "sh", extras],
            env={**os.environ, "ROOT": str(self.root)},
            capture_output=True,
            text=True,
        )

    def installed(self) -> list[str]:
        """What was installed since the last call."""
        path = self.root / "installed"
        found = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "bin/_venv.sh", tmp_path / "bin/_venv.sh")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text(PYTHON)
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "broken").touch()
    return Project(tmp_path)


def test_the_extras_of_the_tests_are_installed_once(project: Project) -> None:
    assert project.ensure("test,spark").returncode == 0
    assert project.installed() == ["[test,spark]", "[jks]", "[kerberos]"]
    assert project.ensure("test,spark").returncode == 0
    assert project.installed() == []
    stamp = project.root / ".venv/.installed-test,spark"
    later = stamp.stat().st_mtime + 10
    os.utime(project.root / "pyproject.toml", (later, later))
    assert project.ensure("test,spark").returncode == 0
    assert len(project.installed()) == 3


def test_an_extra_that_cannot_be_compiled_costs_one_line(project: Project) -> None:
    (project.root / "broken").write_text("[jks]\n[kerberos]\n")
    result = project.ensure("test")
    assert result.returncode == 0
    _, jks, kerberos = result.stderr.splitlines()
    assert jks.startswith("The extra jks cannot be installed, so its tests are skipped.")
    assert kerberos.startswith("The extra kerberos cannot be installed")
    assert project.installed() == ["[test]", "[jks]", "[kerberos]"]
    assert project.ensure("test").stderr == ""
    assert project.installed() == []


@pytest.mark.parametrize("extras", ["", "spark"])
def test_users_get_only_what_they_ask_for(project: Project, extras: str) -> None:
    assert project.ensure(extras).returncode == 0
    assert project.installed() == [f"[{extras}]" if extras else ""]


def test_a_failed_installation_shows_its_log_and_is_tried_again(project: Project) -> None:
    (project.root / "broken").write_text("[test]\n")
    for _ in range(2):
        result = project.ensure("test")
        assert result.returncode == 1
        assert "a log of [test]" in result.stderr
        assert project.installed() == ["[test]"]


def test_the_test_requirements_need_no_compiler() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    section = pyproject.partition("\ntest = [")[2].partition("]")[0]
    assert "pytest" in section and "pyjks" not in section and "gssapi" not in section
