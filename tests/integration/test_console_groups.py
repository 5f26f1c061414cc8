"""The pages of consumer groups on the console, against a broker."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kcli.cli.running import _parsed
from kcli.cli.syntax.registry import TOOLS
from kcli.console.group_memory import WATCHED_GROUPS_MAX
from kcli.console.settings import ClusterSettings
from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.wire.api import ApiKey
from rigs import groups
from rigs.console import Browser, browser, console
from rigs.groups import Speaker
from rigs.loops import on_a_loop
from rigs.node import send

API = "/api/clusters/main"


@contextlib.asynccontextmanager
async def opened(directory: Path, **settings: Any) -> AsyncIterator[tuple[Speaker, Browser]]:
    """A broker with the topic t of two partitions: nine records in t-0. A browser at a console of this broker."""
    async with groups.running(directory, group_initial_rebalance_delay_ms="0") as speaker:
        await speaker.find()
        await speaker.create("t", 2)
        records = [Record(number, 1_700_000_000_000 + number, None, b"v", ()) for number in range(9)]
        await send(speaker.client, "t", bytes(encode_batch(records)))
        main = ClusterSettings(name="main", properties={"bootstrap.servers": f"127.0.0.1:{speaker.port}"})
        async with console(main, **settings) as address, browser(address) as found:
            await found.open()
            yield speaker, found


async def member(speaker: Speaker) -> str:
    """Joins as the only member of the group g, and reads both partitions of t. Returns the member id."""
    first = await speaker.join()
    joined = await speaker.join(member=first.member_id)
    assignment = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2\0\0\0\0\0\0\0\1" + b"\xff" * 4
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment),),
    )
    assert (await speaker.call(ApiKey.SYNC_GROUP, request)).error_code is ErrorCode.NONE
    return joined.member_id


async def reset(found: Browser, **body: object) -> Any:
    return await found.post(f"{API}/groups/g/reset", body)


@on_a_loop
async def test_the_list_has_the_lag_of_the_visible_rows(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        for group in ("a", "b", "c"):
            await speaker.commit({("t", 0): 4, ("t", 1): 0}, group=group)
        listed = await found.get(f"{API}/groups?limit=2&order=desc&sort=group")
        assert listed["total"] == 3
        assert [(row["group"], row["state"], row["lag"], row["members"]) for row in listed["rows"]] == [
            ("c", "Empty", 5, 0),
            ("b", "Empty", 5, 0),
        ]
        assert [row["status"] for row in listed["rows"]] == [None, None], "seen only once"
        assert (await found.get(f"{API}/groups?search=B"))["total"] == 1
        assert (await found.get(f"{API}/groups?state=Stable"))["total"] == 0


@on_a_loop
async def test_a_group_shows_its_partitions_and_its_lag_in_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        await speaker.commit({("t", 0): 4, ("t", 1): 0})
        group = await found.get(f"{API}/groups/g")
        assert (group["lag"], group["partitions"], group["can_reset"]) == (5, 2, True)
        assert group["lag_seconds"] > 1_000_000, "the record has a timestamp of 2023"
        rows = (await found.get(f"{API}/groups/g/partitions?sort=lag&order=desc"))["rows"]
        assert [(row["partition"], row["committed"], row["end"], row["lag"]) for row in rows] == [
            (0, 4, 9, 5),
            (1, 0, 0, 0),
        ]
        assert rows[1]["status"] == "OK"
        (point,) = (await found.get(f"{API}/groups/g/history"))["points"]
        assert (point["lag"], point["topics"]) == (5, {"t": 5})


@on_a_loop
async def test_a_group_shows_its_members(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        member_id = await member(speaker)
        listed = await found.get(f"{API}/groups/g/members")
        (row,) = listed["rows"]
        assert (row["member_id"], row["host"], row["assignment"]) == (member_id, "127.0.0.1", "t: 0, 1")
        partitions = (await found.get(f"{API}/groups/g/partitions"))["rows"]
        assert [(each["partition"], each["committed"]) for each in partitions] == [(0, None), (1, None)]
        group = await found.get(f"{API}/groups/g")
        assert (group["state"], group["members"], group["idle_members"]) == ("Stable", 1, 0)


@on_a_loop
async def test_a_topic_shows_the_groups_that_read_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        await speaker.create("other", 1)
        await speaker.commit({("t", 0): 4, ("t", 1): 0}, group="stopped")
        await speaker.commit({("other", 0): 0}, group="elsewhere")
        await member(speaker)
        listed = await found.get(f"{API}/topics/t/consumers")
        rows = [
            (row["group"], row["state"], row["members"], row["partitions"], row["lag"])
            for row in listed["rows"]
        ]
        # The group g reads both partitions, but has not committed an offset.
        assert rows == [("g", "Stable", 1, 2, None), ("stopped", "Empty", 0, 2, 5)]
        assert listed["left_out"] == 0
        assert (await found.get(f"{API}/topics/other/consumers"))["total"] == 1


@on_a_loop
async def test_a_cluster_without_an_authorizer_has_no_acls_and_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, found):
        listed = await found.get(f"{API}/acls")
        assert (found.status, listed["total"], listed["has_authorizer"]) == (200, 0, False)


@on_a_loop
async def test_an_unknown_group_is_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, found):
        answer = await found.get(f"{API}/groups/none")
        assert (found.status, answer["error"]) == (404, "GROUP_ID_NOT_FOUND")


@on_a_loop
async def test_a_preview_of_a_reset_changes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        await speaker.commit({("t", 0): 4})
        answer = await reset(found, position="earliest", preview=True)
        assert answer["summary"] == "The offsets of 1 partition of the group g would change."
        assert answer["command"].endswith("--reset-offsets --group g --all-topics --to-earliest --execute")
        (row,) = answer["details"]["rows"]
        assert (row["current"], row["new"], row["start"], row["end"]) == (4, 0, 0, 9)
        assert (await speaker.fetch())[1] == {("t", 0): (4, "NONE")}


@on_a_loop
async def test_offsets_are_reset_to_each_position(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        for body, offset, words in (
            ({"position": "latest"}, 9, "--all-topics --to-latest"),
            ({"position": "offset", "value": 6}, 6, "--to-offset 6"),
            ({"position": "shift", "value": -2}, 2, "--shift-by -2"),
            ({"position": "current"}, 4, "--to-current"),
            ({"position": "time", "value": 1_700_000_000_003}, 3, "--to-datetime 2023-11-14T22:13:20.003Z"),
            ({"position": "offset", "value": 5, "topics": ["t:0"]}, 5, "--topic t:0 --to-offset 5"),
            ({"position": "offset", "value": 50}, 9, "--to-offset 50"),
        ):
            await speaker.commit({("t", 0): 4})
            answer = await reset(found, **body)
            assert words in answer["command"]
            assert (await speaker.fetch())[1][("t", 0)] == (offset, "NONE"), body


@on_a_loop
async def test_a_partition_can_have_an_offset_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        await speaker.commit({("t", 0): 4, ("t", 1): 0})
        answer = await reset(found, position="current", edits={"t:0": "7"}, all_topics=True)
        assert "printf '%s\\n' t,0,7 t,1,0 > offsets.csv\n" in answer["command"]
        assert "--from-file offsets.csv" in answer["command"]
        assert (await speaker.fetch())[1] == {("t", 0): (7, "NONE"), ("t", 1): (0, "NONE")}


@on_a_loop
async def test_a_topic_without_offsets_gets_offsets_for_all_partitions(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        answer = await reset(found, position="time", value=1_800_000_000_000, topics=["t"])
        assert [row["note"] for row in answer["details"]["rows"]] == [
            "no record is that new, so the end is used"
        ] * 2
        assert (await speaker.fetch())[1] == {("t", 0): (9, "NONE"), ("t", 1): (0, "NONE")}


@on_a_loop
async def test_a_group_with_members_is_not_reset_and_not_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        await member(speaker)
        for path, body in (("reset", {"position": "latest", "preview": True}), ("delete", {"preview": True})):
            answer = await found.post(f"{API}/groups/g/{path}", body)
            assert answer["error"] == "NON_EMPTY_GROUP"
            assert "Stop its consumers first." in answer["message"]


@on_a_loop
async def test_invalid_bodies_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, found):
        for body in (
            {"position": "middle"},
            {"position": "offset"},
            {"position": "offset", "value": -1},
            {"position": "latest", "edits": {"t": "4"}},
            {"position": "latest", "edits": {"t:0": "x"}},
            {"position": "latest", "topics": ["t:x"]},
        ):
            answer = await reset(found, **body)
            assert (found.status, answer["error"]) == (400, "BAD_REQUEST"), body


@on_a_loop
async def test_the_name_of_a_group_cannot_be_an_option_of_the_command(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, found):
        answer = await found.post(f"{API}/groups/--all-groups/delete", {"preview": True})
        assert answer["command"].endswith(" --delete --group=--all-groups")
        words = shlex.split(answer["command"])
        assert words[:2] == ["kcli", "consumer-groups"]
        options: Any = _parsed(TOOLS["consumer-groups"].load(), words[2:])[0]
        assert (options.group, options.all_groups) == (("--all-groups",), False)


@on_a_loop
async def test_a_group_and_its_offsets_are_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        await speaker.commit({("t", 0): 4, ("t", 1): 0})
        answer = await found.post(f"{API}/groups/g/delete-offsets", {"topic": "t", "preview": True})
        assert answer["summary"] == "The offsets of 2 partitions of t would be deleted."
        assert answer["command"].endswith("--delete-offsets --group g --topic t")
        await found.post(f"{API}/groups/g/delete-offsets", {"topic": "t"})
        assert (await speaker.fetch())[1] == {}
        await speaker.commit({("t", 0): 4})
        answer = await found.post(f"{API}/groups/g/delete", {})
        assert answer["command"].endswith(" --delete --group g")
        assert (await found.get(f"{API}/groups?fresh=1"))["total"] == 0


@on_a_loop
async def test_only_the_latest_groups_are_watched(tmp_path: Path) -> None:
    async with opened(tmp_path) as (speaker, found):
        for number in range(WATCHED_GROUPS_MAX + 1):
            await speaker.commit({("t", 0): 4}, group=f"g{number:02}")
            await found.get(f"{API}/groups/g{number:02}")
        assert (await found.get(f"{API}/groups/g00/history"))["points"] == []
        assert len((await found.get(f"{API}/groups/g10/history"))["points"]) == 1
