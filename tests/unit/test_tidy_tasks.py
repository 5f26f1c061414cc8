"""Code that a request reaches has no task until it suspends. So such code must not use the parts of asyncio that need a
task: `within` of kcli/runtime/turns.py limits its time."""

from __future__ import annotations

import ast
from pathlib import Path

KCLI = Path(__file__).resolve().parents[2] / "kcli"

NEED_A_TASK = frozenset({"timeout", "timeout_at", "TaskGroup", "wait_for", "current_task"})
"""In Python 3.11, `wait_for` works without a task. In later versions it does not."""

RUN_IN_A_TASK = {
    "broker_lifecycle.py": "the task that registers the broker and sends its heartbeats",
    "endpoint.py": "aiohttp's task for a request of the metrics",
    "fetcher.py": "the task of a replica fetcher",
    "housekeeping.py": "the tasks of periodic jobs",
    "key_source.py": "the task that fetches the keys of a token server",
    "listener.py": "the task that stops the node",
    "log_cleaning.py": "the task that cleans logs",
    "marker_sender.py": "the task that sends the markers of transactions",
    "node.py": "the tasks that start and stop the node",
    "places.py": "aiohttp's task for a request of the metrics",
    "quorum.py": "the task that stops the node",
    "raft_peers.py": "the task that sends to another voter",
    "shard_runner.py": "the task that stops the node",
}
"""The files that may use them, because only the named task runs this code."""


def test_only_code_that_runs_in_its_own_task_needs_a_task() -> None:
    found = {path.name for path in (KCLI / "server").rglob("*.py") if _needs_a_task(path)}
    assert found == set(RUN_IN_A_TASK)


def test_no_handler_may_need_a_task() -> None:
    reachable = [*(KCLI / "server/handlers").rglob("*.py"), *(KCLI / "server/requests").rglob("*.py")]
    assert [path.name for path in reachable if path.name in RUN_IN_A_TASK] == []


def _needs_a_task(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        (
            isinstance(node, ast.Attribute)
            and node.attr in NEED_A_TASK
            and ast.unparse(node.value) == "asyncio"
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "asyncio"
            and not NEED_A_TASK.isdisjoint(alias.name for alias in node.names)
        )
        for node in ast.walk(tree)
    )
