"""The lag of groups in the metrics of a running broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcli.http import client
from kcli.lag.tracker import LagTracker
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.server.coordinators.group_lag import SAMPLES_PER_CLEANING, GroupLagSampler
from rigs import groups
from rigs.groups import Speaker
from rigs.loops import on_a_loop, until
from rigs.node import send
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

METRICS = {"kcli_metrics_listener": "127.0.0.1:0"}


def sampler_of(speaker: Speaker) -> GroupLagSampler:
    sampler = speaker.node.offers["group_lag"]
    assert isinstance(sampler, GroupLagSampler)
    return sampler


async def beans(speaker: Speaker) -> dict[str, dict[str, Any]]:
    """Takes a sample. Returns the beans of kcli.lag by their names without the domain."""
    await sampler_of(speaker).sample()
    endpoint = speaker.node.metrics_endpoint
    assert endpoint is not None
    answer = await client.get(
        Address("127.0.0.1", endpoint.port), "/jmx?qry=kcli.lag:*", body_max_bytes=10_000_000
    )
    return {bean.pop("name").removeprefix("kcli.lag:"): bean for bean in json.loads(answer.body)["beans"]}


async def with_records(speaker: Speaker, count: int = 7) -> None:
    await speaker.find()
    await speaker.create("t", 2)
    await send(
        speaker.client,
        "t",
        bytes(encode_batch([Record(number, 1, None, b"v", ()) for number in range(count)])),
    )


@on_a_loop
async def test_the_lag_of_a_group_of_offsets_only(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        assert await speaker.commit({("t", 0): 3, ("t", 1): 0}) == ["NONE", "NONE"]
        found = await beans(speaker)
        partition = found["type=Partition,group=g,topic=t,partition=0"]
        assert partition["CommitAgeSeconds"] >= 0
        assert "LagSeconds" not in partition, "the timestamp of the first unread record is not read yet"
        assert {name: partition[name] for name in ("CommittedOffset", "EndOffset", "Lag", "StatusName")} == {
            "CommittedOffset": 3,
            "EndOffset": 7,
            "Lag": 4,
            "StatusName": "OK",
        }
        assert partition["Explanation"] == "4 records of t-0 wait to be read"
        assert found["type=Partition,group=g,topic=t,partition=1"]["LagSeconds"] == 0
        assert found["type=Topic,group=g,topic=t"] == {
            "AssignedPartitions": 0,
            "CommittedOffset": 3,
            "Lag": 4,
            "Members": 0,
        }
        group = found["type=Group,group=g"]
        assert (group["State"], group["Members"], group["Lag"], group["Status"]) == ("Empty", 0, 4, 1)
        assert group["OffsetCommits"] == 2
        assert found["type=Sampler"]["Partitions"] == 2
        assert found["type=Sampler"]["UnknownEndOffsets"] == 0


@on_a_loop
async def test_the_lag_in_seconds_of_records_that_are_older_than_the_history(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await speaker.find()
        await speaker.create("t", 1)
        sampler = sampler_of(speaker)
        now_ms = sampler._groups.shards.now_ms()
        ages_s = (900, 600, 300)
        for age_s in ages_s:
            record = Record(0, now_ms - age_s * 1000, None, b"v", ())
            await send(speaker.client, "t", bytes(encode_batch([record])))
        await speaker.commit({("t", 0): 1})
        await speaker.commit({("t", 0): 0}, group="slow")
        await sampler.sample()
        assert all(each.is_at_least for each in sampler.report.groups)
        reads = sampler._read_below
        assert reads == {TopicPartition("t", 0): 0}
        await sampler.sample()
        await sampler.sample()
        seconds = {each.group_id: each.lag_seconds for each in sampler.report.groups}
        assert seconds["slow"] == pytest.approx(900, abs=30)
        assert 300 < (seconds["g"] or 0) < 900, "between the first record and the begin of the history"
        assert not any(each.is_at_least for each in sampler.report.groups)


@on_a_loop
async def test_commits_of_a_group_are_counted_until_its_offsets_go(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        for offset in (1, 2, 3):
            await speaker.commit({("t", 0): offset})
        runner = speaker.node.broker.groups.shards.runner("g")
        assert runner.look(lambda shard, _: shard.commit_count("g")) == 3
        assert runner.look(lambda shard, _: shard.commit_count("other")) == 0
        runner.run(lambda shard, now_ms: shard.delete_topics(("t",), now_ms))
        await until(lambda: runner.look(lambda shard, _: shard.commit_count("g")) == 0)


@on_a_loop
async def test_the_lag_follows_the_commits_and_goes_with_the_offsets(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        await speaker.commit({("t", 0): 3})
        await beans(speaker)
        await speaker.commit({("t", 0): 7})
        found = await beans(speaker)
        assert found["type=Partition,group=g,topic=t,partition=0"]["Lag"] == 0
        tombstones = speaker.node.broker.groups.shards.runner("g")
        tombstones.run(lambda shard, now_ms: shard.delete_topics(("t",), now_ms))
        found = await beans(speaker)
        assert "type=Partition,group=g,topic=t,partition=0" not in found
        for _ in range(SAMPLES_PER_CLEANING):
            found = await beans(speaker)
        assert found["type=Sampler"]["Partitions"] == 0


@on_a_loop
async def test_without_an_end_offset_in_this_sample_there_is_no_lag_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        await speaker.commit({("t", 0): 7})
        found = await beans(speaker)
        assert found["type=Partition,group=g,topic=t,partition=0"]["StatusName"] == "OK"
        with monkeypatch.context() as silent:
            silent.setattr(GroupLagSampler, "_own_end", lambda *_: None)
            found = await beans(speaker)
        partition = found["type=Partition,group=g,topic=t,partition=0"]
        assert set(partition) == {"CommitAgeSeconds", "CommittedOffset", "Explanation"}
        assert partition["Explanation"] == "the end offset of t-0 is unknown"
        assert not {"Lag", "Status", "StatusName"} & set(found["type=Group,group=g"])
        assert "Lag" not in found["type=Topic,group=g,topic=t"]
        assert found["type=Sampler"]["UnknownEndOffsets"] == 1
        found = await beans(speaker)
        assert found["type=Group,group=g"]["StatusName"] == "OK"


@on_a_loop
async def test_a_sample_is_not_in_the_processing_time_of_the_coordinator(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        await speaker.commit({("t", 0): 7})
        runner = speaker.node.broker.groups.shards.runner("g")
        before = runner._times.processing_ms.count
        await beans(speaker)
        assert runner._times.processing_ms.count == before
        runner.ask(lambda shard, _: shard.list_groups())
        assert runner._times.processing_ms.count == before + 1


@on_a_loop
async def test_a_group_that_goes_back_is_a_rewind(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        await speaker.commit({("t", 0): 7})
        await beans(speaker)
        await speaker.commit({("t", 0): 2})
        found = await beans(speaker)
        partition = found["type=Partition,group=g,topic=t,partition=0"]
        assert partition["StatusName"] == "REWIND"
        assert partition["Explanation"] == "the offset of t-0 went back from 7 to 2, and 5 records are unread"
        assert found["type=Group,group=g"]["Status"] == 6


@on_a_loop
async def test_members_are_counted(tmp_path: Path) -> None:
    async with groups.running(tmp_path, group_initial_rebalance_delay_ms="0", **METRICS) as speaker:
        await with_records(speaker)
        await speaker.member()
        group = (await beans(speaker))["type=Group,group=g"]
        assert (group["State"], group["Members"], group["MembersWithoutPartitions"]) == ("Stable", 1, 1)
        assert (group["ProtocolType"], group["Protocol"]) == ("consumer", "range")


@on_a_loop
async def test_offsets_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await with_records(speaker)
        sampler_of(speaker)._tracker = LagTracker(first_patience_ms=0, windows_max=1)
        await speaker.commit({("t", 0): 3, ("t", 1): 0})
        found = await beans(speaker)
        assert (found["type=Sampler"]["Partitions"], found["type=Sampler"]["SkippedPartitions"]) == (1, 1)


@on_a_loop
async def test_a_broker_without_metrics_takes_no_samples(tmp_path: Path) -> None:
    async with groups.running(tmp_path) as speaker:
        assert speaker.node.offers["group_lag"] is None


@on_a_loop
async def test_a_sample_of_many_partitions_is_taken_in_slices(tmp_path: Path) -> None:
    async with groups.running(tmp_path, **METRICS) as speaker:
        await speaker.find()
        await speaker.create("many", 200)
        await until(lambda: len(speaker.node.broker.replicas) >= 200)
        for group in range(10):
            await speaker.commit({("many", number): number for number in range(200)}, group=f"g{group}")
        sampler = sampler_of(speaker)
        with TurnCounter() as counter:
            await sampler.sample()
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX
        assert len(sampler.report.groups) == 10
        assert sampler.report.groups[0].partitions[TopicPartition("many", 5)].committed == 5
