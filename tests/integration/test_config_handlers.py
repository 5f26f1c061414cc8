"""Configs by the wire: described, changed, replaced and listed on a whole node, for every kind of resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode, InvalidRequestException, UnsupportedVersionException
from kcli.model.configs import ConfigResourceType, ConfigSource
from kcli.protocol.messages import alter_configs as replacing
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from rigs.handlers import DELETE, SET, alter, call, create
from rigs.loops import on_a_loop
from rigs.node import RunningNode, running

TOPIC, BROKER, LOGGER, METRICS, GROUP = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
)
UNKNOWN = 99  # a resource type that Kafka does not have


async def describe(
    node: RunningNode,
    kind: int,
    name: str,
    *,
    keys: tuple[str, ...] | None = None,
    synonyms: bool = True,
    documentation: bool = False,
) -> Any:
    """The configs of one resource."""
    request = DescribeConfigsRequest(
        resources=(DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys),),
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = (await call(node, describe_configs, request, ApiKey.DESCRIBE_CONFIGS, 4)).results
    return result


async def value_and_source(node: RunningNode, kind: int, name: str, key: str) -> tuple[str, int]:
    """The value of one config of a resource, and the source that it has the value from."""
    (entry,) = (await describe(node, kind, name, keys=(key,))).configs
    return entry.value, entry.config_source


@on_a_loop
async def test_a_topics_configs_come_in_kafkas_order_with_their_origin(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        configs = {"max.message.bytes": "200000", "retention.ms": "3600000", "cleanup.policy": "compact"}
        await create(node, "gamma", 2, **configs)
        result = await describe(node, TOPIC, "gamma", documentation=True)
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
        shown = [entry for entry in result.configs if entry.config_source != ConfigSource.DEFAULT_CONFIG]
        # As `kafka-topics --describe` of Kafka 4.1 prints them.
        assert ",".join(f"{entry.name}={entry.value}" for entry in shown) == (
            "min.insync.replicas=1,cleanup.policy=compact,retention.ms=3600000,max.message.bytes=200000,"
            "segment.index.bytes=65536"
        )
        by_name = {entry.name: entry for entry in result.configs}
        index = by_name["segment.index.bytes"]
        assert [(each.name, each.value, each.source) for each in index.synonyms] == [
            ("log.index.size.max.bytes", "65536", ConfigSource.STATIC_BROKER_CONFIG),
            ("log.index.size.max.bytes", "10485760", ConfigSource.DEFAULT_CONFIG),
        ]
        assert by_name["segment.ms"].synonyms == ()
        assert by_name["cleanup.policy"].documentation and by_name["cleanup.policy"].config_type == 7


@on_a_loop
async def test_only_requested_keys_are_returned(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        result = await describe(node, TOPIC, "t", keys=("segment.ms", "nope"), synonyms=False)
        assert [(entry.name, entry.synonyms) for entry in result.configs] == [("segment.ms", ())]


@on_a_loop
async def test_an_empty_list_of_keys_asks_for_all_keys(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        for kind, name in ((TOPIC, "t"), (BROKER, "1"), (GROUP, "g"), (METRICS, "m")):
            every = await describe(node, kind, name)
            assert every.configs and (await describe(node, kind, name, keys=())).configs == every.configs


@on_a_loop
async def test_each_broker_key_has_a_text(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        result = await describe(node, BROKER, "1", documentation=True)
        # The node of this test sets no key that Kafka does not know.
        assert [entry.name for entry in result.configs if not entry.documentation] == []


@on_a_loop
async def test_each_topic_of_a_request_gets_its_own_configs(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "a")
        await create(node, "b", segment_ms="5")
        await create(node, "c")
        asked = [
            ("a", ("segment.ms",)),
            ("b", ("segment.ms",)),
            ("c", ("segment.ms",)),
            ("c", ("segment.bytes",)),
        ]
        request = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)
                for name, keys in asked
            )
        )
        answer = await call(node, describe_configs, request, ApiKey.DESCRIBE_CONFIGS, 4)
        assert [
            (
                result.resource_name,
                [(entry.name, entry.value, entry.config_source) for entry in result.configs],
            )
            for result in answer.results
        ] == [
            ("a", [("segment.ms", "604800000", ConfigSource.DEFAULT_CONFIG)]),
            ("b", [("segment.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG)]),
            ("c", [("segment.ms", "604800000", ConfigSource.DEFAULT_CONFIG)]),
            ("c", [("segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG)]),
        ]


@on_a_loop
async def test_configs_of_every_kind_of_resource(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        assert await alter(node, BROKER, "", ("log.retention.ms", SET, "77")) == ("NONE", None)
        assert await alter(node, BROKER, "1", ("log.cleaner.backoff.ms", SET, "400")) == ("NONE", None)
        assert await alter(node, GROUP, "g", ("share.auto.offset.reset", SET, "earliest")) == (
            "NONE",
            None,
        )
        assert await alter(node, METRICS, "m", ("interval.ms", SET, "500")) == ("NONE", None)
        defaults = await describe(node, BROKER, "")
        assert sorted((entry.name, entry.value) for entry in defaults.configs) == [
            ("log.retention.ms", "77"),
            ("min.insync.replicas", "1"),
        ]
        assert await value_and_source(node, BROKER, "1", "log.cleaner.backoff.ms") == (
            "400",
            ConfigSource.DYNAMIC_BROKER_CONFIG,
        )
        assert await value_and_source(node, BROKER, "1", "log.retention.ms") == (
            "77",
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        )
        assert await value_and_source(node, GROUP, "g", "share.auto.offset.reset") == (
            "earliest",
            ConfigSource.DYNAMIC_GROUP_CONFIG,
        )
        assert await value_and_source(node, METRICS, "m", "interval.ms") == (
            "500",
            ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
        )
        own = {entry.name: entry for entry in (await describe(node, BROKER, "1")).configs}
        assert own["node.id"].read_only and not own["log.cleaner.backoff.ms"].read_only
        assert node.dynamic_config.current.integer("log.cleaner.backoff.ms") == 400


@on_a_loop
async def test_describing_a_missing_resource_is_an_error(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        unknown = await describe(node, TOPIC, "nope")
        assert (unknown.error_code, unknown.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        for kind, name, code in (
            (TOPIC, "a/b", "INVALID_TOPIC_EXCEPTION"),
            (BROKER, "9", "INVALID_REQUEST"),
            (BROKER, "x", "INVALID_REQUEST"),
            (LOGGER, "", "INVALID_REQUEST"),
            (METRICS, "", "INVALID_REQUEST"),
            (GROUP, "", "INVALID_REQUEST"),
        ):
            assert (await describe(node, kind, name)).error_code.name == code
        with pytest.raises(InvalidRequestException):  # as in Kafka, the whole request is refused
            await describe(node, UNKNOWN, "")


@on_a_loop
async def test_invalid_changes_are_refused_in_kafkas_words(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        for kind, name, operations, message in (
            (BROKER, "9", [("num.io.threads", SET, "9")], "Unexpected broker id, expected 1, but received 9"),
            (BROKER, "x", [("num.io.threads", SET, "9")], "Node id must be an integer, but it is: x"),
            (BROKER, "1_0", [("num.io.threads", SET, "9")], "Node id must be an integer, but it is: 1_0"),
            (BROKER, " 1", [("num.io.threads", SET, "9")], "Node id must be an integer, but it is:  1"),
            (
                BROKER,
                "1\u00a0",
                [("num.io.threads", SET, "9")],
                "Node id must be an integer, but it is: 1\u00a0",
            ),
            (LOGGER, "0_1", [("root", SET, "INFO")], "Node id must be an integer, but it is: 0_1"),
            (BROKER, "1", [("node.id", SET, "5")], "Cannot update these configs dynamically: Set(node.id)"),
            (
                BROKER,
                "1",
                [("num.io.threads", SET, "0")],
                "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
            ),
            (TOPIC, "t", [("segment.ms", SET, None)], "Null value not supported for : segment.ms"),
            (
                TOPIC,
                "t",
                [("segment.ms", SET, "70000"), ("segment.ms", DELETE, None)],
                "Error due to duplicate config keys",
            ),
            (TOPIC, "t", [("segment.ms", 9, "70000")], "Unknown config operation 9 for segment.ms"),
            (UNKNOWN, "t", [("segment.ms", SET, "70000")], "Unknown resource type 99"),
        ):
            assert await alter(node, kind, name, *operations) == ("INVALID_REQUEST", message)
        code, message = await alter(node, LOGGER, "1", ("kafka.nowhere", SET, "DEBUG"))
        assert (code, message) == ("INVALID_CONFIG", "Logger kafka.nowhere does not exist!")
        code, _ = await alter(node, LOGGER, "2", ("root", SET, "DEBUG"))
        assert code == "INVALID_REQUEST"


@on_a_loop
async def test_results_come_in_the_order_of_the_resources(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        config = AlterableConfig(name="segment.ms", config_operation=SET, value="70000")
        names = [(TOPIC, "nope"), (BROKER, "9"), (TOPIC, "t"), (TOPIC, "twice"), (TOPIC, "twice")]
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))
                for kind, name in names
            )
        )
        answer = await call(node, incremental_alter_configs, request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
        assert [(each.resource_name, each.error_code.name) for each in answer.responses] == [
            ("nope", "UNKNOWN_TOPIC_OR_PARTITION"),
            ("9", "INVALID_REQUEST"),
            ("t", "NONE"),
            ("twice", "INVALID_REQUEST"),
            ("twice", "INVALID_REQUEST"),
        ]
        assert node.broker.replicas.get("t", 0).log.config.segment_ms == 70000


@on_a_loop
async def test_alter_configs_replaces_all_configs_of_a_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for version in range(3):
            await create(node, f"t{version}", 1, segment_ms="70000")
            config = replacing.AlterableConfig(name="retention.ms", value="5")
            request = replacing.AlterConfigsRequest(
                resources=(
                    replacing.AlterConfigsResource(
                        resource_type=TOPIC, resource_name=f"t{version}", configs=(config,)
                    ),
                    replacing.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=()),
                )
            )
            answer = await call(node, alter_configs, request, ApiKey.ALTER_CONFIGS, version)
            assert [each.error_code.name for each in answer.responses] == ["NONE", "INVALID_REQUEST"]
            assert node.metadata.topic_config(f"t{version}") == {"retention.ms": "5"}


@on_a_loop
async def test_every_kind_of_config_resource_is_listed(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        await alter(node, GROUP, "g", ("share.auto.offset.reset", SET, "earliest"))
        await alter(node, METRICS, "m", ("interval.ms", SET, "500"))

        async def listed(version: int, *kinds: int) -> list[tuple[int, str]]:
            request = ListConfigResourcesRequest(resource_types=kinds)
            answer = await call(node, list_config_resources, request, ApiKey.LIST_CONFIG_RESOURCES, version)
            return [(each.resource_type, each.resource_name) for each in answer.config_resources]

        everything = [(GROUP, "g"), (METRICS, "m"), (LOGGER, "1"), (BROKER, "1"), (TOPIC, "t")]
        assert await listed(1) == everything
        assert await listed(1, TOPIC, GROUP) == [(GROUP, "g"), (TOPIC, "t")]
        assert await listed(0) == [(METRICS, "m")]
        with pytest.raises(UnsupportedVersionException):
            await listed(1, UNKNOWN)
