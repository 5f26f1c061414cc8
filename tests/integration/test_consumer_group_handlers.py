"""The consumer group APIs of a whole broker, over sockets: both versions, configs, features, expressions, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.config.definition import ConfigError
from kcli.errors import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.wire.api import ApiKey
from rigs.answers import result_of
from rigs.group_calls import describing_consumers
from rigs.groups import Speaker, running
from rigs.loops import on_a_loop, until

GROUP_RESOURCE, SET = 32, 0


async def heartbeat(
    it: Speaker,
    epoch: int,
    *,
    member: str = "m",
    version: int = 1,
    owned: tuple[RequestTopicPartitions, ...] | None = None,
    **fields: Any,
) -> ConsumerGroupHeartbeatResponse:
    joins = epoch == 0
    if joins:
        fields = {"subscribed_topic_names": ("t",), "rebalance_timeout_ms": 10_000} | fields
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        topic_partitions=() if joins else owned,
        **fields,
    )
    return await it.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, version)


async def describe(it: Speaker, *groups: str, version: int = 1, **fields: Any) -> tuple[DescribedGroup, ...]:
    request = ConsumerGroupDescribeRequest(group_ids=groups or ("g",), **fields)
    return (await it.call(ApiKey.CONSUMER_GROUP_DESCRIBE, request, version)).groups


def assigned(response: ConsumerGroupHeartbeatResponse) -> list[tuple[int, ...]] | None:
    if response.assignment is None:
        return None
    return [each.partitions for each in response.assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
def test_a_life_in_every_version(tmp_path: Path, version: int) -> None:
    @on_a_loop
    async def life() -> None:
        async with running(tmp_path) as it:
            await it.create("t", 3)
            await it.find()
            joined = await heartbeat(it, 0, version=version, member="" if version == 0 else "m")
            member = joined.member_id
            assert (joined.member_epoch, joined.heartbeat_interval_ms) == (1, 5000)
            assert assigned(joined) == [(0, 1, 2)]
            assert (
                joined.assignment.topic_partitions[0].topic_id == it.node.metadata.topics.topic("t").topic_id
            )
            assert assigned(await heartbeat(it, 1, version=version, member=member)) is None
            codes = await it.commit(
                {("t", 0): 7}, member_id=member, generation_id_or_member_epoch=1, version=9
            )
            assert codes == ["NONE"]
            (found,) = await describe(it, version=version, include_authorized_operations=True)
            (only,) = found.members
            assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)
            assert (found.assignor_name, only.member_id, only.member_epoch) == ("uniform", member, 1)
            assert only.assignment == only.target_assignment
            assert only.assignment.topic_partitions[0].topic_name == "t"
            assert only.client_host == "/127.0.0.1"
            assert only.member_type == (1 if version == 1 else -1)
            assert found.authorized_operations > 0
            gone = await heartbeat(it, -1, version=version, member=member)
            assert gone.member_epoch == -1
            (found,) = await describe(it, version=version)
            assert (found.group_state, found.members) == ("Empty", ())

    life()


@on_a_loop
async def test_errors_stand_at_the_top_with_words(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        missing = await heartbeat(it, 0)
        assert missing.error_code is ErrorCode.NOT_COORDINATOR
        await it.find()
        bad = await heartbeat(it, 0, rack_id="")
        assert (bad.error_code, bad.error_message) == (ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
        unknown = await heartbeat(it, 3)
        assert unknown.error_code is ErrorCode.GROUP_ID_NOT_FOUND
        assert unknown.error_message == "Consumer group g not found."
        groups = await describe(it, "g", "", include_authorized_operations=True)
        assert [each.error_code.name for each in groups] == ["GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID"]


@on_a_loop
async def test_api_versions_lists_both_apis(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        versions = await it.call(ApiKey.API_VERSIONS, request)
        told = {each.api_key: (each.min_version, each.max_version) for each in versions.api_keys}
        assert told[68] == told[69] == (0, 1)


@on_a_loop
async def test_a_broker_that_does_not_speak_it(tmp_path: Path) -> None:
    async with running(tmp_path, group_coordinator_rebalance_protocols="classic") as it:
        await it.find()
        refused = await heartbeat(it, 0)
        assert refused.error_code is ErrorCode.UNSUPPORTED_VERSION
        (found,) = await describe(it)
        assert found.error_code is ErrorCode.UNSUPPORTED_VERSION


@on_a_loop
async def test_the_group_version_feature_decides_about_the_protocol(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find()
        update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        response = await it.call(
            ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=(update,), timeout_ms=5000)
        )
        assert response.error_code is ErrorCode.NONE
        assert (await heartbeat(it, 0)).error_code is ErrorCode.UNSUPPORTED_VERSION
        update = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
        await it.call(
            ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=(update,), timeout_ms=5000)
        )
        assert (await heartbeat(it, 0)).error_code is ErrorCode.NONE


@on_a_loop
async def test_a_group_has_times_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find()

        async def alter(name: str, value: str) -> ErrorCode:
            config = AlterableConfig(name=name, config_operation=SET, value=value)
            resource = AlterConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name="g", configs=(config,)
            )
            request = IncrementalAlterConfigsRequest(resources=(resource,))
            (result,) = (await it.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)).responses
            return result.error_code

        assert (await heartbeat(it, 0)).heartbeat_interval_ms == 5000
        assert await alter("consumer.heartbeat.interval.ms", "7000") is ErrorCode.NONE
        assert (await heartbeat(it, 1)).heartbeat_interval_ms == 7000
        assert await alter("consumer.session.timeout.ms", "50000") is ErrorCode.NONE
        assert it.node.broker.groups.times_of("g").session_timeout_ms == 50_000
        assert await alter("consumer.session.timeout.ms", "44999") is ErrorCode.INVALID_CONFIG


@on_a_loop
async def test_topics_that_change_reach_the_group(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t", 1)
        await it.find()
        assert assigned(await heartbeat(it, 0)) == [(0,)]
        grow = CreatePartitionsTopic(name="t", count=2, assignments=None)
        grown = await it.call(
            ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest(topics=(grow,), timeout_ms=5000)
        )
        assert grown.results[0].error_code is ErrorCode.NONE, grown
        assert assigned(await heartbeat(it, 1)) == [(0, 1)]
        gone = DeleteTopicState(name="t")
        await it.call(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=(gone,), timeout_ms=5000))
        told = await heartbeat(it, 2)
        assert (told.member_epoch, assigned(told)) == (2, []), "it is to give the partitions up"
        assert (await heartbeat(it, 2, owned=())).member_epoch == 3
        (found,) = await describe(it)
        assert found.members[0].assignment.topic_partitions == ()


@on_a_loop
async def test_an_expression_is_resolved_in_the_background(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("wanted-1", 2)
        await it.create("other")
        await it.find()
        joined = await heartbeat(it, 0, subscribed_topic_names=None, subscribed_topic_regex="wanted-.*")
        assert assigned(joined) == []
        runner = it.node.broker.groups.shards.runner("g")
        await until(
            lambda: result_of(runner.ask(lambda shard, _: describing_consumers(shard, "g"))).group_epoch == 2
        )
        assert assigned(await heartbeat(it, 1)) == [(0, 1)]
        bad = await heartbeat(it, 2, subscribed_topic_regex="wanted-[")
        assert bad.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION


@on_a_loop
async def test_groups_are_listed_with_the_others(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find()
        await heartbeat(it, 0)
        await it.member(group="classic")
        await it.find("classic")

        async def listed(**filters: Any) -> list[tuple[str, ...]]:
            response = await it.call(ApiKey.LIST_GROUPS, ListGroupsRequest(**filters))
            return [(each.group_id, each.group_type, each.group_state) for each in response.groups]

        assert await listed(types_filter=("Consumer",)) == [("g", "consumer", "Stable")]
        assert await listed(states_filter=("reconciling",)) == []
        assert sorted(each[0] for each in await listed(states_filter=("stable",))) == ["classic", "g"]


@on_a_loop
async def test_a_group_survives_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t", 2)
        await it.find()
        await heartbeat(it, 0)
        before = await describe(it)
    async with running(tmp_path) as it:
        await it.find()
        assert await describe(it) == before
        owned = (
            RequestTopicPartitions(topic_id=it.node.metadata.topics.topic("t").topic_id, partitions=(0, 1)),
        )
        assert (await heartbeat(it, 1, owned=owned)).member_epoch == 1


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            {"group_consumer_heartbeat_interval_ms": "20000"},
            (
                "group.consumer.heartbeat.interval.ms must be less than or equal to "
                "group.consumer.max.heartbeat.interval.ms"
            ),
        ),
        (
            {"group_consumer_session_timeout_ms": "40000"},
            (
                "group.consumer.session.timeout.ms must be greater than or equal to "
                "group.consumer.min.session.timeout.ms"
            ),
        ),
        (
            {"group_consumer_min_session_timeout_ms": "70000"},
            (
                "group.consumer.max.session.timeout.ms must be greater than or equal to "
                "group.consumer.min.session.timeout.ms"
            ),
        ),
        (
            {
                "group_consumer_max_heartbeat_interval_ms": "50000",
                "group_consumer_heartbeat_interval_ms": "46000",
            },
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        ({"group_consumer_assignors": "uniform,org.example.Mine"}, "Invalid value org.example.Mine"),
    ],
)
def test_settings_that_do_not_go_together(tmp_path: Path, overrides: dict[str, str], words: str) -> None:
    @on_a_loop
    async def start() -> None:
        async with running(tmp_path, **overrides):
            raise AssertionError("it started")

    with pytest.raises(ConfigError, match=words.replace(".", r"\.")):
        start()


@on_a_loop
async def test_assignors_are_known_by_class_too(tmp_path: Path) -> None:
    classes = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    async with running(tmp_path, group_consumer_assignors=classes) as it:
        await it.create("t")
        await it.find()
        await heartbeat(it, 0)
        (found,) = await describe(it)
        assert found.assignor_name == "range"
        refused = await heartbeat(it, 1, server_assignor="uniform")
        assert refused.error_code is ErrorCode.UNSUPPORTED_ASSIGNOR
