"""Completion of topics, groups and profiles: asked of the cluster that the words name, silent when it is not there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.complete import candidates
from kcli.cli.syntax.registry import TOOLS
from kcli.protocol.messages import list_groups, metadata
from kcli.protocol.wire.api import ApiKey
from kcli.testing.broker_process import free_port
from rigs.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    def told(request: Any, version: int) -> metadata.MetadataResponse:
        names = ("orders", "old", "payments", "od\nd", "__consumer_offsets")
        broker = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=made.port)
        topics = tuple(
            metadata.MetadataResponseTopic(name=name, is_internal=name[0] == "_") for name in names
        )
        return metadata.MetadataResponse(brokers=(broker,), controller_id=1, topics=topics)

    def groups(request: Any, version: int) -> list_groups.ListGroupsResponse:
        return list_groups.ListGroupsResponse(
            groups=tuple(list_groups.ListedGroup(group_id=name) for name in ("readers", "writers"))
        )

    made = ScriptedServer({ApiKey.METADATA: told, ApiKey.LIST_GROUPS: groups})
    with made:
        yield made


def _complete(tool: str, words: list[str], incomplete: str) -> list[str]:
    return [candidate.value for candidate in candidates(TOOLS[tool].load(), words, incomplete)]


def test_names_come_from_the_cluster(server: ScriptedServer) -> None:
    at = ["--bootstrap-server", server.address]
    assert _complete("topics", [*at, "--topic"], "o") == ["old", "orders"], "none that would break the line"
    assert _complete("topics", [f"--bootstrap-server={server.address}", "--topic"], "pa") == ["payments"]
    assert _complete("topics", [*at, "--topic"], "__") == ["__consumer_offsets"]
    assert _complete("topics", [*at, "--topic"], "x") == []
    assert _complete("log-dirs", [*at, "--topic-list"], "orders,p") == ["orders,payments"]
    assert _complete("consumer-groups", [*at, "--describe", "--group"], "") == ["readers", "writers"]
    assert _complete("configs", [*at, "--entity-type", "groups", "--entity-name"], "r") == ["readers"]
    assert _complete("configs", [*at, "--entity-type", "topics", "--entity-name"], "p") == ["payments"]
    assert _complete(
        "transactions", ["--bootstrap-server", server.address, "describe-producers", "--topic"], "p"
    ) == ["payments"]
    assert _complete(
        "replica-verification", ["--broker-list", server.address, "--topics-include"], "pay"
    ) == ["payments"]


def test_names_come_through_a_profile(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert _complete("topics", ["--profile"], "") == []
    (tmp_path / "kcli").mkdir()
    (tmp_path / "kcli" / "profiles.toml").write_text(
        f"[local]\nbootstrap-server = '{server.address}'\n[prod]\nbootstrap-server = '127.0.0.1:1'\n"
    )
    assert _complete("topics", ["--profile"], "") == ["local", "prod"]
    assert _complete("profile", ["use"], "p") == ["prod"]
    assert _complete("profile", ["use", "prod"], "p") == _complete("profile", ["list"], "p") == []
    assert _complete("topics", ["--profile", "local", "--topic"], "pay") == ["payments"]
    monkeypatch.setenv("KCLI_PROFILE", "local")
    assert _complete("console-consumer", ["--group"], "w") == ["writers"]
    assert _complete("topics", ["--profile", "nowhere", "--topic"], "pay") == []


def test_a_cluster_that_does_not_answer_costs_a_moment_and_no_word() -> None:
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "kcli"],
        env=os.environ
        | {
            "_KCLI_COMPLETE": "complete_bash",
            "COMP_WORDS": f"kcli topics --bootstrap-server 127.0.0.1:{free_port()} --topic o",
            "COMP_CWORD": "5",
        },
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert time.monotonic() - begun < 30
    assert _complete("topics", ["--topic"], "o") == [], "no cluster is named"
    assert _complete("topics", ["--bootstrap-server", "nonsense", "--topic"], "o") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_answered(server: ScriptedServer, shell: str) -> None:
    words = f"kcli topics --bootstrap-server {server.address} --topic pay"
    environment = {
        "_KCLI_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": "5",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-m", "kcli"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "payments" in done.stdout and "orders" not in done.stdout
    assert done.stderr == ""
