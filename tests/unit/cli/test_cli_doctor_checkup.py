"""`kcli doctor --check-up`: the text and JSON of findings, the exit code, and the options."""

from __future__ import annotations

import json

import pytest

from kcli.cli.main import run
from kcli.cli.tools.doctor import checkup
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity
from rigs.scripted_cluster import ScriptedCluster

FINDINGS = [
    CheckupFinding(Severity.CRITICAL, "no-leader", "cluster", "Bad", ("t-0", "t-1"), "kcli topics"),
    CheckupFinding(Severity.UNKNOWN, "clocks", "cluster", "Not known"),
]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[CheckupFinding]:
    findings = list(FINDINGS)
    monkeypatch.setattr(checkup, "check_up", lambda *_: findings)
    return findings


def check_up(*words: str) -> int:
    cluster = ScriptedCluster()
    with cluster.server:
        return run(
            ["doctor", "--check-up", "--looks", "1", "--bootstrap-server", cluster.server.address, *words]
        )


def test_the_text_of_findings(found: list[CheckupFinding], capsys: pytest.CaptureFixture[str]) -> None:
    assert check_up() == 1
    assert capsys.readouterr().out == (
        "critical  no-leader: cluster: Bad\n"
        "             t-0\n"
        "             t-1\n"
        "          -> kcli topics\n"
        "unknown   clocks: cluster: Not known\n"
        "21 checks: 1 critical, 1 unknown\n"
    )
    del found[0]
    assert check_up() == 0
    del found[0]
    assert check_up() == 0
    assert capsys.readouterr().out.endswith("21 checks: no problem found\n")


def test_a_name_cannot_control_the_terminal(
    found: list[CheckupFinding], capsys: pytest.CaptureFixture[str]
) -> None:
    found[:] = [CheckupFinding(Severity.ADVICE, "x", "group \x1b[2Ja", "text", ("a\nb",))]
    assert check_up() == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert (r"group \x1b[2Ja" in first, r"a\x0ab" in second) == (True, True)


def test_json_has_one_object_for_each_finding(
    found: list[CheckupFinding], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_up("--output", "json") == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "severity": "CRITICAL",
        "check": "no-leader",
        "subject": "cluster",
        "text": "Bad",
        "evidence": ["t-0", "t-1"],
        "command": "kcli topics",
    }
    assert second["severity"] == "UNKNOWN"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "t"), "--check-up checks all topics"),
        (("--looks", "0"), "--looks must be positive"),
        (("--metrics", "nowhere"), "nowhere"),
    ],
)
def test_options_that_do_not_fit(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--check-up", "--bootstrap-server", "127.0.0.1:1", *words]) == 1
    assert message in capsys.readouterr().err
