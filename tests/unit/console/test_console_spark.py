"""Jobs of Spark on the console: checkpoints with their lag, and the applications of a Spark server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kcli.console.settings import ClusterSettings
from kcli.formats.spark_checkpoints import NoCheckpoint, read_checkpoints
from kcli.model.topic_partition import TopicPartition
from rigs.console import browser, console
from rigs.scripted_cluster import ScriptedCluster
from rigs.spark_jobs import BATCH_MS, QUERY, checkpoint, spark_server


def test_a_checkpoint_has_the_offsets_of_its_last_micro_batch_that_is_done(tmp_path: Path) -> None:
    made = checkpoint(tmp_path / "q", {"a": {"0": 5, "1": 6}}, {"b": {"0": 1}}, {"path": "x"}, planned=8)
    os.utime(made / "commits" / "7", (1_700_000_005, 1_700_000_005))
    (parsed,) = read_checkpoints(str(made))
    assert (parsed.name, parsed.query_id, parsed.batch, parsed.other_sources) == (
        "q",
        QUERY,
        7,
        ('{"path": "x"}',),
    )
    assert parsed.offsets == {TopicPartition("a", 0): 5, TopicPartition("a", 1): 6, TopicPartition("b", 0): 1}
    assert (parsed.committed_ms, parsed.planned_ms) == (1_700_000_005_000, BATCH_MS)


def test_the_checkpoints_below_a_directory_are_found(tmp_path: Path) -> None:
    for name in ("one", "two"):
        checkpoint(tmp_path / name, {"a": {"0": 5}})
    (tmp_path / "other").mkdir()
    assert [parsed.name for parsed in read_checkpoints(str(tmp_path))] == ["one", "two"]
    for wrong in (tmp_path / "other", tmp_path / "missing"):
        with pytest.raises(NoCheckpoint, match=str(wrong)):
            read_checkpoints(str(wrong))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "v1",
        "v1\n[]\n[]",
        "v1\n{}\n" + "[" * 100_000,
        'v1\n{}\n{"a": {"x": 1}}',
        'v1\n{}\n{"a": {"0": true}}',
        "\0",
    ],
)
def test_damaged_files_are_read_without_an_error(tmp_path: Path, content: str) -> None:
    made = checkpoint(tmp_path / "q", {"a": {"0": 5}})
    (made / "offsets" / "7").write_text(content)
    (made / "metadata").write_text(content)
    (parsed,) = read_checkpoints(str(made))
    assert (parsed.batch, parsed.offsets, parsed.query_id) == (7, {}, "")


def test_a_query_that_has_done_nothing_has_no_batch(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (parsed,) = read_checkpoints(str(tmp_path))
    assert (parsed.batch, parsed.committed_ms, parsed.offsets) == (None, None, {})


async def asked(path: str, **settings: Any) -> Any:
    with ScriptedCluster().server as server:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": server.address}, **settings)
        async with console(main) as address, browser(address) as page:
            await page.open()
            answer = await page.get(f"/api/clusters/main{path}")
            assert page.status == 200, answer
            return answer


def test_a_query_shows_its_lag_and_hides_unknown_topics(tmp_path: Path) -> None:
    made = checkpoint(tmp_path / "q", {"t": {"0": 1, "1": 11}}, {"secret": {"0": 3}})
    (row,) = asyncio.run(asked("/spark/queries", spark_checkpoints=(str(made),)))["rows"]
    assert [topic["topic"] for topic in row["topics"]] == ["t"]
    assert row["lag"] == row["topics"][0]["lag"] == 9
    assert (row["hidden_topics"], row["batch"]) == (1, 7)
    assert "secret" not in json.dumps(row)


def test_applications_show_their_jobs() -> None:
    attempt = {"startTimeEpoch": BATCH_MS, "sparkUser": "ann", "appSparkVersion": "4.0.0"}
    applications = [
        {
            "id": "app-2",
            "name": "word-count",
            "attempts": [{**attempt, "endTimeEpoch": -1, "completed": False}],
        },
        {
            "id": "app-1",
            "name": "export",
            "attempts": [{**attempt, "endTimeEpoch": BATCH_MS + 5, "completed": True}],
        },
        {"id": 5, "attempts": "x"},
        "x",
    ]
    jobs = [{"status": "RUNNING"}, {"status": "SUCCEEDED"}, {"status": "FAILED"}]
    with spark_server({"/api/v1/applications": applications, "/api/v1/applications/app-2/jobs": jobs}) as url:
        rows = asyncio.run(asked("/spark/applications", spark_urls=(url,)))["rows"]
    assert [(row["name"], row["is_running"], row["running_jobs"], row["failed_jobs"]) for row in rows] == [
        ("word-count", True, 1, 1),
        ("export", False, None, None),
        ("", False, None, None),
    ]
    assert (rows[0]["ended_ms"], rows[1]["ended_ms"]) == (None, BATCH_MS + 5)


def test_problems_are_shown_without_passwords(tmp_path: Path) -> None:
    with spark_server({"/api/v1/applications": b"<html>"}) as url:
        answer = asyncio.run(
            asked(
                "/spark",
                spark_urls=(url, "http://u:secret@127.0.0.1:1", "ftp://x"),
                spark_checkpoints=(str(tmp_path),),
            )
        )
    assert (answer["checkpoints"], answer["servers"], len(answer["problems"])) == (1, 3, 4)
    assert "has no checkpoint" in answer["problems"][0]
    assert "not Spark's REST API" in answer["problems"][1]
    assert "secret" not in json.dumps(answer)
