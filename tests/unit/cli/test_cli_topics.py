"""`kcli topics`, from words to bytes, against a scripted cluster."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.errors import ErrorCode
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import SHOWN_ID, Done, Kcli, ScriptedCluster


def test_list_prints_the_names_that_match(kcli: Kcli) -> None:
    assert kcli("topics", "--list") == Done(0, "t\nu\n", "")
    assert kcli("topics", "--list", "--topic", "u|x") == Done(0, "u\n", "")
    assert kcli("topics", "--list", "--topic", "nope") == Done(0, "\n", "")
    assert kcli("topics", "--list", "--output", "tsv") == Done(0, "topic\nt\nu\n", "")


def test_describe_prints_kafkas_lines_or_whole_rows_as_json(kcli: Kcli) -> None:
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


def test_reports_of_describe_show_partitions_only(kcli: Kcli) -> None:
    unavailable = kcli("topics", "--describe", "--unavailable-partitions").out
    assert unavailable.splitlines() == [
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 1,2\tIsr: 1\tElr: 2\tLastKnownElr: "
    ]
    assert len(kcli("topics", "--describe", "--under-replicated-partitions").out.splitlines()) == 3
    assert len(kcli("topics", "--describe", "--under-min-isr-partitions").out.splitlines()) == 3
    assert kcli("topics", "--describe", "--at-min-isr-partitions").out == ""
    assert kcli("topics", "--describe", "--topics-with-overrides").out.count("Topic:") == 2


def test_create_sends_the_topic_and_a_dry_run_only_validates(kcli: Kcli, cluster: ScriptedCluster) -> None:
    done = kcli("topics", "--create", "--topic", "a.b", "--partitions", "3", "--config", "retention.ms=9")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("WARNING: Due to limitations in metric names")
    assert done.out.splitlines()[1] == "Created topic a.b."
    (request,) = cluster.server.sent(ApiKey.CREATE_TOPICS)
    assert (request.topics[0].num_partitions, request.topics[0].configs[0].value) == (3, "9")
    assert kcli("topics", "--create", "--topic", "x", "--dry-run").out == "Would create topic x.\n"
    assert cluster.server.sent(ApiKey.CREATE_TOPICS)[1].validate_only


@pytest.mark.usefixtures("kafkas_script")
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
            ("--topic", "x", "--config", "cleanup.policy=compact\u00a0"),
            "Invalid value compact\u00a0 for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            ("--topic", "x", "--config", "min.cleanable.dirty.ratio=0_5"),
            "Invalid value 0_5 for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
        ),
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
        (("--topic", ""), "The given topic name '' cannot be represented in a request."),
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
def test_create_fails_in_kafkas_words(kcli: Kcli, words: tuple[str, ...], message: str) -> None:
    done = kcli("topics", "--create", *words)
    assert done == Done(1, f"Error while executing topic command : {message}\n", "")


def test_create_if_not_exists_is_silent_about_a_topic_that_exists(kcli: Kcli) -> None:
    assert kcli("topics", "--create", "--topic", "t", "--if-not-exists") == Done(0, "", "")


def test_create_warns_if_replicas_must_share_a_rack(kcli: Kcli, cluster: ScriptedCluster) -> None:
    create = ("topics", "--create", "--topic", "x", "--replication-factor")
    assert kcli(*create, "2") == Done(
        0,
        "Created topic x.\n",
        "WARNING: The replication factor 2 exceeds the number of racks (1), so replicas of a partition share a rack.\n",
    )
    assert kcli(*create, "1", "--dry-run") == Done(0, "Would create topic x.\n", "")


def test_alter_and_delete_are_silent(kcli: Kcli, cluster: ScriptedCluster) -> None:
    grow = ("topics", "--alter", "--topic", "t", "--partitions", "3", "--replica-assignment", "1,1,2")
    assert kcli(*grow) == Done(0, "", "")
    (request,) = cluster.server.sent(ApiKey.CREATE_PARTITIONS)
    assert [assignment.broker_ids for assignment in request.topics[0].assignments] == [(2,)]
    assert kcli("topics", "--delete", "--topic", ".", "--dry-run").out == (
        "Would delete topic t.\nWould delete topic u.\n"
    )
    assert not cluster.server.sent(ApiKey.DELETE_TOPICS)
    assert kcli("topics", "--delete", "--topic", ".") == Done(0, "", "")
    (deleted,) = cluster.server.sent(ApiKey.DELETE_TOPICS)
    assert [topic.name for topic in deleted.topics] == ["t", "u"]
    missing = kcli("topics", "--delete", "--topic", "nope")
    assert missing.out == "Error while executing topic command : Topic 'nope' does not exist as expected\n"
    assert kcli("topics", "--delete", "--topic", "nope", "--if-exists") == Done(0, "", "")
    assert kcli("topics", "--delete", "--topic", "") == Done(0, "", "")
    bad = kcli("topics", "--alter", "--topic", "nope", "--partitions", "3", "--replica-assignment", "a")
    assert bad.out == 'Error while executing topic command : For input string: "a"\n'


def test_delete_config_only_warns(kcli: Kcli) -> None:
    done = kcli("topics", "--list", "--topic", "t", "--delete-config", "retention.ms")
    assert (done.code, done.out) == (0, "t\n")
    assert done.err.startswith("delete-config option is no longer supported")


def test_an_empty_assignment_leaves_the_count_to_the_broker(kcli: Kcli, cluster: ScriptedCluster) -> None:
    assert kcli("topics", "--create", "--topic", "x", "--replica-assignment", "").code == 0
    (request,) = cluster.server.sent(ApiKey.CREATE_TOPICS)
    assert request.topics[0].num_partitions == -1


@pytest.mark.usefixtures("kafkas_script")
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
def test_options_that_exclude_each_other_are_refused(
    kcli: Kcli, words: tuple[str, ...], message: str
) -> None:
    done = kcli("topics", *words)
    assert (done.code, done.out, done.err.splitlines()[0]) == (1, "", message)
    assert "Description" in done.err


def test_a_server_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "--list"]) == 1
    assert capsys.readouterr().err == "--bootstrap-server must be specified\n"


def test_describe_shows_the_other_topics_if_one_fails(kcli: Kcli, cluster: ScriptedCluster) -> None:
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
    assert rows.err.splitlines() == [
        "Topic authorization failed.",
        (
            "User:ANONYMOUS may not Describe topic u. This command allows it: "
            "kcli acls --add --allow-principal User:ANONYMOUS --operation Describe --topic u"
        ),
    ]
