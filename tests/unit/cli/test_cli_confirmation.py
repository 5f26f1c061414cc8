"""Tools that delete ask first, if a terminal is there."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import Kcli, ScriptedCluster


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_deletion_asks_at_a_terminal(
    kcli: Kcli,
    cluster: ScriptedCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answer: str,
    code: int,
) -> None:
    def at_terminal(*words: str) -> tuple[int, str]:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        monkeypatch.setattr(sys, "stderr", terminal)
        done = kcli(*words)
        monkeypatch.undo()
        return done.code, terminal.getvalue()

    status, prompt = at_terminal("topics", "--delete", "--topic", "t")
    assert status == code
    assert prompt.startswith("This deletes topic t with all records.\nContinue? [y/N] ")
    assert len(cluster.server.sent(ApiKey.DELETE_TOPICS)) == (code == 0)
    assert ("Nothing was deleted." in prompt) == (code == 1)
    assert at_terminal("topics", "--delete", "--topic", "u", "--yes") == (0, "")
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": -1}]}')
    status, prompt = at_terminal("delete-records", "--offset-json-file", str(file))
    assert status == code and prompt.startswith("This deletes the records of t-0 before the end.\n")
    status, prompt = at_terminal("delete-records", "--offset-json-file", str(file), "--yes")
    assert (status, prompt) == (0, "")


def test_deletion_does_not_ask_without_a_terminal(kcli: Kcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert kcli("topics", "--delete", "--topic", "t").code == 0
