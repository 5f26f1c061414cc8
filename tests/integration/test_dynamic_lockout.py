"""No dynamic config, whatever its value, locks clients and administrators out of a node.

The tests set each dynamic key of brokers, topics, groups and client metrics to odd values. Then a new client connects
and deletes the value. A node also starts with values that no check has seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.config.broker import BROKER, DYNAMIC_ONLY
from kcli.config.client_metrics import CLIENT_METRICS
from kcli.config.dynamic import is_dynamic
from kcli.config.group import GROUP
from kcli.config.quota import CLIENTS, IPS
from kcli.config.security_keys import is_security_key
from kcli.config.topic import TOPIC
from kcli.errors import ErrorCode
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResourceType
from kcli.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers import alter_client_quotas, describe_configs, incremental_alter_configs
from kcli.server.network.listener_settings import UNLIMITED
from rigs.handlers import DELETE, SET, alter, call, context_of, create
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, running, send
from rigs.rights_sweep import BATCH
from rigs.wire_client import Client

BROKER_TYPE, TOPIC_TYPE, GROUP_TYPE, METRICS_TYPE = (
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
)
OF_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
BROKER_KEYS = (
    *(name for name in (*BROKER, *DYNAMIC_ONLY) if is_dynamic(name)),
    *(
        f"listener.name.{listener}.{name}"
        for listener in ("plaintext", "controller")
        for name in OF_LISTENERS
    ),
)
ODD_VALUES = (
    "0",
    "-1",
    "1",
    "2147483647",
    "9223372036854775807",
    "9" * 5000,
    "",
    "NaN",
    "\u00a01",
    "\x1f1",
    "1_0",
    "\uff11",
    "127.0.0.1:0",
    "(",
)

RESOURCES: Mapping[tuple[ConfigResourceType, str], Iterable[str]] = {
    (BROKER_TYPE, ""): BROKER_KEYS,
    (TOPIC_TYPE, "t"): TOPIC,
    (GROUP_TYPE, "g"): GROUP,
    (METRICS_TYPE, "m"): CLIENT_METRICS,
}


async def left(node: RunningNode, client: Client) -> None:
    """Closes the connection and waits for the node, because max.connections.per.ip may be 1."""
    client.close()
    await until(lambda: not node.sockets.connections)


async def administers(node: RunningNode) -> None:
    """A new client on each listener reads the configs of the broker."""
    described = DescribeConfigsRequest(
        resources=(DescribeConfigsResource(resource_type=BROKER_TYPE, resource_name="1"),)
    )
    for listener in ("PLAINTEXT", "CONTROLLER"):
        client = await connect(node, listener)
        answer = await client.call(described, ApiKey.DESCRIBE_CONFIGS, 4)
        assert answer.results[0].error_code is ErrorCode.NONE
        await left(node, client)


async def produces(node: RunningNode) -> None:
    """A producer gets an answer. Some values refuse its records, as in Kafka, but the node has no error of its own."""
    client = await connect(node)
    assert (await send(client, "t", BATCH)).error_code not in (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
    await left(node, client)


async def store(node: RunningNode, kind: ConfigResourceType, name: str, values: Mapping[str, str]) -> None:
    """Stores values without the check of a broker, as an older release may have done."""
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=SET, value=text) for key, text in values.items()
        ),
    )
    context = replace(context_of(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, "CONTROLLER"), is_forwarded=True)
    answer = await incremental_alter_configs.handle(
        context, IncrementalAlterConfigsRequest(resources=(resource,))
    )
    assert answer.responses[0].error_code is ErrorCode.NONE, answer.responses[0].error_message


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: ascii(value[:12]))
@on_a_loop
async def test_no_value_of_a_dynamic_key_locks_anybody_out(value: str, tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        accepted = [
            (kind, name, key)
            for (kind, name), keys in RESOURCES.items()
            for key in keys
            if (await alter(node, kind, name, (key, SET, value)))[0] == "NONE"
        ]
        await administers(node)
        await produces(node)
    async with running(tmp_path) as node:
        await administers(node)
        await produces(node)
        for kind, name, key in accepted:
            if key == "min.insync.replicas" or key.endswith(".threads"):
                # As in Kafka, the cluster keeps its default while ELR is enabled, and a number of threads at most
                # doubles.
                continue
            assert await alter(node, kind, name, (key, DELETE, None)) == ("NONE", None), key


@pytest.mark.parametrize(
    "key",
    [
        "max.connections",
        "max.connection.creation.rate",
        "listener.name.plaintext.max.connections",
        "listener.name.plaintext.max.connection.creation.rate",
        "listener.name.controller.max.connections",
    ],
)
@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
@on_a_loop
async def test_a_limit_of_zero_connections_is_refused_in_kafkas_words(
    key: str, listener: str, tmp_path: Path
) -> None:
    name = key.partition("max.")[1] + key.partition("max.")[2]
    async with running(tmp_path) as node:
        assert await alter(node, BROKER_TYPE, "", (key, SET, "0"), listener=listener) == (
            "INVALID_REQUEST",
            (
                f"Invalid value org.apache.kafka.common.config.ConfigException: Invalid {name} 0 "
                "for configuration Invalid dynamic configuration"
            ),
        )
        assert not node.metadata.config(CLUSTER_DEFAULT).get(key)


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"max.connections.per.ip.overrides": "127.0.0.1:0"}, "127.0.0.1:0"),
        ({"max.connections.per.ip.overrides": "localhost:0,10.0.0.1:5"}, "localhost:0"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:1_0"}, "not address:count"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:²"}, "not address:count"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:-1"}, "not address:count"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        (
            {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:0"},
            "can be set to zero only if",
        ),
        (
            {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": f"{'a' * 70}:5"},
            "has an address",
        ),
    ],
)
@on_a_loop
async def test_a_limit_of_addresses_lets_an_address_in(
    values: dict[str, str], refused: str, tmp_path: Path
) -> None:
    async with running(tmp_path) as node:
        code, message = await alter(
            node, BROKER_TYPE, "", *((key, SET, text) for key, text in values.items())
        )
        assert (code, refused in (message or "")) == ("INVALID_REQUEST", True), message


@on_a_loop
async def test_a_node_starts_with_stored_values_that_it_cannot_apply(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        keys = [key for key in BROKER_KEYS if not is_security_key(key) and key != "min.insync.replicas"]
        await store(node, BROKER_TYPE, "", dict.fromkeys(keys, "0"))
        await store(node, BROKER_TYPE, "1", {"log.cleaner.threads": "\x1f\u00a07", "log.roll.ms": "0"})
        await administers(node)
    async with running(tmp_path) as node:
        await administers(node)
        await produces(node)
        assert node.dynamic_config.current.integer("max.connections") == UNLIMITED
        assert node.dynamic_config.current["log.roll.ms"] is None
    lines = [each.getMessage() for each in caplog.records if "not applied" in each.getMessage()]
    for key in ("max.connections", "max.connection.creation.rate", "log.roll.ms", "log.cleaner.threads"):
        assert any(key in line for line in lines), key


@on_a_loop
async def test_an_invalid_value_of_a_topic_or_group_in_the_metadata_is_replaced_by_its_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        with monkeypatch.context() as lax:
            lax.setattr("kcli.controller.configs.validate", lambda *_: None)
            await store(node, TOPIC_TYPE, "t", dict.fromkeys(TOPIC, "\u00a0x"))
            await store(node, GROUP_TYPE, "g", dict.fromkeys(GROUP, "\u00a0x"))
            await store(node, METRICS_TYPE, "m", dict.fromkeys(CLIENT_METRICS, "\u00a0x"))
        await administers(node)
        await produces(node)
    async with running(tmp_path) as node:
        await administers(node)
        await produces(node)
        log = node.dynamic_config.log_config(node.metadata.topic_config("t"))
        assert log.retention_ms == TOPIC.default("retention.ms")
        for kind, name in ((TOPIC_TYPE, "t"), (GROUP_TYPE, "g"), (METRICS_TYPE, "m")):
            request = DescribeConfigsRequest(
                resources=(DescribeConfigsResource(resource_type=kind, resource_name=name),)
            )
            (result,) = (await call(node, describe_configs, request, ApiKey.DESCRIBE_CONFIGS, 4)).results
            assert result.error_code is ErrorCode.NONE
    assert any("retention.ms" in each.getMessage() for each in caplog.records)


@on_a_loop
async def test_no_quota_locks_anybody_out(tmp_path: Path) -> None:
    values = (0.0, -1.0, 1e-300, 0.5, 1.0, 2.0**31, 2.0**63, 1e308, math.inf, -math.inf, math.nan)
    async with running(tmp_path) as node:
        for kind, keys in (("user", CLIENTS), ("client-id", CLIENTS), ("ip", IPS)):
            for key, value in itertools.product(keys, values):
                entry = RequestEntryData(
                    entity=(RequestEntityData(entity_type=kind, entity_name=None),),
                    ops=(OpData(key=key, value=value),),
                )
                await call(
                    node,
                    alter_client_quotas,
                    AlterClientQuotasRequest(entries=(entry,)),
                    ApiKey.ALTER_CLIENT_QUOTAS,
                    1,
                )
            await administers(node)
