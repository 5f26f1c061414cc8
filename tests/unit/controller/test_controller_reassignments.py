"""Reassignments and requested elections: what the controller writes down, and when a reassignment ends."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kcli.controller.api import (
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from kcli.errors import ErrorCode, InvalidRequestException
from kcli.protocol.messages import alter_partition as ap
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.messages import list_partition_reassignments as lr
from kcli.protocol.records.metadata import PartitionChangeRecord
from rigs.controller import ControllerRig


@pytest.fixture
def rig() -> ControllerRig:
    rig = ControllerRig()
    rig.add_brokers(1, 2, 3, 4)
    rig.create("t", assignments={0: [1, 2]})
    return rig


def reassign(
    rig: ControllerRig, replicas: list[int] | None, *, topic: str = "t", number: int = 0, allow: bool = True
) -> tuple[Any, ...]:
    asked = ar.ReassignablePartition(
        partition_index=number, replicas=None if replicas is None else tuple(replicas)
    )
    request = ar.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allow,
        topics=(ar.ReassignableTopic(name=topic, partitions=(asked,)),),
    )
    response = rig.obey(rig.decide(ALTER_PARTITION_REASSIGNMENTS, request))
    assert response.error_code is ErrorCode.NONE
    ((answer,),) = [topic.partitions for topic in response.responses]
    return answer.error_code, answer.error_message


def propose_isr(rig: ControllerRig, *isr: int) -> ap.ResponsePartitionData:
    partition, topic = rig.partition("t"), rig.image.topics.topic("t")
    request = ap.AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=rig.image.brokers[partition.leader].epoch,
        topics=(
            ap.RequestTopicData(
                topic_id=topic.topic_id,
                partitions=(
                    ap.RequestPartitionData(
                        partition_index=0,
                        leader_epoch=partition.leader_epoch,
                        new_isr_with_epochs=tuple(
                            ap.BrokerState(broker_id=each, broker_epoch=rig.image.brokers[each].epoch)
                            for each in isr
                        ),
                        partition_epoch=partition.partition_epoch,
                    ),
                ),
            ),
        ),
    )
    response = rig.obey(rig.decide(ALTER_PARTITION, request))
    ((answer,),) = [topic.partitions for topic in response.topics]
    return answer


def ongoing(
    rig: ControllerRig, topics: tuple[lr.ListPartitionReassignmentsTopics, ...] | None = None
) -> dict[tuple[str, int], tuple[tuple[int, ...], ...]]:
    request = lr.ListPartitionReassignmentsRequest(topics=topics)
    response = rig.obey(rig.decide(LIST_PARTITION_REASSIGNMENTS, request))
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }


class TestReassign:
    def test_target_first_then_what_leaves(self, rig: ControllerRig) -> None:
        assert reassign(rig, [3, 1]) == (ErrorCode.NONE, None)
        partition = rig.partition("t")
        assert (partition.replicas, partition.adding, partition.removing) == ((3, 1, 2), (3,), (2,))
        assert partition.isr == (1, 2) and partition.leader == 1 and partition.leader_epoch == 0
        assert [partition.directory(each) for each in (1, 2, 3)] == [
            rig.image.brokers[each].directories[0] for each in (1, 2, 3)
        ]
        assert ongoing(rig) == {("t", 0): ((3, 1, 2), (3,), (2,))}
        assert ongoing(rig, (lr.ListPartitionReassignmentsTopics(name="t", partition_indexes=(1,)),)) == {}

    def test_it_ends_when_the_isr_has_what_is_added(self, rig: ControllerRig) -> None:
        reassign(rig, [3, 1])
        answer = propose_isr(rig, 1, 2, 3)
        assert answer.error_code is ErrorCode.NONE and answer.isr == (1, 3)
        partition = rig.partition("t")
        assert (partition.replicas, partition.isr) == ((3, 1), (1, 3))
        assert partition.directories == tuple(rig.image.brokers[each].directories[0] for each in (3, 1))
        assert (partition.leader, partition.leader_epoch) == (1, 1), "a smaller replica set is a new epoch"
        assert ongoing(rig) == {}

    def test_leadership_leaves_a_replica_that_is_moved_away(self, rig: ControllerRig) -> None:
        reassign(rig, [3, 4])
        assert propose_isr(rig, 1, 2, 3).error_code is ErrorCode.NONE
        assert propose_isr(rig, 1, 2, 3, 4).error_code is ErrorCode.NEW_LEADER_ELECTED
        partition = rig.partition("t")
        assert (partition.replicas, partition.isr, partition.leader) == ((3, 4), (3, 4), 3)

    def test_more_leave_than_come_so_all_that_stay_must_be_in_sync(self, rig: ControllerRig) -> None:
        rig.create("u", assignments={0: [1, 2, 3, 4]})
        topic = rig.image.topics.topic("u")
        assert topic is not None
        assert reassign(rig, [1, 2], topic="u") == (ErrorCode.NONE, None)
        assert rig.partition("u").replicas == (1, 2), "both are in sync, so it ends at once"

    def test_an_order_alone_ends_at_once(self, rig: ControllerRig) -> None:
        reassign(rig, [2, 1])
        partition = rig.partition("t")
        assert (partition.replicas, partition.leader, partition.adding) == ((2, 1), 1, ())
        assert partition.directories == tuple(rig.image.brokers[each].directories[0] for each in (2, 1))

    def test_nothing_to_change_writes_nothing(self, rig: ControllerRig) -> None:
        request = ar.AlterPartitionReassignmentsRequest(
            topics=(
                ar.ReassignableTopic(
                    name="t", partitions=(ar.ReassignablePartition(partition_index=0, replicas=(1, 2)),)
                ),
            )
        )
        assert rig.decide(ALTER_PARTITION_REASSIGNMENTS, request).records == ()

    def test_a_new_target_replaces_the_old(self, rig: ControllerRig) -> None:
        reassign(rig, [3, 1])
        reassign(rig, [4, 1])
        partition = rig.partition("t")
        assert (partition.replicas, partition.adding, partition.removing) == ((4, 1, 2, 3), (4,), (2, 3))

    @pytest.mark.parametrize("replicas", [[], [1, 1], [9]])
    def test_an_invalid_replica_list_is_refused(self, rig: ControllerRig, replicas: list[int]) -> None:
        assert reassign(rig, replicas)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_a_reassignment_of_an_unknown_partition_is_refused(self, rig: ControllerRig) -> None:
        assert reassign(rig, [1], topic="nope") == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find a topic named nope.",
        )
        assert reassign(rig, [1], number=7)[1] == "Unable to find partition t:7."

    def test_the_replication_factor_may_be_held(self, rig: ControllerRig) -> None:
        assert reassign(rig, [1], allow=False)[0] is ErrorCode.INVALID_REPLICATION_FACTOR
        assert reassign(rig, [3, 4], allow=False)[0] is ErrorCode.NONE
        assert reassign(rig, [1, 3], allow=False)[0] is ErrorCode.NONE, "measured without what leaves"


class TestCancel:
    def test_back_to_what_was(self, rig: ControllerRig) -> None:
        reassign(rig, [3, 4])
        assert reassign(rig, None) == (ErrorCode.NONE, None)
        partition = rig.partition("t")
        assert (sorted(partition.replicas), partition.adding, partition.removing) == ([1, 2], (), ())
        assert partition.leader == 1

    def test_a_repeated_request_does_not_forget_what_is_added(self, rig: ControllerRig) -> None:
        reassign(rig, [3, 2])
        reassign(rig, [3, 2])
        assert (rig.partition("t").adding, rig.partition("t").removing) == ((3,), (1,))
        assert reassign(rig, None) == (ErrorCode.NONE, None)
        assert set(rig.partition("t").replicas) == {1, 2}

    def test_an_unclean_way_back_must_be_allowed(self, rig: ControllerRig) -> None:
        rig.create("u", assignments={0: [1]}, configs={"unclean.leader.election.enable": "true"})
        reassign(rig, [3, 4], topic="u")
        # The present replica has left the ISR before the reassignment is complete.
        replicas = rig.partition("u")
        rig.replay(
            [PartitionChangeRecord(partition_id=0, topic_id=rig.image.topics.ids["u"], isr=(3,), leader=3)]
        )
        assert replicas.replicas == (3, 4, 1)
        assert reassign(rig, None, topic="u") == (ErrorCode.NONE, None)
        after = rig.partition("u")
        assert (after.replicas, after.isr, after.leader) == ((1,), (1,), 1)

    def test_nothing_under_way(self, rig: ControllerRig) -> None:
        assert reassign(rig, None)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    def test_not_when_only_new_replicas_are_in_sync(self, rig: ControllerRig) -> None:
        reassign(rig, [3, 4])
        propose_isr(rig, 1, 3)
        for broker in (1,):
            rig.heartbeat(broker, fence=True)
        assert rig.partition("t").isr == (3,)
        assert reassign(rig, None)[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


class TestElectLeaders:
    def elect(self, rig: ControllerRig, partitions: tuple[int, ...] | None, kind: int = 0) -> list[ErrorCode]:
        wanted = None if partitions is None else (el.TopicPartitions(topic="t", partitions=partitions),)
        request = el.ElectLeadersRequest(election_type=kind, topic_partitions=wanted)
        response = rig.obey(rig.decide(ELECT_LEADERS, request))
        return [
            each.error_code for topic in response.replica_election_results for each in topic.partition_result
        ]

    def test_a_preferred_election_elects_the_first_replica(self, rig: ControllerRig) -> None:
        reassign(rig, [2, 1])
        assert self.elect(rig, (0,)) == [ErrorCode.NONE]
        assert rig.partition("t").leader == 2
        assert self.elect(rig, (0,)) == [ErrorCode.ELECTION_NOT_NEEDED]
        assert self.elect(rig, None) == []

    def test_preferred_is_not_there(self, rig: ControllerRig) -> None:
        rig.heartbeat(1, fence=True)
        assert rig.partition("t").leader == 2
        assert self.elect(rig, None) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]

    def test_each_error_has_its_message_and_each_topic_its_entry(self, rig: ControllerRig) -> None:
        def answer(partitions: tuple[el.TopicPartitions, ...] | None) -> list[tuple[str, list[str | None]]]:
            request = el.ElectLeadersRequest(election_type=0, topic_partitions=partitions)
            response = rig.obey(rig.decide(ELECT_LEADERS, request))
            return [
                (topic.topic, [each.error_message for each in topic.partition_result])
                for topic in response.replica_election_results
            ]

        asked = (
            el.TopicPartitions(topic="t", partitions=(0, 5)),
            el.TopicPartitions(topic="u", partitions=(0,)),
        )
        assert answer(asked) == [
            ("t", ["Leader election not needed for topic partition.", "No such partition as t-5"]),
            ("u", ["No such topic as u"]),
        ]
        assert answer(None) == [("t", [])]
        rig.heartbeat(1, fence=True)
        assert answer(None) == [("t", ["The preferred leader was not available."])]

    def test_an_unclean_election_elects_a_replica_outside_the_isr(self, rig: ControllerRig) -> None:
        assert self.elect(rig, (0,), 1) == [ErrorCode.ELECTION_NOT_NEEDED]
        propose_isr(rig, 1)
        rig.heartbeat(1, fence=True)
        assert rig.partition("t").leader == -1
        assert self.elect(rig, (0,), 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
        assert self.elect(rig, (0,), 1) == [ErrorCode.NONE]
        assert rig.partition("t").leader == 2

    def test_an_election_of_an_unknown_partition_or_type_is_refused(self, rig: ControllerRig) -> None:
        assert self.elect(rig, (5,)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        with pytest.raises(InvalidRequestException):
            self.elect(rig, None, 2)


def test_directories_of_added_replicas_are_chosen_by_their_brokers(rig: ControllerRig) -> None:
    rig.register(5, directories=2)
    rig.heartbeat(5)
    reassign(rig, [5, 1])
    assert rig.partition("t").directory(5) == uuid.UUID(int=1)
