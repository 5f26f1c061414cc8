"""Reassignment and balance on the console, on a scripted cluster whose partitions move."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kcli.client.reassign import execution
from kcli.console.settings import ClusterSettings
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey
from rigs.console import Browser, browser, console
from rigs.loops import on_a_loop, until
from rigs.moving_cluster import MovingCluster

API = "/api/clusters/main"
PARTITIONS = {TopicPartition("t", number): ((1, 2), (2, 1))[number % 2] for number in range(6)}


@contextlib.asynccontextmanager
async def opened(
    monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[MovingCluster, Browser]]:
    """Broker 3 has joined without replicas."""
    monkeypatch.setattr(execution, "GROWTH_SECONDS", 0.01)
    monkeypatch.setattr(execution, "POLL_SECONDS", 0.01)
    sizes = dict.fromkeys(PARTITIONS, 1_000_000)
    with MovingCluster({1: "a", 2: "b", 3: "c"}, PARTITIONS, sizes) as cluster:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": cluster.address})
        async with console(main, **settings) as address, browser(address) as page:
            await page.open()
            yield cluster, page


async def run_of(page: Browser) -> Any:
    return (await page.get(f"{API}/balance"))["run"]


async def over(page: Browser) -> Any:
    """Waits for the end of the run, and returns it."""

    async def is_over() -> bool:
        return bool((await run_of(page))["is_over"])

    await until(is_over)
    return await run_of(page)


def text_of(path: Path | str) -> str:
    return Path(path).read_text(encoding="utf-8")


@on_a_loop
async def test_a_preview_shows_the_brokers_and_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (cluster, page):
        answer = await page.post(f"{API}/balance", {"preview": True})
        assert answer["summary"] == "Would move 4 replicas (4.0 MB) of 4 partitions in 1 batch."
        assert answer["command"].endswith(
            f"reassign-partitions --bootstrap-server {cluster.address} --balance"
        )
        rows = answer["details"]["brokers"]
        assert [(row["broker"], row["replicas_before"], row["replicas_after"]) for row in rows] == [
            (1, 6, 4),
            (2, 6, 4),
            (3, 0, 4),
        ]
        assert len(answer["details"]["moves"]) == 4
        assert not cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        assert await run_of(page) is None


@on_a_loop
async def test_a_run_moves_the_partitions_and_removes_its_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (cluster, page):
        answer = await page.post(f"{API}/balance", {"throttle": 1_000_000})
        assert answer["command"].endswith("--balance --throttle 1000000")
        run = await over(page)
        assert run["error"] is None
        assert run["lines"][-1] == "Done."
        assert "Batch 1 of 1: 4 partitions, 4.0 MB" in run["lines"]
        assert sum(3 in replicas for replicas in cluster.replicas.values()) == 4
        assert not cluster.throttled()
        assert '"topic":"t"' in run["undo"]
        again = await page.post(f"{API}/balance", {"preview": True})
        assert again["summary"] == "Nothing to move. The brokers are even."


@on_a_loop
async def test_a_run_is_stopped_and_its_throttle_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (cluster, page):
        cluster.looks = 1_000_000
        await page.post(f"{API}/balance", {"throttle": 1_000_000})

        async def is_moving() -> bool:
            return (await page.get(f"{API}/balance"))["run"]["current"] is not None

        await until(is_moving)
        refused = await page.post(f"{API}/balance", {})
        assert (page.status, "A run is in progress" in refused["message"]) == (400, True)
        answer = await page.post(f"{API}/balance/stop", {})
        assert answer["summary"].startswith("The run has stopped.")
        run = await run_of(page)
        assert (run["is_over"], run["error"]) == (True, "The run was stopped.")
        assert not cluster.throttled()
        await page.post(f"{API}/balance/stop", {})
        assert page.status == 400


@on_a_loop
async def test_moves_in_progress_are_listed_throttled_and_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (cluster, page):
        partition = TopicPartition("t", 0)
        cluster.running[partition] = (3, 2)
        cluster.looks_left = 1_000_000
        (row,) = (await page.get(f"{API}/reassignments"))["rows"]
        assert (row["topic"], row["partition"], row["adding"], row["removing"]) == ("t", 0, [3], [1])
        answer = await page.post(f"{API}/reassignments/throttle", {"rate": 5_000_000})
        assert (
            "--execute --additional --throttle 5000000 --reassignment-json-file moves.json"
            in answer["command"]
        )
        assert cluster.throttled()
        await page.post(f"{API}/reassignments/throttle", {"rate": 0})
        assert not cluster.throttled()
        await page.post(f"{API}/reassignments/cancel", {"partitions": ["t:5"]})
        assert page.status == 400
        answer = await page.post(f"{API}/reassignments/cancel", {"partitions": ["t:0"]})
        assert answer["summary"] == "1 move was cancelled. The partition keeps its old replicas."
        assert '"replicas":[3,2]' in answer["command"]
        (request,) = cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        assert request.topics[0].partitions[0].replicas is None


@on_a_loop
async def test_brokers_are_emptied_and_topics_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (_, page):
        answer = await page.post(f"{API}/balance", {"leaving": ["1"], "preview": True})
        assert answer["command"].endswith("--decommission 1")
        assert [row["replicas_after"] for row in answer["details"]["brokers"]] == [0, 6, 6]
        answer = await page.post(f"{API}/balance", {"topics": ["a.b", "x*"], "preview": True})
        assert answer["summary"] == "Nothing to move. The brokers are even."
        assert answer["command"].endswith("--topics 'a\\.b|x.*'")


@on_a_loop
async def test_invalid_wishes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (_, page):
        for body in (
            {"leaving": ["x"]},
            {"leaving": ["1"], "topics": ["t"]},
            {"leaving": ["1", "2", "3"]},
            {"topics": ["(a+)+$"]},
            {"replication_factor": 9},
            {"throttle": -1},
        ):
            await page.post(f"{API}/balance", {**body, "preview": True})
            assert page.status == 400, body


@on_a_loop
async def test_a_console_that_only_reads_starts_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, is_read_only=True) as (_, page):
        await page.post(f"{API}/balance", {"preview": True})
        assert page.status == 403


@on_a_loop
async def test_a_run_writes_its_undo_file_and_its_end_is_in_the_audit_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    settings = {"audit_file": str(audit), "undo_directory": tmp_path}
    async with opened(monkeypatch, **settings) as (cluster, page):
        await page.post(f"{API}/balance", {})
        run = await over(page)
        cluster.refused = dict.fromkeys(PARTITIONS, ErrorCode.POLICY_VIOLATION)
        await page.post(f"{API}/balance", {"replication_factor": 3})
        assert "refused moves" in (await over(page))["error"]
    assert run["undo_path"].startswith(str(tmp_path))
    assert text_of(run["undo_path"]) == run["undo"] + "\n"
    lines = [json.loads(line) for line in text_of(audit).splitlines()]
    ends = [
        (line["result"], line.get("message", "")) for line in lines if line["action"].startswith("end of")
    ]
    assert [result for result, _ in ends] == ["ok", "FAILED"]
    assert "The controller refused moves" in ends[1][1]


@on_a_loop
async def test_without_its_undo_file_nothing_moves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with opened(monkeypatch, undo_directory=tmp_path / "missing") as (cluster, page):
        answer = await page.post(f"{API}/balance", {})
        assert (page.status, "Cannot write the undo file" in answer["message"]) == (400, True)
        assert await run_of(page) is None
        assert not cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS)


@on_a_loop
async def test_a_run_ends_with_its_console_and_the_audit_log_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    async with opened(monkeypatch, audit_file=str(audit)) as (cluster, page):
        cluster.looks = 1_000_000
        await page.post(f"{API}/balance", {})
    last = json.loads(text_of(audit).splitlines()[-1])
    assert (last["action"], last["result"]) == ("end of balance brokers", "STOPPED")


@on_a_loop
async def test_the_commands_of_a_stop_remove_the_throttle_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (cluster, page):
        cluster.looks = 1_000_000
        await page.post(f"{API}/balance", {"topics": ["t"], "throttle": 1_000_000})

        async def is_moving() -> bool:
            return bool(cluster.running)

        await until(is_moving)
        answer = await page.post(f"{API}/balance/stop", {"preview": True})
        assert answer["command"].splitlines()[-1] == (
            f"kcli configs --bootstrap-server {cluster.address} --alter --entity-type topics --entity-name t "
            "--delete-config follower.replication.throttled.replicas,leader.replication.throttled.replicas"
        )
        assert "--entity-type brokers --entity-name 3 --delete-config follower" in answer["command"]
        assert cluster.throttled()
        answer = await page.post(f"{API}/reassignments/throttle", {"rate": 0})
        assert "--delete-config" in answer["command"]
        answer = await page.post(f"{API}/balance/stop", {})
        assert answer["command"] == "# The moves in progress have no throttle."
