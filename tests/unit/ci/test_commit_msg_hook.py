"""The hook `commit-msg` as a process: which messages it refuses, and that `make hooks` installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOOK = ROOT / "bin" / "hooks" / "commit-msg"
BODY = "\n\nBefore: it did not roll.\nChange: it does.\n"


def faults(path: Path, message: str) -> list[str]:
    """What the hook prints about this message, without the place of the message."""
    path.write_text(message, encoding="utf-8")
    result = subprocess.run([sys.executable, HOOK, path], capture_output=True, encoding="utf-8")
    assert result.stdout == ""
    assert result.returncode == (1 if result.stderr else 0), result.stderr
    *lines, place = result.stderr.splitlines() or [""]
    assert place.endswith(str(path)) or not lines
    return [line.removeprefix("commit-msg: ") for line in lines]


@pytest.mark.parametrize(
    "message",
    [
        f"storage: roll on time{BODY}",
        f"Roll on time{BODY}",
        f"{'é' * 60}{BODY}",
        f"\n# a comment\nRoll on time\n# another\n\n{BODY}",
        f"Roll on time{BODY}# ------------------------ >8 ------------------------\ndiff --git a/x b/x\n",
        "docs: fix a typo",
        "Fix typos in the help\n",
        f"testing: set a name{BODY}",
        f"Bring a speed, read and need of embedding{BODY}",
        f"Process added topics{BODY}",
        f"Use fixed-size buffers...and more{BODY}",
        f"Merge branch 'a-name-that-makes-the-subject-longer-than-sixty-characters' into main{BODY}",
        f"Merge remote-tracking branch 'origin/main'{BODY}",
        f"Merge pull request #12 from somewhere/else{BODY}",
    ],
)
def test_messages_that_keep_the_rules(tmp_path: Path, message: str) -> None:
    assert faults(tmp_path / "message", message) == []


@pytest.mark.parametrize(
    "subject",
    [
        'Revert "storage: roll on time, with a subject that has sixty characters"',
        'Reapply "storage: roll on time"',
        "fixup! storage: roll on time",
        "squash! storage: roll on time",
        "amend! storage: roll on time",
    ],
)
def test_subjects_of_git_itself_are_free(tmp_path: Path, subject: str) -> None:
    assert faults(tmp_path / "message", subject) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("", "the message is empty"),
        ("\n# only comments\n", "the message is empty"),
        (f"{'a' * 61}{BODY}", "the subject has 61 characters"),
        (f"4 segments roll{BODY}", "start with a letter"),
        (f"[storage] roll on time{BODY}", "start with a letter"),
        (f"Roll on time.{BODY}", "end in a period"),
        (f"Added a roll{BODY}", "not 'Added'"),
        (f"storage: fixing the roll{BODY}", "not 'fixing'"),
        ("Roll on time", "a body is missing"),
        ("Roll on time\n\n\n# Before: a comment of git\n", "a body is missing"),
        (
            "Roll on time\n\nSigned-off-by: A <a@example.com>\nCo-authored-by: B <b@example.com>",
            "a body is missing",
        ),
        ("Roll on time\n# ------------------------ >8 ------------------------\n\ndiff", "a body is missing"),
        ("Roll on time\nBefore: it did not.\n", "a blank line must follow"),
        ("Roll on time\nfix a typo\n", "a blank line must follow"),
        ("Merge two tables of errors", "a body is missing"),
        ("Merge branch 'typo' into main", "a body is missing"),
        (
            "Merge pull request #12 from somewhere/else\n\nSigned-off-by: A <a@example.com>",
            "a body is missing",
        ),
        ("Refuse atypouse", "a body is missing"),
    ],
)
def test_the_hook_reports_each_broken_rule(tmp_path: Path, message: str, fault: str) -> None:
    (found,) = faults(tmp_path / "message", message)
    assert fault in found


def test_every_fault_is_reported_at_once(tmp_path: Path) -> None:
    assert len(faults(tmp_path / "message", f"1 {'a' * 60}.")) == 4


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("git") is None, reason="needs make and git")
def test_make_hooks_installs_it(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(HOOK.parent, tmp_path / "bin" / "hooks")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # No settings of the developer: the test must not sign commits or use other hooks.
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def succeeds(*command: str) -> bool:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True).returncode == 0

    def commit(message: str) -> bool:
        author = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        return succeeds("git", *author, "commit", "--allow-empty", "--message", message)

    assert succeeds("git", "init")
    assert succeeds("make", "hooks")
    assert not commit("Roll on time")
    assert commit(f"Roll on time{BODY}")
