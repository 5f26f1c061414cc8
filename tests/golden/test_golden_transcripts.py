"""The recorded command-line stories of Apache Kafka 4.1.0, replayed: same words in, same bytes and exit codes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rigs import replay
from rigs.known_differences import KNOWN, UNSTEADY

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(not replay.CLI.is_dir(), reason="the recordings of Kafka 4.1 are absent"),
]

STORIES = (
    "acls-basic",
    "topics-basic",
    "configs-topics-brokers",
    "configs-users-quotas",
    "console-roundtrip",
    "console-formatters",
    "groups-classic",
    "groups-reset-offsets",
    "offsets-deleterecords-logdirs",
    "cluster-features-quorum",
    "storage-format",
    "perf-verifiable",
    "topic-lifecycle-mix",
    "no-security",
    "reassign",
    "transactions",
)

SECURITY_STORIES = (
    "sec-acls-shortcuts",
    "sec-allow-everyone",
    "sec-authorizer-log",
    "sec-tokens",
    "sec-permissions",
    "sec-permissions-admin",
    "sec-sasl-login",
    "sec-scram",
    "sec-tls",
    "sec-txn-idempotent-autocreate",
)

CLUSTER_STORIES = (
    "cl-storage-format",
    "cl-cluster",
    "cl-configs",
    "cl-groups-failover",
    "cl-leader-election",
    "cl-log-dirs",
    pytest.param("cl-node-down", marks=pytest.mark.full),  # its clients wait for time-outs for two minutes
    "cl-quorum-dynamic",
    "cl-reassign",
    "cl-topics",
)


@pytest.mark.parametrize("name", STORIES)
def test_each_step_prints_and_exits_as_recorded(name: str, tmp_path: Path) -> None:
    check(replay.stories()[name], tmp_path)


@pytest.mark.skipif(not replay.CLI_2.is_dir(), reason="the recordings of Kafka 4.1 are absent")
@pytest.mark.parametrize("name", CLUSTER_STORIES)
def test_each_step_on_three_nodes_prints_and_exits_as_recorded(name: str, tmp_path: Path) -> None:
    check(replay.stories(replay.CLI_2)[name], tmp_path)


@pytest.mark.skipif(not replay.CLI_2.is_dir(), reason="the recordings of Kafka 4.1 are absent")
@pytest.mark.parametrize("name", SECURITY_STORIES)
def test_each_step_on_a_secured_node_prints_and_exits_as_recorded(name: str, tmp_path: Path) -> None:
    check(replay.stories(replay.CLI_2)[name], tmp_path)


def check(story: dict[str, Any], directory: Path) -> None:
    """Fails if a step differs from its recording and is not a known difference."""
    compared = list(replay.replay(story, directory))
    assert compared, "no step of this story could be played"
    different = {each.id: each for each in compared if each.differences}
    steady = {each.id for each in compared} - UNSTEADY.keys()
    new = [_shown(different[step]) for step in sorted(different.keys() & steady) if step not in KNOWN]
    assert not new, "\n\n".join(new)
    mended = sorted(step for step in steady & KNOWN.keys() if step not in different)
    assert not mended, f"equal now, take them out of known_differences.py: {mended}"


def _shown(compared: replay.Compared) -> str:
    step: dict[str, Any] = compared.recorded
    came = compared.came
    assert came is not None
    lines = [f"{compared.id} {' '.join(step.get('argv', ()))}: {', '.join(compared.differences)}"]
    for stream in ("stdout", "stderr"):
        lines += [f"recorded {stream}: {step[stream]!r}", f"came:     {getattr(came, stream)!r}"]
    return "\n".join(lines)


def _step(**changes: Any) -> dict[str, Any]:
    return {"id": "s/1", "exit": 0, "stdout": "", "stderr": "", "volatile": []} | changes


@pytest.mark.parametrize(
    ("recorded", "came", "equal"),
    [
        ({"stdout": "a\n"}, ("a\n", "", 0), True),
        ({"stdout": "a\n"}, ("a", "", 0), False),
        ({"exit": 1}, ("", "", 0), False),
        ({"stdout": "n 5\n", "volatile": [r"stdout integer: \d+"]}, ("n 77\n", "", 0), True),
        ({"stdout": "n 5\n", "volatile": [r"stdout integer: \d+"]}, ("m 77\n", "", 0), False),
        ({"stdout": "a\nb\n", "volatile": ["stdout line-order"]}, ("b\na\n", "", 0), True),
        ({"stdout": "a  b\n", "volatile": ["stdout column-widths"]}, ("a     b\n", "", 0), True),
        ({"stdout": "a\nb\n", "compare": "set"}, ("b\na\na\n", "", 0), True),
        ({"stdout": "12 records, 3.5 ms\n", "compare": "shape"}, ("7 records, 12.25 ms\n", "", 0), True),
        ({"stdout": "12 records, 3.5 ms\n", "compare": "shape"}, ("7 records\n", "", 0), False),
        ({"stderr": "wrong\n", "stderr_notes": ["usage_text_omitted"]}, ("", "wrong\nOption\n", 0), True),
        ({"stderr": "wrong\n"}, ("", "wrong\nOption\n", 0), False),
        ({"stdout_notes": ["usage_text_omitted"]}, ("usage: x\n", "", 0), True),
        ({"stderr": "wrong\n"}, ("", "wrong\nDid you mean --this?\n", 0), True),
        ({"stderr": "p: error:  a   --\nb\n"}, ("", "p: error: a --b\n", 0), True),
        (
            {"stderr": "[2026-11-21 09:37:35,177] ERROR org.a.BException: no\n (org.a.C)\n\nx\n"},
            ("", "x\n", 0),
            True,
        ),
        ({"stderr": "no file\njava.nio.file.NoSuchFileException: f\n"}, ("", "no file\n", 0), True),
        ({"stderr": 'Exception in thread "main" joptsimple.XException: bogus\n'}, ("", "bogus\n", 0), True),
        ({"stdout": "a\n", "alt": {"stdout": "b\n"}}, ("b\n", "", 0), True),
    ],
)
def test_a_step_is_compared_by_exit_code_and_what_the_tool_printed(
    recorded: dict[str, Any], came: tuple[str, str, int], equal: bool
) -> None:
    compared = replay.compare(_step(**recorded), replay.Result(*came))
    assert (not compared.differences) is equal
