"""`topics --apply` against a broker: the plan, what it does, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess

Apply = Callable[..., tuple[int, str, str]]


@pytest.fixture
def apply(broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Apply:
    def call(text: str, *words: str) -> tuple[int, str, str]:
        path = tmp_path / "topics.yaml"
        path.write_text(text)
        code = run(["topics", "--bootstrap-server", broker.bootstrap, "--apply", str(path), *words])
        said = capsys.readouterr()
        return code, said.out, said.err.replace(str(path), "FILE")

    return call


def test_apply_makes_topics_what_the_file_says(apply: Apply) -> None:
    text = """\
topics:
  applied-a: {partitions: 2, replication-factor: 1, configs: {retention.ms: 1000, cleanup.policy: [compact, delete]}}
  applied-b:
"""
    plan = (
        "create applied-a: partitions 2, replication-factor 1, retention.ms 1000, cleanup.policy compact,delete\n"
        "create applied-b\nPlan: 2 to create, 0 to alter, 0 to delete, 0 unchanged.\n"
    )
    assert apply(text, "--dry-run") == (2, plan, "")
    assert apply(text, "--dry-run") == (2, plan, ""), "a dry run changes nothing"
    code, said, _ = apply(text)
    assert (code, said.splitlines()[-1]) == (
        0,
        "Done: 2 created, 0 altered, 0 deleted, 0 unchanged, 0 failed.",
    )
    assert apply(text, "--dry-run")[0] == 0
    assert apply(text)[1].splitlines()[-1] == "Done: 0 created, 0 altered, 0 deleted, 2 unchanged, 0 failed."
    text = text.replace("partitions: 2", "partitions: 3").replace("1000", "").replace("compact, ", "")
    code, said, _ = apply(text, "--output", "json")
    assert code == 0
    first, second = map(json.loads, said.splitlines())
    assert first == {
        "topic": "applied-a",
        "action": "alter",
        "changes": [
            {"setting": "partitions", "before": "2", "after": "3"},
            {"setting": "retention.ms", "before": "1000", "after": None},
            {"setting": "cleanup.policy", "before": "compact,delete", "after": "delete"},
        ],
        "dry_run": False,
        "error": None,
    }
    assert (second["action"], second["changes"]) == ("unchanged", [])
    assert apply(text, "--dry-run")[0] == 0


def test_errors_are_reported_before_any_change(apply: Apply) -> None:
    assert apply("topics:\n  refused-a: {partitions: 2}\n")[0] == 0
    code, said, words = apply(
        "topics:\n  refused-new:\n  refused-a:\n    replication-factor: 3\n  refused-b:\n    replication-factor: 3\n"
    )
    assert (code, said) == (1, "")
    assert words == (
        "FILE:4: topic refused-a has replication-factor 1, not 3: use reassign-partitions to move replicas\n"
        "Nothing was changed.\n"
    )
    code, said, words = apply("topics:\n  refused-new:\n  refused-b:\n    replication-factor: 3\n")
    assert (code, said) == (1, "")
    assert words.startswith("FILE:3: topic refused-b: ") and words.endswith("Nothing was changed.\n")
    code, _, words = apply("topics:\n  refused-a:\n    partitions: 1\n")
    assert code == 1
    assert words.startswith(
        "FILE:3: topic refused-a has 2 partitions, more than 1: partitions cannot be removed"
    )
    assert apply("topics:\n  refused-new:\n", "--dry-run")[0] == 2, "none of that was done"


def test_only_prune_deletes_and_only_with_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "topics.yaml"
    with BrokerProcess(tmp_path / "broker") as broker:

        def apply(text: str, *words: str) -> tuple[int, str, str]:
            file.write_text(text)
            code = run(["topics", "--bootstrap-server", broker.bootstrap, "--apply", str(file), *words])
            said = capsys.readouterr()
            return code, said.out, said.err

        assert apply("topics:\n  kept: {configs: {retention.ms: 1000}}\n  old:\n")[0] == 0
        less = "topics:\n  kept: {configs: {segment.ms: 2000}}\n"
        assert apply(less)[1] == (
            "altered kept: segment.ms default -> 2000\nDone: 0 created, 1 altered, 0 deleted, 0 unchanged, 0 failed.\n"
        )
        code, said, words = apply(less, "--prune")
        assert (code, said) == (1, "")
        assert (
            words == "--prune would delete old: without a terminal this needs --yes. Nothing was changed.\n"
        )
        code, said, _ = apply(less, "--prune", "--yes")
        assert (code, said.splitlines()[:2]) == (
            0,
            ["altered kept: retention.ms 1000 -> default", "deleted old"],
        )
        assert apply(less, "--prune", "--dry-run")[0] == 0
