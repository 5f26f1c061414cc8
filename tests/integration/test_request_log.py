"""The log of requests, and the log of partitions: their lines over real sockets."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from kcli.model.configs import ConfigOperation, ConfigResourceType
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import alter_user_scram_credentials as scram
from kcli.protocol.messages import api_versions, metadata
from kcli.protocol.messages import incremental_alter_configs as configs
from kcli.protocol.wire.api import ApiKey
from rigs.node import RunningNode, connect, create, read, send, with_node

REQUEST_LOG = "kcli.request.logger"
STATE_CHANGES = "kcli.state.change.logger"


def events(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    prefix = "Completed request:"
    messages = [each.getMessage() for each in caplog.records if each.name == REQUEST_LOG]
    assert all(each.startswith(prefix) for each in messages)
    return [json.loads(each.removeprefix(prefix)) for each in messages]


def test_a_request_is_one_line_in_kafkas_form(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batch = encode_batch([Record(-1, 1_700_000_000_000, None, b"secret value")])

    async def story(node: RunningNode) -> None:
        client = await connect(node)
        request = api_versions.ApiVersionsRequest(client_software_name="mine", client_software_version="1.2")
        await client.call(request, ApiKey.API_VERSIONS, 3)
        await create(client, "t")
        with caplog.at_level(logging.DEBUG, REQUEST_LOG):
            await send(client, "t", batch)
            await read(client, "t")
        await read(client, "t")  # the log is off again

    with_node(tmp_path, story)
    produced, fetched = (
        each for each in events(caplog) if each["requestHeader"]["requestApiKeyName"] in ("PRODUCE", "FETCH")
    )
    assert produced["requestHeader"].keys() == {
        "requestApiKey", "requestApiVersion", "correlationId", "clientId", "requestApiKeyName"
    }  # fmt: skip
    assert produced["request"] == {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 1000,
        "topicData": [
            {"name": "t", "partitionData": [{"index": 0, "recordsSizeInBytes": len(batch)}]},
        ],
    }
    ((partition,),) = (each["partitionResponses"] for each in produced["response"]["responses"])
    assert (partition["errorCode"], partition["baseOffset"]) == (0, 0)
    ((partition,),) = (each["partitions"] for each in fetched["response"]["responses"])
    assert partition["recordsSizeInBytes"] == len(batch)
    assert produced["totalTimeMs"] == pytest.approx(
        produced["requestQueueTimeMs"] + produced["localTimeMs"] + produced["remoteTimeMs"], abs=0.01
    )
    assert [produced[name] for name in ("isForwarded", "securityProtocol", "principal", "listener")] == [
        False, "PLAINTEXT", "User:ANONYMOUS", "PLAINTEXT"
    ]  # fmt: skip
    assert produced["clientInformation"] == {"softwareName": "mine", "softwareVersion": "1.2"}
    assert "secret" not in caplog.text


def test_secrets_are_hidden_and_errors_are_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = {"ssl.keystore.password": "hush1", "compression.type": "zstd", "my.own.key": "hush2"}
    resource = configs.AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name="1",
        configs=tuple(
            configs.AlterableConfig(name=name, config_operation=ConfigOperation.SET, value=value)
            for name, value in keys.items()
        ),
    )
    user = scram.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"hush3", salted_password=b"hush4"
    )

    async def story(node: RunningNode) -> None:
        client = await connect(node)
        with caplog.at_level(logging.DEBUG, REQUEST_LOG):
            request = configs.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True)
            await client.call(request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
            request_of_user = scram.AlterUserScramCredentialsRequest(upsertions=(user,))
            await client.call(request_of_user, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)

    with_node(tmp_path, story)
    altered, changed = (
        each
        for each in events(caplog)
        if each["requestHeader"]["requestApiKeyName"]
        in ("INCREMENTAL_ALTER_CONFIGS", "ALTER_USER_SCRAM_CREDENTIALS")
    )
    (shown,) = altered["request"]["resources"]
    assert {each["name"]: each["value"] for each in shown["configs"]} == {
        "ssl.keystore.password": "[hidden]", "compression.type": "zstd", "my.own.key": "[hidden]"
    }  # fmt: skip
    (shown,) = changed["request"]["upsertions"]
    assert (shown["salt"], shown["saltedPassword"]) == ("[hidden]", "[hidden]")
    assert "hush" not in "".join(map(str, events(caplog)))


def test_a_large_message_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = tuple(metadata.MetadataRequestTopic(name=f"t{number}") for number in range(5_000))

    async def story(node: RunningNode) -> None:
        client = await connect(node)
        with caplog.at_level(logging.DEBUG, REQUEST_LOG):
            await client.call(metadata.MetadataRequest(topics=names), ApiKey.METADATA, 12)

    with_node(tmp_path, story, auto_create_topics_enable="false")
    (event,) = (each for each in events(caplog) if each["requestHeader"]["requestApiKeyName"] == "METADATA")
    assert event["request"]["topics"][-1] == "3001 more"
    assert len(event["response"]["topics"]) < 2_001


def test_the_partitions_of_a_broker_are_in_the_log_of_state_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node)
        with caplog.at_level(logging.INFO, STATE_CHANGES):
            await create(client, "few", 2)
            await create(client, "many", 101)

    with_node(tmp_path, story)
    lines = [each.getMessage() for each in caplog.records if each.name == STATE_CHANGES]
    assert lines[0] == "[Broker id=1] Transitioning 2 partition(s) to local leaders."
    assert lines[1].startswith("[Broker id=1] Leader few-0 with topic id ")
    assert lines[1].endswith(
        " starts at leader epoch 0 from offset 0 with partition epoch 0, high watermark 0, ISR [1], adding "
        "replicas [] and removing replicas []. Previous leader None and previous leader epoch was -1."
    )
    assert lines[3:] == ["[Broker id=1] Transitioning 101 partition(s) to local leaders."]
