"""The log is quiet: the number of its lines does not depend on the number of partitions and members."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from kcli.protocol.messages import leave_group as lg
from kcli.protocol.wire.api import ApiKey
from rigs.groups import Speaker, running
from rigs.loops import on_a_loop
from rigs.node import connect, create

PARTITIONS, MEMBERS = 30, 10


def _lines(caplog: pytest.LogCaptureFixture, *, of: str = "kcli") -> list[str]:
    """The lines since the last call, without those that have a file of their own."""
    found = [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.INFO and record.name.startswith(of) and "state.change" not in record.name
    ]
    caplog.clear()
    return found


async def _members(it: Speaker) -> list[str]:
    """Members that join a group one after the other, and are never in a generation together."""
    speaker = Speaker(it.node, await connect(it.node), 0)
    first = [(await speaker.join()).member_id for _ in range(MEMBERS)]
    joins = []
    for member in first:
        client = Speaker(it.node, await connect(it.node), 0)
        joins.append(asyncio.ensure_future(client.join(member=member)))
    await asyncio.gather(*joins)
    return first


@on_a_loop
async def test_the_lines_of_a_start_and_of_a_group(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kcli")
    async with running(tmp_path) as it:
        await it.find("g")
        few = _lines(caplog)
        await create(it.client, "t", PARTITIONS)
        assert _lines(caplog) == []
        members = await _members(it)
        lines = _lines(caplog)
        assert [each for each in lines if any(member in each for member in members)] == []
        assert 0 < len(lines) <= 4, lines
        identities = tuple(lg.MemberIdentity(member_id=each) for each in members)
        await it.call(ApiKey.LEAVE_GROUP, lg.LeaveGroupRequest(group_id="g", members=identities), 4)
        lines = _lines(caplog)
        assert 0 < len(lines) <= 2, lines
    _lines(caplog)
    async with running(tmp_path) as it:
        await it.find("g")
        assert len(_lines(caplog)) <= len(few) + 2, (
            "the topic has no line, and each of its partitions has none"
        )
