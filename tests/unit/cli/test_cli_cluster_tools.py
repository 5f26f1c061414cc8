"""The tools that talk to brokers, from words to bytes, against a scripted server."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.errors import ErrorCode
from kcli.protocol.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    incremental_alter_configs,
    list_offsets,
    metadata,
    unregister_broker,
)
from kcli.protocol.wire.api import ApiKey
from kcli.testing.rigs.scripted_server import Answer, ScriptedServer

TOPIC_ID = uuid.UUID(int=1)
SHOWN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class Cluster:
    """One broker, id 1, with topics t (2 partitions) and u (1)."""

    def __init__(self) -> None:
        self.topics = {"t": 2, "u": 1}
        self.server = ScriptedServer(self.script())

    def script(self) -> dict[ApiKey, Answer]:
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe,
            ApiKey.DESCRIBE_CONFIGS: self.configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter,
            ApiKey.CREATE_TOPICS: self.create,
            ApiKey.DELETE_TOPICS: self.delete,
            ApiKey.CREATE_PARTITIONS: self.grow,
            ApiKey.LIST_OFFSETS: self.offsets,
            ApiKey.DELETE_RECORDS: self.delete_records,
            ApiKey.DESCRIBE_LOG_DIRS: self.log_dirs,
            ApiKey.UNREGISTER_BROKER: self.unregister,
        }

    def metadata(self, request: metadata.MetadataRequest, version: int) -> metadata.MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [each.name for each in request.topics]
        return metadata.MetadataResponse(
            brokers=(metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port),),
            controller_id=1,
            topics=tuple(
                metadata.MetadataResponseTopic(
                    name=name,
                    topic_id=TOPIC_ID,
                    partitions=tuple(
                        metadata.MetadataResponsePartition(partition_index=number, leader_id=1)
                        for number in range(self.topics[name])
                    ),
                )
                for name in wanted
                if name in self.topics
            ),
        )

    def cluster(self, request: Any, version: int) -> describe_cluster.DescribeClusterResponse:
        node = describe_cluster.DescribeClusterBroker(
            broker_id=1, host="127.0.0.1", port=self.server.port, rack="rack-a"
        )
        return describe_cluster.DescribeClusterResponse(cluster_id="abc", controller_id=1, brokers=(node,))

    def describe(self, request: Any, version: int) -> Any:
        return describe_topic_partitions.DescribeTopicPartitionsResponse(
            topics=tuple(
                describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                    name=each.name,
                    topic_id=TOPIC_ID,
                    partitions=tuple(
                        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                            partition_index=number,
                            leader_id=1 if number == 0 else -1,
                            replica_nodes=(1, 2),
                            isr_nodes=(1,),
                            eligible_leader_replicas=(2,) if number else (),
                            last_known_elr=(),
                        )
                        for number in range(self.topics[each.name])
                    ),
                )
                for each in request.topics
            )
        )

    def configs(self, request: Any, version: int) -> Any:
        def entries(resource: Any) -> tuple[describe_configs.DescribeConfigsResourceResult, ...]:
            entry = describe_configs.DescribeConfigsResourceResult
            synonym = describe_configs.DescribeConfigsSynonym
            return (
                entry(name="retention.ms", value="5", config_source=1, synonyms=(
                    synonym(name="retention.ms", value="5", source=1),
                    synonym(name="log.retention.ms", value="7", source=5),
                )),
                entry(name="min.insync.replicas", value="2", config_source=5),
                entry(name="password", value=None, config_source=1, is_sensitive=True),
            )  # fmt: skip

        return describe_configs.DescribeConfigsResponse(
            results=tuple(
                describe_configs.DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=entries(each)
                )
                for each in request.resources
            )
        )

    def alter(self, request: Any, version: int) -> Any:
        return incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=tuple(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    error_code=ErrorCode.INVALID_CONFIG if each.configs[0].name == "bad" else ErrorCode.NONE,
                    error_message="Unknown topic config name: bad",
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in request.resources
            )
        )

    def create(self, request: Any, version: int) -> Any:
        return create_topics.CreateTopicsResponse(
            topics=tuple(
                create_topics.CreatableTopicResult(
                    name=each.name,
                    error_code=ErrorCode.TOPIC_ALREADY_EXISTS if each.name in self.topics else ErrorCode.NONE,
                    error_message=f"Topic '{each.name}' already exists.",
                )
                for each in request.topics
            )
        )

    def delete(self, request: Any, version: int) -> Any:
        return delete_topics.DeleteTopicsResponse(
            responses=tuple(delete_topics.DeletableTopicResult(name=each.name) for each in request.topics)
        )

    def grow(self, request: Any, version: int) -> Any:
        return create_partitions.CreatePartitionsResponse(
            results=tuple(
                create_partitions.CreatePartitionsTopicResult(name=each.name) for each in request.topics
            )
        )

    def offsets(self, request: Any, version: int) -> Any:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=10 + each.partition_index if each.timestamp != 99 else -1,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def delete_records(self, request: Any, version: int) -> Any:
        return delete_records.DeleteRecordsResponse(
            topics=tuple(
                delete_records.DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        delete_records.DeleteRecordsPartitionResult(
                            partition_index=each.partition_index,
                            low_watermark=each.offset,
                            error_code=ErrorCode.OFFSET_OUT_OF_RANGE if each.offset > 10 else ErrorCode.NONE,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def log_dirs(self, request: Any, version: int) -> Any:
        partition = describe_log_dirs.DescribeLogDirsPartition(partition_index=0, partition_size=315)
        topics = tuple(
            describe_log_dirs.DescribeLogDirsTopic(name=name, partitions=(partition,)) for name in ("t", "u")
        )
        return describe_log_dirs.DescribeLogDirsResponse(
            results=(
                describe_log_dirs.DescribeLogDirsResult(log_dir="/data/a", topics=topics),
                describe_log_dirs.DescribeLogDirsResult(
                    log_dir="/data/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR
                ),
            )
        )

    def unregister(self, request: Any, version: int) -> Any:
        known = request.broker_id == 1
        return unregister_broker.UnregisterBrokerResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Kcli = Callable[..., Done]


@pytest.fixture
def cluster() -> Any:
    made = Cluster()
    with made.server:
        yield made


@pytest.fixture
def kcli(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Kcli:
    def call(*words: str) -> Done:
        code = run([*words, "--bootstrap-server", cluster.server.address])
        said = capsys.readouterr()
        return Done(code, said.out.replace(str(cluster.server.port), "PORT"), said.err)

    return call


def test_topics_list(kcli: Kcli) -> None:
    assert kcli("topics", "--list") == Done(0, "t\nu\n", "")
    assert kcli("topics", "--list", "--topic", "u|x") == Done(0, "u\n", "")
    assert kcli("topics", "--list", "--topic", "nope") == Done(0, "\n", "")
    assert kcli("topics", "--list", "--output", "tsv") == Done(0, "topic\nt\nu\n", "")


def test_topics_describe(kcli: Kcli) -> None:
    done = kcli("topics", "--describe", "--topic", "t")
    assert done == Done(
        0,
        f"Topic: t\tTopicId: {SHOWN_ID}\tPartitionCount: 2\tReplicationFactor: 2\t"
        "Configs: password=null,retention.ms=5\n"  # as a Java HashMap has them
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: \tLastKnownElr: \n"
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 1,2\tIsr: 1\tElr: 2\tLastKnownElr: \n",
        "",
    )
    row = json.loads(kcli("topics", "--describe", "--topic", "t", "--output", "json").out)
    assert row["partitions"][1]["elr"] == [2] and row["configs"]["retention.ms"] == "5"


def test_topics_reports_show_partitions_only(kcli: Kcli) -> None:
    unavailable = kcli("topics", "--describe", "--unavailable-partitions").out
    assert unavailable.splitlines() == [
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 1,2\tIsr: 1\tElr: 2\tLastKnownElr: "
    ]
    assert len(kcli("topics", "--describe", "--under-replicated-partitions").out.splitlines()) == 3
    assert len(kcli("topics", "--describe", "--under-min-isr-partitions").out.splitlines()) == 3
    assert kcli("topics", "--describe", "--at-min-isr-partitions").out == ""
    assert kcli("topics", "--describe", "--topics-with-overrides").out.count("Topic:") == 2


def test_topics_create(kcli: Kcli, cluster: Cluster) -> None:
    done = kcli("topics", "--create", "--topic", "a.b", "--partitions", "3", "--config", "retention.ms=9")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("WARNING: Due to limitations in metric names")
    assert done.out.splitlines()[1] == "Created topic a.b."
    (request,) = cluster.server.sent(ApiKey.CREATE_TOPICS)
    assert (request.topics[0].num_partitions, request.topics[0].configs[0].value) == (3, "9")
    assert kcli("topics", "--create", "--topic", "x", "--dry-run").out == "Would create topic x.\n"
    assert cluster.server.sent(ApiKey.CREATE_TOPICS)[1].validate_only


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "t"), "Topic 't' already exists."),
        (("--topic", "x", "--partitions", "0"), "The partitions must be greater than 0"),
        (
            ("--topic", "x", "--replication-factor", "32768"),
            "The replication factor must be between 1 and 32767 inclusive",
        ),
        (("--topic", "x", "--config", "foo=1"), "Unknown topic config name: foo"),
        (
            ("--topic", "x", "--config", "retention.ms=abc"),
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            ("--topic", "x", "--config", "retention.ms"),
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".',
        ),
        (
            ("--topic", "x", "--replica-assignment", "1:1"),
            "Partition replica lists may not contain duplicate entries: 1",
        ),
        (
            ("--topic", "x", "--replica-assignment", "1:2,3"),
            "Partition 1 has different replication factor: [3]",
        ),
        (("--topic", "x", "--partitions", "abc"), "Cannot parse argument 'abc' of option partitions"),
        (
            ("--topic", "x", "--config", "retention.ms="),
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".',
        ),
        (
            ("--topic", "x", "--config", "retention.ms=1=2"),
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".',
        ),
    ],
)
def test_topics_create_fails_in_kafkas_words(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    done = kcli("topics", "--create", *words)
    assert done == Done(1, f"Error while executing topic command : {message}\n", "")


def test_topics_create_if_not_exists(kcli: Kcli) -> None:
    assert kcli("topics", "--create", "--topic", "t", "--if-not-exists") == Done(0, "", "")


def test_topics_alter_and_delete_are_silent(kcli: Kcli, cluster: Cluster) -> None:
    grow = ("topics", "--alter", "--topic", "t", "--partitions", "3", "--replica-assignment", "1,1,2")
    assert kcli(*grow) == Done(0, "", "")
    (request,) = cluster.server.sent(ApiKey.CREATE_PARTITIONS)
    assert [each.broker_ids for each in request.topics[0].assignments] == [(2,)]
    assert kcli("topics", "--delete", "--topic", ".", "--dry-run").out == (
        "Would delete topic t.\nWould delete topic u.\n"
    )
    assert not cluster.server.sent(ApiKey.DELETE_TOPICS)
    assert kcli("topics", "--delete", "--topic", ".") == Done(0, "", "")
    (deleted,) = cluster.server.sent(ApiKey.DELETE_TOPICS)
    assert [each.name for each in deleted.topics] == ["t", "u"]
    missing = kcli("topics", "--delete", "--topic", "nope")
    assert missing.out == "Error while executing topic command : Topic 'nope' does not exist as expected\n"
    assert kcli("topics", "--delete", "--topic", "nope", "--if-exists") == Done(0, "", "")
    assert kcli("topics", "--delete", "--topic", "") == Done(0, "", "")
    bad = kcli("topics", "--alter", "--topic", "nope", "--partitions", "3", "--replica-assignment", "a")
    assert bad.out == 'Error while executing topic command : For input string: "a"\n'


def test_topics_delete_config_only_warns(kcli: Kcli) -> None:
    done = kcli("topics", "--list", "--topic", "t", "--delete-config", "retention.ms")
    assert (done.code, done.out) == (0, "t\n")
    assert done.err.startswith("delete-config option is no longer supported")


def test_topics_an_empty_assignment_is_none(kcli: Kcli, cluster: Cluster) -> None:
    assert kcli("topics", "--create", "--topic", "x", "--replica-assignment", "").code == 0
    (request,) = cluster.server.sent(ApiKey.CREATE_TOPICS)
    assert request.topics[0].num_partitions == -1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--list", "--create"),
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
        ),
        (("--create",), 'Missing required argument "[topic]"'),
        (("--alter", "--topic", "t"), 'Missing required argument "[partitions]"'),
        (("--list", "--partitions", "3"), 'Option "[partitions]" can\'t be used with option "[list]"'),
        (
            ("--create", "--topic", "x", "--replica-assignment", "1", "--partitions", "1"),
            'Option "[replica-assignment]" can\'t be used with option "[partitions]"',
        ),
        (
            ("--describe", "--at-min-isr-partitions", "--topics-with-overrides"),
            'Option "[at-min-isr-partitions]" can\'t be used with option "[topics-with-overrides]"',
        ),
        (("--describe", "--if-exists"), "--topic or --topic-id is required to describe a topic"),
    ],
)
def test_topics_options_that_do_not_go_together(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    done = kcli("topics", *words)
    assert (done.code, done.out, done.err.splitlines()[0]) == (1, "", message)
    assert "Description" in done.err


@pytest.mark.parametrize("words", ["", "--topic t", "--entity-type things"])
def test_configs_asks_for_a_server_before_what_it_is_about(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["configs", "--describe", *words.split()]) == 1
    assert capsys.readouterr().err == (
        "Either --bootstrap-server or --bootstrap-controller must be specified.\n"
    )


def test_topics_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "--list"]) == 1
    assert capsys.readouterr().err == "--bootstrap-server must be specified\n"


def test_configs_describe(kcli: Kcli) -> None:
    assert kcli("configs", "--describe", "--topic", "t").out == (
        "Dynamic configs for topic t are:\n"
        "  password=null sensitive=true synonyms={}\n"
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, "
        "DEFAULT_CONFIG:log.retention.ms=7}\n"
    )
    every = kcli("configs", "--describe", "--entity-type", "topics", "--all").out.splitlines()
    assert every[0] == "All configs for topic t are:"
    assert every[1] == "  min.insync.replicas=2 sensitive=false synonyms={}"
    assert "All configs for topic u are:" in every
    assert kcli("configs", "--describe", "--topic", "nope").out == (
        "The topic 'nope' doesn't exist and doesn't have dynamic config.\n"
    )
    assert kcli("configs", "--describe", "--entity-type", "brokers").out == (
        "Dynamic configs for broker 1 are:\nDefault configs for brokers in the cluster are:\n"
    )


def test_configs_alter(kcli: Kcli, cluster: Cluster) -> None:
    words = ("--add-config", "cleanup.policy=[compact,delete],a=", "--delete-config", "retention.ms")
    done = kcli("configs", "--alter", "--topic", "t", *words)
    assert done == Done(0, "Completed updating config for topic t.\n", "")
    (request,) = cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    changes = [(op.name, op.config_operation, op.value) for op in request.resources[0].configs]
    assert changes == [("cleanup.policy", 0, "compact,delete"), ("a", 0, ""), ("retention.ms", 1, "")]
    done = kcli("configs", "--alter", "--broker-defaults", "--add-config", "a=1", "--dry-run")
    assert done.out == "Would complete updating default config for brokers in the cluster.\n"
    assert cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)[1].validate_only


def test_configs_lists_may_end_in_a_comma_and_come_in_parts(kcli: Kcli, cluster: Cluster) -> None:
    words = (
        "--add-config",
        "flush.ms=5,",
        "--delete-config",
        "retention.ms,",
        "--delete-config",
        "retention.ms",
    )
    assert kcli("configs", "--alter", "--topic", "t", *words).code == 0
    (request,) = cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    changes = [(op.name, op.config_operation) for op in request.resources[0].configs]
    assert changes == [("flush.ms", 0), ("retention.ms", 1), ("retention.ms", 1)]


def test_configs_alter_from_a_file(kcli: Kcli, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "add.properties").write_text("# comment\nflush.ms=2222\n")
    kcli("configs", "--alter", "--topic", "t", "--add-config-file", str(tmp_path / "add.properties"))
    (request,) = cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert [(op.name, op.value) for op in request.resources[0].configs] == [("flush.ms", "2222")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--describe",), "At least one entity type must be specified"),
        (
            ("--describe", "--entity-type", "things"),
            (
                "Invalid entity type things, the entity type must be one of topics, clients, users, brokers, ips, "
                "client-metrics, groups, broker-loggers with a --bootstrap-server or --bootstrap-controller argument"
            ),
        ),
        (
            ("--describe", "--entity-type", "users", "--entity-type", "topics"),
            "Only 'users' and 'clients' entity types may be specified together",
        ),
        (
            ("--describe", "--topic", "t", "--entity-type", "topics"),
            "Duplicate entity type(s) specified: topics",
        ),
        (
            ("--describe", "--broker", "abc"),
            "The entity name for brokers must be a valid integer broker id, but it is: abc",
        ),
        (
            ("--alter", "--topic", "t"),
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter",
        ),
        (
            ("--alter", "--entity-type", "brokers", "--add-config", "a=1"),
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips",
        ),
        (("--alter", "--topic", "t", "--delete-config", "b,c"), "Invalid config(s): b,c"),
        (("--alter", "--topic", "t", "--add-config", "a b=1"), "Invalid character found for config key: a b"),
        (
            ("--alter", "--topic", "t", "--add-config", "a"),
            (
                "requirement failed: Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            ),
        ),
        (("--describe", "--topic", ""), "Topic name is invalid: the empty string is not allowed"),
        (("--describe", "--entity-name"), "Option entity-name requires an argument"),
    ],
)
def test_configs_refuses_in_kafkas_words(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code = run(["configs", "--bootstrap-server", cluster.server.address, *words])
    assert (code, capsys.readouterr().err) == (1, message + "\n")


def test_configs_tells_what_the_server_refused(kcli: Kcli) -> None:
    done = kcli("configs", "--alter", "--topic", "t", "--add-config", "bad=1")
    assert done.code == 1
    first, second = done.err.splitlines()
    assert first.startswith(
        "Error while executing config command with args '--alter --topic t --add-config bad=1"
    )
    assert second.endswith("InvalidConfigurationException: Unknown topic config name: bad")


def test_get_offsets(kcli: Kcli) -> None:
    assert kcli("get-offsets") == Done(0, "t:0:10\nt:1:11\nu:0:10\n", "")
    assert kcli("get-offsets", "--topic", "t", "--partitions", "1").out == "t:1:11\n"
    assert kcli("get-offsets", "--topic-partitions", "t:1-,:0-1").out == "t:0:10\nt:1:11\nu:0:10\n"
    assert kcli("get-offsets", "--topic-partitions", "t:0").out == "t:0:10\n"
    assert kcli("get-offsets", "--time", "99") == Done(0, "", "")
    assert json.loads(kcli("get-offsets", "--topic", "u", "--output", "json").out) == {
        "topic": "u",
        "partition": 0,
        "offset": 10,
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "nope"), "Could not match any topic-partitions with the specified filters"),
        (
            ("--topic", "t", "--topic-partitions", "u"),
            "--topic-partitions cannot be used with --topic or --partitions",
        ),
        (
            ("--partitions", "x"),
            "--partitions expects a comma separated list of numeric partition ids, but received: x",
        ),
        (
            ("--time", "bogus"),
            (
                "Malformed time argument bogus. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
                "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
            ),
        ),
        (
            ("--topic-partitions", "t:x"),
            "org.apache.kafka.tools.TerseException: Invalid rule specification: t:x",
        ),
    ],
)
def test_get_offsets_fails_in_kafkas_words(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    assert kcli("get-offsets", *words) == Done(1, "", f"Error occurred: {message}\n")


def test_delete_records(kcli: Kcli, cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "d.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 3}, '
                    '{"topic": "u", "partition": 0, "offset": 99}], "version": 1}')  # fmt: skip
    would = kcli("delete-records", "--offset-json-file", str(file), "--dry-run")
    assert would.out.splitlines()[0] == "partition: t-0\twould delete records before offset: 3"
    assert not cluster.server.sent(ApiKey.DELETE_RECORDS)
    assert kcli("delete-records", "--offset-json-file", str(file)) == Done(
        0,
        "Executing records delete operation\n"
        "Records delete operation completed:\n"
        "partition: t-0\tlow_watermark: 3\n"
        "partition: u-0\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: The requested offset is "
        "not within the range of offsets maintained by the server.\n",
        "",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "The input string is not a valid JSON"),
        ('{"version": 7, "partitions": []}', "Not supported version field value 7"),
        ('{"version": 1}', "Missing partitions field"),
        (
            (
                '{"partitions": [{"topic": "a", "partition": 0, "offset": 1},'
                ' {"topic": "a", "partition": 0, "offset": 2}]}'
            ),
            "Offset json file contains duplicate topic partitions: a-0",
        ),
    ],
)
def test_delete_records_refuses_a_wrong_file(kcli: Kcli, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "d.json"
    file.write_text(text)
    assert kcli("delete-records", "--offset-json-file", str(file)) == Done(1, "", message + "\n")


def test_log_dirs(kcli: Kcli) -> None:
    lines = kcli("log-dirs", "--describe", "--topic-list", "t").out.splitlines()
    assert lines[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 1",
    ]
    assert lines[2] == (
        '{"brokers":[{"broker":1,"logDirs":[{"partitions":[],'
        '"error":"org.apache.kafka.common.errors.KafkaStorageException","logDir":"/data/b"},'
        '{"partitions":[{"partition":"t-0","size":315,"offsetLag":0,"isFuture":false}],"error":null,'
        '"logDir":"/data/a"}]}],"version":1}'
    )
    unknown = kcli("log-dirs", "--describe", "--broker-list", "1,9")
    assert unknown == Done(
        1,
        "",
        "ERROR: The given brokers do not exist from --broker-list: 9. Current existent brokers: 1\n",
    )
    assert kcli("log-dirs", "--describe", "--broker-list", "x").err == 'For input string: "x"\n'


def test_cluster(kcli: Kcli) -> None:
    assert kcli("cluster", "cluster-id") == Done(0, "Cluster ID: abc\n", "")
    assert kcli("cluster", "list-endpoints").out == (
        "ID         HOST      PORT       RACK   STATE      ENDPOINT_TYPE  \n"
        "1          127.0.0.1 PORT      rack-a unfenced   broker         \n"
    )
    assert kcli("cluster", "unregister", "--id", "1").out == "Broker 1 is no longer registered.\n"
    failed = kcli("cluster", "unregister", "--id", "77")
    assert failed.code == 1
    assert failed.err == (
        "org.apache.kafka.common.errors.BrokerIdNotRegisteredException: "
        "Broker ID 77 is not currently registered\n"
    )


def test_broker_api_versions(kcli: Kcli) -> None:
    lines = kcli("broker-api-versions").out.splitlines()
    assert lines[0] == "127.0.0.1:PORT (id: 1 rack: null isFenced: false) -> ("
    assert "\tMetadata(3): 0 to 13 [usable: 13]," in lines
    assert "\tFetch(1): UNSUPPORTED," in lines
    assert lines[-1] == ")" and not lines[-2].endswith(",")


def test_broker_api_versions_without_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["broker-api-versions", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "Request METADATA failed on brokers [127.0.0.1:1 (id: -1 rack: null isFenced: false)]" in (
        capsys.readouterr().err
    )


def test_topics_describe_shows_what_is_known_of_the_others(kcli: Kcli, cluster: Cluster) -> None:
    cluster.topics["v"] = 1
    told = cluster.describe

    def describe(request: Any, version: int) -> Any:
        answer = told(request, version)
        return dataclasses.replace(
            answer,
            topics=tuple(
                dataclasses.replace(topic, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partitions=())
                if topic.name == "u"
                else topic
                for topic in answer.topics
            ),
        )

    cluster.server.script = {**cluster.script(), ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe}
    done = kcli("topics", "--describe")
    assert done.code == 1
    lines = done.out.splitlines()
    assert [line.split("\t")[0] for line in lines if not line.startswith("\t")] == [
        "Topic: t",
        "Topic: v",
        "Error while executing topic command : Topic authorization failed.",
    ]
    rows = kcli("topics", "--describe", "--output", "json")
    assert [json.loads(line)["topic"] for line in rows.out.splitlines()] == ["t", "v"]
    assert rows.err == "Topic authorization failed.\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("YES\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_a_terminal_is_asked_before_something_is_lost(
    kcli: Kcli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, code: int
) -> None:
    def at_terminal(*words: str) -> tuple[int, str]:
        asked = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        monkeypatch.setattr(sys, "stderr", asked)
        done = kcli(*words)
        monkeypatch.undo()
        return done.code, asked.getvalue()

    found, asked = at_terminal("topics", "--delete", "--topic", "t")
    assert found == code
    assert asked.startswith("This deletes topic t with all records.\nGo on? [y/N] ")
    assert len(cluster.server.sent(ApiKey.DELETE_TOPICS)) == (code == 0)
    assert ("Nothing was deleted." in asked) == (code == 1)
    assert at_terminal("topics", "--delete", "--topic", "u", "--yes") == (0, "")
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": -1}]}')
    found, asked = at_terminal("delete-records", "--offset-json-file", str(file))
    assert found == code and asked.startswith("This deletes the records of t-0 before the end.\n")
    found, asked = at_terminal("delete-records", "--offset-json-file", str(file), "--yes")
    assert (found, asked) == (0, "")


def test_without_a_terminal_nobody_is_asked(kcli: Kcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert kcli("topics", "--delete", "--topic", "t").code == 0
