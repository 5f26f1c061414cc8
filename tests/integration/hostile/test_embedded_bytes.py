"""Assignments and offsets that a client makes up, in the metrics of a broker and in the tools."""

from __future__ import annotations

import re
import struct
from itertools import product
from pathlib import Path
from string import ascii_letters

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.config import client_config
from kcli.errors import KafkaError
from kcli.http import client as http
from kcli.lag.group_lag import GroupLag
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.records.consumer_protocol import (
    EMBEDDED_MAX_BYTES,
    ConsumerProtocolAssignment,
    TopicPartitions,
    encode_assignment,
)
from kcli.runtime.turns import TURN_COST_MAX
from kcli.server.coordinators import group_lag, lag_members
from kcli.server.coordinators.group_lag import GROUP_ID_MAX_CHARS, GroupLagSampler
from rigs import groups
from rigs.groups import Speaker
from rigs.loops import on_a_loop
from rigs.node import send
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

METRICS = {"kcli_metrics_listener": "127.0.0.1:0"}
LEADS_BACK = struct.pack(">hihih", 0, 2**31 - 1, 0, 0, -6)
"""An assignment of 14 bytes: 2^31 - 1 topics, and the length of the second name is negative."""
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def invented(count: int) -> bytes:
    """An assignment of one partition of each of `count` topics that do not exist."""
    names = ("".join(letters) for letters in product(ascii_letters, repeat=3))
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=tuple(
                TopicPartitions(topic=name, partitions=(0,))
                for name, _ in zip(names, range(count), strict=False)
            )
        )
    )


def assigned(*partitions: int, topic: str = "t") -> bytes:
    return encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=(TopicPartitions(topic=topic, partitions=partitions),))
    )


def sampler_of(speaker: Speaker) -> GroupLagSampler:
    sampler = speaker.node.offers["group_lag"]
    assert isinstance(sampler, GroupLagSampler)
    return sampler


async def sampled(speaker: Speaker) -> dict[str, GroupLag]:
    await sampler_of(speaker).sample()
    return {group.group_id: group for group in sampler_of(speaker).report.groups}


async def metrics_text(speaker: Speaker) -> str:
    endpoint = speaker.node.metrics_endpoint
    assert endpoint is not None
    answer = await http.get(Address("127.0.0.1", endpoint.port), "/metrics", body_max_bytes=10_000_000)
    return answer.body.decode()


async def with_records(speaker: Speaker) -> None:
    await speaker.find()
    await speaker.create("t", 2)
    records = [Record(number, 1, None, b"v", ()) for number in range(7)]
    await send(speaker.client, "t", bytes(encode_batch(records)))


@on_a_loop
async def test_bytes_that_are_no_assignment_leave_their_member_without_partitions(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        await speaker.member(group="evil", assignment=LEADS_BACK)
        await speaker.commit({("t", 0): 3}, group="good")
        with TurnCounter() as counter:
            found = await sampled(speaker)
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
        assert (found["evil"].members, found["evil"].idle_members, found["evil"].topics) == (1, 1, {})
        assert found["good"].lag == 4
        async with AdminClient(client_config({}, bootstrap_servers=f"127.0.0.1:{speaker.port}")) as admin:
            described = (await admin.describe_groups(["evil"]))["evil"]
        assert not isinstance(described, KafkaError)
        assert [member.assignment for member in described.members] == [()]


@on_a_loop
async def test_invented_topics_and_partitions_are_no_metrics(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        await speaker.member(group="topics", assignment=invented(500))
        await speaker.member(group="partitions", assignment=assigned(-1, 0, 1, 1, 2, 2**31 - 1))
        found = await sampled(speaker)
        assert found["topics"].topics == {}
        assert found["partitions"].topics["t"].assigned_partitions == 2
        assert found["partitions"].readers.keys() == {TopicPartition("t", 0), TopicPartition("t", 1)}
        text = await metrics_text(speaker)
        assert '"partitions"' in text
        assert "aaa" not in text


@on_a_loop
async def test_long_assignments_are_read_in_slices_and_within_an_allowance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        long = invented(EMBEDDED_MAX_BYTES // 13 - 100)
        monkeypatch.setattr(lag_members, "LONG_BYTES_MAX", 3 * len(long))
        monkeypatch.setattr(lag_members.Allowance.__init__, "__defaults__", (3 * len(long), 3))
        for number in range(5):
            await speaker.member(group=f"long-{number}", assignment=long)
        await speaker.member(group="longest", assignment=invented(EMBEDDED_MAX_BYTES // 13 + 100))
        await speaker.member(group="short", assignment=assigned(0))
        await speaker.member(group="also-short", assignment=assigned(0, 1))
        await speaker.member(group="beyond", assignment=assigned(0, 1))
        with TurnCounter() as counter:
            found = await sampled(speaker)
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
        assert counter.turns > 3 * EMBEDDED_MAX_BYTES / 13 * group_lag.STEP_COST / TURN_COST_MAX * 0.9
        assert len(found) == 9
        assert sum(group.topics["t"].assigned_partitions for group in found.values() if group.topics) == 3


@pytest.mark.parametrize("offset", [INT64_MIN, -1, INT64_MAX])
def test_an_odd_offset_of_one_group_leaves_the_lag_of_the_others(tmp_path: Path, offset: int) -> None:
    @on_a_loop
    async def run() -> None:
        async with groups.running(tmp_path, **METRICS) as speaker:
            await with_records(speaker)
            assert await speaker.commit({("t", 0): 5}, group="good") == ["NONE"]
            await sampled(speaker)
            assert await speaker.commit({("t", 0): offset, ("t", 1): offset}, group="evil") == ["NONE"] * 2
            await speaker.commit({("t", 0): 6}, group="good")
            found = await sampled(speaker)
            assert found["good"].lag == 1
            assert found["evil"].lag == 0
            assert len(found["evil"].partitions) == (2 if offset >= 0 else 0)
            assert re.search(r'kcli_group_lag\{[^}]*"good"[^}]*\} 1\b', await metrics_text(speaker))
            await speaker.commit({("t", 0): 0}, group="evil")
            assert (await sampled(speaker))["evil"].lag == 7

    run()


@on_a_loop
async def test_an_error_of_one_group_ends_only_its_own_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        for group in ("a", "evil\n", "z"):
            await speaker.commit({("t", 0): 5}, group=group)
        sampler = sampler_of(speaker)
        real = sampler._tracker.see_commit

        def see_commit(group: str, *rest: int) -> bool:
            if group == "evil\n":
                raise ValueError("odd data")
            return real(group, *rest)

        monkeypatch.setattr(sampler._tracker, "see_commit", see_commit)
        assert (await sampled(speaker)).keys() == {"a", "z"}
        assert sampler.report.skipped_groups == 1
        assert "The lag of group evil\\x0a could not be sampled" in caplog.text


@on_a_loop
async def test_the_groups_of_a_report_and_their_names_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        monkeypatch.setattr(group_lag, "GROUPS_MAX", 2)
        for group in ("a", "b", "c", "x" * (GROUP_ID_MAX_CHARS + 1)):
            await speaker.commit({("t", 0): 5}, group=group)
        assert len(await sampled(speaker)) == 2
        assert sampler_of(speaker).report.skipped_groups == 2
