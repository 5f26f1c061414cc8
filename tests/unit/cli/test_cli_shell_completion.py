"""Words as bash breaks them, and the values and paths that are offered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcli import KAFKA_VERSION, VERSION
from kcli.cli import main
from kcli.cli.complete import candidates, help_candidates
from kcli.cli.shell_completion import joined_words
from kcli.cli.syntax.registry import TOOLS


@pytest.mark.parametrize(
    ("words", "joined", "before"),
    [
        ("kcli topics --to", "kcli topics --to", ""),
        (
            "kcli topics --bootstrap-server h : 9092 --topic or",
            "kcli topics --bootstrap-server h:9092 --topic or",
            "",
        ),
        ("kcli topics --bootstrap-server h : 9", "kcli topics --bootstrap-server h:9", "h:"),
        ("kcli topics --bootstrap-server h :", "kcli topics --bootstrap-server h:", "h:"),
        (
            "kcli a --bootstrap-server h : 1,i : 2 --topic x",
            "kcli a --bootstrap-server h:1,i:2 --topic x",
            "",
        ),
        ("kcli topics --topic = or", "kcli topics --topic or", ""),
        ("kcli topics --bootstrap-server = h : 9", "kcli topics --bootstrap-server h:9", "h:"),
        ("kcli topics --topic = or --li", "kcli topics --topic=or --li", ""),
    ],
)
def test_words_that_bash_has_broken_are_joined(words: str, joined: str, before: str) -> None:
    line = joined_words(words.split(), len(words.split()) - 1)
    assert line == (joined.split(), len(joined.split()) - 1, before)


def complete(*words: str) -> list[str]:
    """Returns the completions that bash gets for the last word."""
    environment = os.environ | {
        "_KCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "kcli"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_gets_only_the_part_after_the_last_break() -> None:
    assert complete("kcli", "configs", "--entity-type", "=", "bro") == ["broker-loggers", "brokers"]
    assert complete("kcli", "topics", "--bootstrap-server", "h", ":", "9092", "--lis") == ["--list"]


def test_help_completes_commands_and_their_sub_commands() -> None:
    assert complete("kcli", "help", "log-") == ["log-dirs"]
    assert complete("kcli", "help", "profile", "") == ["list", "use", "forget"]
    assert help_candidates(["topics", "x"], "") == help_candidates(["topcs"], "") == []


def test_values_and_paths_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "1.log").touch()
    (tmp_path / "logs" / "1.index").touch()
    monkeypatch.chdir(tmp_path)

    def offered(tool: str, option: str, incomplete: str) -> list[str]:
        return [candidate.value for candidate in candidates(TOOLS[tool].load(), [option], incomplete)]

    assert offered("configs", "--entity-type", "c") == ["client-metrics", "clients"]
    assert offered("leader-election", "--election-type", "") == ["preferred", "unclean"]
    assert offered("dump-log", "--files", "lo") == ["logs/"]
    assert offered("dump-log", "--files", "logs/1.log,logs/1") == [
        "logs/1.log,logs/1.index",
        "logs/1.log,logs/1.log",
    ]
    assert offered("topics", "--command-config", f"{tmp_path}/l") == [f"{tmp_path}/logs/"]


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "--command kcli")]
)
def test_completion_is_installed_for_the_named_shell(
    shell: str, mark: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main.run(["--show-completion", shell]) == 0
    assert mark in capsys.readouterr().out
    assert main.run(["--install-completion", shell]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{shell} completion installed in {tmp_path}")
    assert mark in Path(said.split()[4].rstrip(".")).read_text()
    assert main.run(["--install-completion", "tcsh"]) == 1


def test_help_and_version_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["version"]) == 0
    assert capsys.readouterr().out == f"kcli {VERSION} (Apache Kafka {KAFKA_VERSION})\n"
    assert main.run(["help"]) == 0
    assert "topics" in capsys.readouterr().out
    assert main.run(["help", "topics"]) == 0
    assert "--partitions" in capsys.readouterr().out
    assert main.run(["help", "spark-submit", "export"]) == 0
    assert "--path" in capsys.readouterr().out
    assert main.run(["help", "topcs"]) == 2
    assert "topics" in capsys.readouterr().err
