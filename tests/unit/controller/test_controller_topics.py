"""Creating, growing and deleting topics: records, defaults, and Kafka's refusals word for word."""

from __future__ import annotations

import uuid

import pytest

from kcli.controller.api import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from kcli.controller.bootstrap import encode_records
from kcli.errors import (
    ErrorCode,
    InvalidRequestException,
    PolicyViolationException,
    TopicDeletionDisabledException,
)
from kcli.metadata.image import UNASSIGNED_DIRECTORY
from kcli.metadata.snapshot import image_records
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.records.metadata import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from rigs.controller import ControllerRig, creatable


@pytest.fixture
def rig() -> ControllerRig:
    made = ControllerRig()
    made.add_brokers(1)
    return made


@pytest.fixture
def three() -> ControllerRig:
    made = ControllerRig()
    made.add_brokers(1, 2, 3)
    return made


def test_a_topic_becomes_a_topic_its_configs_and_its_partitions(rig: ControllerRig) -> None:
    topic = creatable("t", 2, 1, configs={"retention.ms": "5", "cleanup.policy": "compact"})
    decision = rig.decide(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))
    kinds = [type(record) for record in decision.records]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert [record.name for record in decision.records[1:3]] == ["cleanup.policy", "retention.ms"]
    assert "t" not in rig.image.topics, "only replay changes the image"
    rig.obey(decision)
    partition = rig.partition("t", 1)
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (uuid.UUID(int=10_000),)


@pytest.mark.parametrize("level", [7, 16, 17])
def test_partitions_have_no_directories_before_3_7(level: int) -> None:
    rig = ControllerRig(features={"metadata.version": level})
    rig.add_brokers(1, 2)
    created = rig.decide(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(creatable("t", 1, 2),))).records
    rig.replay(created)
    more = cp.CreatePartitionsTopic(name="t", count=2, assignments=None)
    decision = rig.decide(CREATE_PARTITIONS, cp.CreatePartitionsRequest(topics=(more,)))
    rig.obey(decision)
    written = [
        len(each.directories) for each in (*created, *decision.records) if isinstance(each, PartitionRecord)
    ]
    assert written == ([2, 2] if level == 17 else [0, 0])
    assert len(rig.partition("t", 0).directories) == 2, "the image has an entry for each replica"
    encode_records(image_records(rig.image), level)


def test_min_insync_replicas_of_a_new_topic_clears_its_elr(rig: ControllerRig) -> None:
    topic = creatable("t", configs={"min.insync.replicas": "1"})
    records = rig.decide(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,))).records
    assert records[2] == ClearElrRecord(topic_name="t")


def test_defaults_come_from_the_controller() -> None:
    rig = ControllerRig(num_partitions=4, default_replication_factor=2)
    rig.add_brokers(1, 2)
    result = rig.create("t", -1, -1)
    assert (result.num_partitions, result.replication_factor) == (4, 2)
    assert len(rig.image.topics.topic("t").partitions) == 4


def test_the_response_tells_the_effective_configuration() -> None:
    rig = ControllerRig(static_config={"log.retention.ms": "77"})
    rig.add_brokers(1)
    result = rig.create("t", configs={"segment.bytes": "2000000"})
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert told["segment.bytes"] == ("2000000", 1)
    assert told["min.insync.replicas"] == ("1", 3)
    assert told["retention.ms"] == ("77", 4)
    assert told["cleanup.policy"] == ("delete", 5)
    assert result.topic_id == rig.image.topics.topic("t").topic_id


def test_configs_without_permission_are_left_out(rig: ControllerRig) -> None:
    request = ct.CreateTopicsRequest(topics=(creatable("t"),))
    (result,) = rig.decide(CREATE_TOPICS, request, describable=lambda _name: False).response.topics
    assert result.error_code is ErrorCode.NONE
    assert result.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, ())


def test_validate_only_writes_nothing(rig: ControllerRig) -> None:
    assert rig.create("t", validate=True).error_code is ErrorCode.NONE
    assert "t" not in rig.image.topics


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (creatable("taken"), "TOPIC_ALREADY_EXISTS", "Topic 'taken' already exists."),
        (
            creatable("__cluster_metadata"),
            "INVALID_REQUEST",
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (creatable("a_b"), "INVALID_TOPIC_EXCEPTION", "Topic 'a_b' collides with existing topic: a.b"),
        (creatable(""), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (creatable(".."), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed"),
        (
            creatable("x" * 250),
            "INVALID_TOPIC_EXCEPTION",
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (
            creatable("ä"),
            "INVALID_TOPIC_EXCEPTION",
            (
                "Topic name is invalid: 'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' "
                "and '-'"
            ),
        ),
        (creatable("t", configs={"no.such": "1"}), "INVALID_CONFIG", "Unknown topic config name: no.such"),
        (
            creatable("t", configs={"retention.ms": "x"}),
            "INVALID_CONFIG",
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            creatable("t", configs={"retention.ms": None}),
            "INVALID_CONFIG",
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            creatable("t", 1, 0),
            "INVALID_REPLICATION_FACTOR",
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            creatable("t", 0, 1),
            "INVALID_PARTITIONS",
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            creatable("t", 1, 3),
            "INVALID_REPLICATION_FACTOR",
            (
                "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
                "because only 1 broker(s) are registered."
            ),
        ),
        (
            creatable("t", assignments={0: (1,), 2: (1,)}),
            "INVALID_REPLICA_ASSIGNMENT",
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            creatable("t", assignments={0: ()}),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            creatable("t", assignments={0: (9,)}),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            creatable("t", assignments={0: (1, 1)}),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_invalid_topics_are_refused(
    rig: ControllerRig, topic: ct.CreatableTopic, code: str, message: str
) -> None:
    rig.create("taken")
    rig.create("a.b")
    decision = rig.decide(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))
    (result,) = decision.response.topics
    assert decision.records == ()
    assert (result.error_code.name, result.error_message) == (code, message)


def test_a_name_given_twice_is_refused_once_for_all(rig: ControllerRig) -> None:
    request = ct.CreateTopicsRequest(topics=(creatable("t"), creatable("t", 2), creatable("u")))
    response = rig.obey(rig.decide(CREATE_TOPICS, request))
    assert [(topic.name, topic.error_code.name, topic.error_message) for topic in response.topics] == [
        ("t", "INVALID_REQUEST", "Duplicate topic name."),
        ("u", "NONE", None),
    ]
    assert rig.image.topics.names == ("u",)


@pytest.mark.parametrize("field", ["num_partitions", "replication_factor"])
def test_assignments_go_without_counts(rig: ControllerRig, field: str) -> None:
    counts = {"num_partitions": -1, "replication_factor": -1, field: 1}
    topic = ct.CreatableTopic(
        name="t",
        num_partitions=counts["num_partitions"],
        replication_factor=counts["replication_factor"],
        assignments=(ct.CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),),
    )
    (result,) = rig.decide(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,))).response.topics
    assert result.error_code is ErrorCode.INVALID_REQUEST
    assert result.error_message.startswith("A manual partition assignment was specified, but ")


def test_assigned_replicas_of_unequal_number_are_refused(three: ControllerRig) -> None:
    result = three.create("t", assignments={0: (1, 2), 1: (3,)})
    assert result.error_message == (
        "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
        "previous partitions, which have 2 replica(s)."
    )


def test_fenced_brokers_are_not_in_sync_and_do_not_lead(three: ControllerRig) -> None:
    three.heartbeat(1, fence=True)
    assert three.create("t", assignments={0: (1, 2)}).error_code is ErrorCode.NONE
    assert (three.partition("t").isr, three.partition("t").leader) == ((2,), 2)
    refused = three.create("u", assignments={0: (1,)})
    assert refused.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
        "shutdown."
    )


def test_without_an_unfenced_broker_no_topic_can_be_made() -> None:
    rig = ControllerRig()
    rig.register(1)
    assert rig.create("t").error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
    )


def test_a_broker_with_several_directories_chooses_itself() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, directories=2)
    rig.create("t")
    assert rig.partition("t").directories == (UNASSIGNED_DIRECTORY,)


def test_too_many_partitions_are_refused_as_a_whole(rig: ControllerRig) -> None:
    request = ct.CreateTopicsRequest(topics=(creatable("t", 9_999), creatable("u", 2)))
    with pytest.raises(PolicyViolationException, match="Excessively large number of partitions"):
        rig.decide(CREATE_TOPICS, request)


def test_more_records_than_a_batch_takes_are_refused_as_a_whole(rig: ControllerRig) -> None:
    request = ct.CreateTopicsRequest(topics=(creatable("t", 10_000),))
    with pytest.raises(PolicyViolationException, match="excessively large batch operation"):
        rig.decide(CREATE_TOPICS, request)


# Growing.


def grow(
    rig: ControllerRig,
    name: str,
    count: int,
    assignments: list[tuple[int, ...]] | None = None,
    validate: bool = False,
) -> cp.CreatePartitionsTopicResult:
    topic = cp.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else tuple(cp.CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments),
    )
    request = cp.CreatePartitionsRequest(topics=(topic,), validate_only=validate)
    (result,) = rig.obey(rig.decide(CREATE_PARTITIONS, request)).results
    return result


def test_a_topic_grows_by_the_partitions_it_lacks(three: ControllerRig) -> None:
    three.create("t", 1, 2)
    assert grow(three, "t", 3).error_code is ErrorCode.NONE
    partitions = three.image.topics.topic("t").partitions
    assert sorted(partitions) == [0, 1, 2]
    assert all(len(partition.replicas) == 2 for partition in partitions.values())


def test_a_topic_grows_as_assigned(three: ControllerRig) -> None:
    three.create("t", 1, 1)
    assert grow(three, "t", 3, [(3,), (2,)]).error_code is ErrorCode.NONE
    assert (three.partition("t", 1).replicas, three.partition("t", 2).replicas) == ((3,), (2,))


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "message"),
    [
        ("nope", 2, None, "UNKNOWN_TOPIC_OR_PARTITION", None),
        ("t", 2, None, "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (
            "t",
            1,
            None,
            "INVALID_PARTITIONS",
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            "t",
            4,
            [(1,)],
            "INVALID_REPLICA_ASSIGNMENT",
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "t",
            3,
            [(1, 2)],
            "INVALID_REPLICA_ASSIGNMENT",
            (
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent "
                "with previous partitions, which have 1 replica(s)."
            ),
        ),
    ],
)
def test_an_invalid_growth_of_partitions_is_refused(
    three: ControllerRig,
    name: str,
    count: int,
    assignments: list[tuple[int, ...]] | None,
    code: str,
    message: str | None,
) -> None:
    three.create("t", 2, 1)
    result = grow(three, name, count, assignments)
    assert (result.error_code.name, result.error_message) == (code, message)
    assert len(three.image.topics.topic("t").partitions) == 2


def test_growth_may_be_tried_out(rig: ControllerRig) -> None:
    rig.create("t")
    assert grow(rig, "t", 5, validate=True).error_code is ErrorCode.NONE
    assert len(rig.image.topics.topic("t").partitions) == 1


# Deleting.


def delete(
    rig: ControllerRig, *states: dt.DeleteTopicState, version: int = 6, names: tuple[str, ...] = ()
) -> tuple[dt.DeletableTopicResult, ...]:
    request = dt.DeleteTopicsRequest(topics=tuple(states), topic_names=tuple(names))
    return rig.obey(rig.decide(DELETE_TOPICS, request, api_version=version)).responses


def test_a_topic_goes_with_its_configs(rig: ControllerRig) -> None:
    rig.create("t", 2, configs={"retention.ms": "5"})
    (response,) = delete(rig, dt.DeleteTopicState(name="t"))
    assert response.error_code is ErrorCode.NONE
    assert "t" not in rig.image.topics
    assert ConfigResource(ConfigResourceType.TOPIC, "t") not in rig.image.configs
    assert rig.create("t").error_code is ErrorCode.NONE


def test_a_topic_goes_by_its_id_and_the_answer_names_it(rig: ControllerRig) -> None:
    topic_id = rig.create("t").topic_id
    (response,) = delete(rig, dt.DeleteTopicState(topic_id=topic_id))
    assert (response.name, response.topic_id, response.error_code) == ("t", topic_id, ErrorCode.NONE)
    assert len(rig.image.topics) == 0


def test_old_versions_name_topics_in_another_field(rig: ControllerRig) -> None:
    rig.create("t")
    (response,) = delete(rig, names=("t",), version=5)
    assert response.error_code is ErrorCode.NONE
    assert len(rig.image.topics) == 0


def test_an_invalid_deletion_is_refused(rig: ControllerRig) -> None:
    topic_id = rig.create("t").topic_id
    unknown = uuid.UUID(int=5)
    twice = dt.DeleteTopicState(name="t")
    responses = delete(
        rig,
        dt.DeleteTopicState(),
        dt.DeleteTopicState(name="t", topic_id=topic_id),
        twice,
        twice,
        dt.DeleteTopicState(topic_id=unknown),
        dt.DeleteTopicState(name="nope"),
    )
    assert [(each.error_code.name, each.error_message) for each in responses] == [
        ("INVALID_REQUEST", "Neither topic name nor id were specified."),
        ("INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ("INVALID_REQUEST", "Duplicate topic name."),
        ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        ("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
    ]
    assert "t" in rig.image.topics


def test_deletion_can_be_forbidden() -> None:
    rig = ControllerRig(delete_topic_enable=False)
    with pytest.raises(TopicDeletionDisabledException):
        delete(rig, dt.DeleteTopicState(name="t"))
    with pytest.raises(InvalidRequestException):
        delete(rig, names=("t",), version=2)
