"""Decisions about many partitions: their steps, the decisions between these steps, and the periodic elections."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kcli.controller import brokers, leadership
from kcli.controller.api import (
    ALTER_CLIENT_QUOTAS,
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_USER_SCRAM_CREDENTIALS,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    CREATE_PARTITIONS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    UNREGISTER_BROKER,
    ControllerApi,
    ControllerRequestContext,
)
from kcli.controller.decision import NAME_COST, Decision, DecisionSteps
from kcli.controller.partition_index import PartitionIndex
from kcli.errors import ErrorCode, PolicyViolationException
from kcli.metadata.image import LeaderRecoveryState
from kcli.protocol.messages import alter_client_quotas as quotas
from kcli.protocol.messages import alter_partition as ap
from kcli.protocol.messages import alter_partition_reassignments as reassign
from kcli.protocol.messages import alter_user_scram_credentials as scram
from kcli.protocol.messages import assign_replicas_to_dirs as ad
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.messages import incremental_alter_configs as configs
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.records.metadata import BrokerRegistrationChangeRecord, ConfigRecord, PartitionChangeRecord
from rigs.controller import FEATURES, ControllerRig

WITHOUT_ELR = {**FEATURES, "eligible.leader.replicas.version": 0}


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.controller.decision.PARTITIONS_PER_STEP", 2)
    monkeypatch.setattr("kcli.controller.decision.STEP_COST_MAX", 2 * NAME_COST)


@pytest.fixture
def rig() -> ControllerRig:
    rig = ControllerRig(broker_session_timeout_ms=9_000)
    rig.add_brokers(1, 2, 3)
    rig.create("t", assignments={number: [1, 2, 3] for number in range(5)})
    return rig


def sizes_of(
    rig: ControllerRig, steps: Decision | DecisionSteps, between: Callable[[], object] = lambda: None
) -> Any:
    """Makes the steps, and calls `between` after each but the last. Returns the records of each step by type."""
    assert not isinstance(steps, Decision)
    found = []
    while True:
        try:
            records = next(steps)
        except StopIteration as last:
            rig.replay(last.value.records)
            return [*found, [type(record) for record in last.value.records]]
        found.append([type(record) for record in records])
        rig.replay(records)
        between()


def asks_to_stop(rig: ControllerRig, broker_id: int) -> Any:
    request = hb.BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=rig.image.brokers[broker_id].epoch,
        current_metadata_offset=rig.image.offset,
        want_shut_down=True,
    )
    brokers.heard(rig.controller, request, rig.now_ms)
    return BROKER_HEARTBEAT.decide(rig.controller, request, None, rig.now_ms)


def propose_isr(rig: ControllerRig, number: int, isr: tuple[int, ...]) -> ErrorCode:
    partition, topic = rig.partition("t", number), rig.image.topics.topic("t")
    asked = ap.RequestPartitionData(
        partition_index=number,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=tuple(ap.BrokerState(broker_id=each) for each in isr),
    )
    request = ap.AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=rig.image.brokers[partition.leader].epoch,
        topics=(ap.RequestTopicData(topic_id=topic.topic_id, partitions=(asked,)),),
    )
    ((answer,),) = [each.partitions for each in rig.obey(rig.decide(ALTER_PARTITION, request)).topics]
    return answer.error_code


CHANGE, BROKER = PartitionChangeRecord, BrokerRegistrationChangeRecord


def test_a_broker_leaves_its_partitions_before_it_is_fenced(rig: ControllerRig) -> None:
    rig.now_ms += 9_001
    rig.heartbeat(2)
    rig.heartbeat(3)
    steps = brokers.fence_expired(rig.controller, rig.now_ms)
    assert sizes_of(rig, steps) == [[CHANGE] * 2, [CHANGE] * 2, [CHANGE, BROKER]]
    assert rig.image.brokers[1].fenced and rig.image.brokers[1].active is False
    assert {rig.partition("t", number).leader for number in range(5)} == {2}


def test_a_broker_says_that_it_leaves_before_it_gives_up_its_partitions(rig: ControllerRig) -> None:
    assert sizes_of(rig, asks_to_stop(rig, 1)) == [[BROKER, CHANGE, CHANGE], [CHANGE] * 2, [CHANGE]]
    assert rig.image.brokers[1].in_controlled_shutdown and not rig.controller.index.leads(1)
    # It may stop when the others have read the last of these records.
    last = rig.image.offset
    rig.heartbeat(2)
    rig.heartbeat(3, offset=last - 1)
    assert not rig.heartbeat(1, shut_down=True).should_shut_down
    rig.heartbeat(3, offset=last)
    assert rig.heartbeat(1, shut_down=True).should_shut_down


def test_a_broker_is_unfenced_before_it_leads() -> None:
    rig = ControllerRig(WITHOUT_ELR)
    rig.add_brokers(1, 2)
    rig.create("t", assignments={number: [2] for number in range(3)})
    rig.heartbeat(2, fence=True)
    assert {rig.partition("t", number).leader for number in range(3)} == {-1}
    request = hb.BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=rig.image.brokers[2].epoch, current_metadata_offset=rig.image.offset
    )
    steps = brokers.heartbeat(rig.controller, request)
    assert sizes_of(rig, steps) == [[BROKER, CHANGE, CHANGE], [CHANGE]]
    assert {rig.partition("t", number).leader for number in range(3)} == {2}


def test_no_decision_between_two_steps_trusts_a_broker_that_leaves(rig: ControllerRig) -> None:
    answers = []

    def between() -> None:
        assert not rig.image.brokers[1].active
        left = [number for number in range(5) if rig.partition("t", number).leader != 1]
        answers.append(propose_isr(rig, left[0], (1, 2, 3)))
        rig.create(f"new-{len(answers)}", 6, 3)

    rig.now_ms += 9_001
    rig.heartbeat(2)
    rig.heartbeat(3)
    sizes_of(rig, brokers.fence_expired(rig.controller, rig.now_ms), between)
    assert answers == [ErrorCode.INELIGIBLE_REPLICA] * 2
    assert not rig.controller.index.in_isr(1) and not rig.controller.index.leads(1)
    assert rig.partition("new-1").replicas[2] == 1


def test_a_new_controller_finishes_the_shutdown_that_the_last_one_began(rig: ControllerRig) -> None:
    """A controller may fail between two steps. The next one moves the rest."""
    steps = asks_to_stop(rig, 1)
    rig.replay(next(steps))
    steps.close()
    assert rig.controller.index.leads(1)
    rig.heartbeat(1, shut_down=True)
    assert not rig.controller.index.leads(1)


def test_the_next_process_of_a_broker_that_stopped_may_register_at_once(rig: ControllerRig) -> None:
    rig.heartbeat(1, shut_down=True)
    for broker_id in (2, 3):
        rig.heartbeat(broker_id)
    assert rig.heartbeat(1, shut_down=True).should_shut_down
    epoch = rig.image.brokers[1].epoch
    assert rig.register(1, incarnation=2, previous_epoch=epoch) > epoch


def test_a_broker_in_too_many_isrs_is_not_unregistered(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.controller.brokers.MAX_RECORDS_PER_BATCH", 5)
    request = ub.UnregisterBrokerRequest(broker_id=3)
    with pytest.raises(PolicyViolationException, match="excessively large batch"):
        rig.decide(UNREGISTER_BROKER, request)
    monkeypatch.setattr("kcli.controller.brokers.MAX_RECORDS_PER_BATCH", 6)
    rig.obey(rig.decide(UNREGISTER_BROKER, request))
    assert 3 not in rig.image.brokers and rig.partition("t").isr == (1, 2)


def test_an_unregistered_broker_leaves_the_elr() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    rig.heartbeat(2, fence=True)
    assert rig.partition("t").elr == (2,)
    rig.obey(rig.decide(UNREGISTER_BROKER, ub.UnregisterBrokerRequest(broker_id=2)))
    assert (rig.partition("t").isr, rig.partition("t").elr) == ((1,), ())


# Failed directories.


def test_a_failed_directory_counts_for_replicas_outside_the_isr_too() -> None:
    """Such a replica may be the only candidate of a partition without a leader."""
    rig = ControllerRig(WITHOUT_ELR)
    rig.add_brokers(1, 2, directories=2)
    rig.create("t", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"})
    home = rig.image.brokers[2].directories[0]
    assign(rig, 2, home)
    propose_isr(rig, 0, (1,))
    before = rig.partition("t")
    rig.heartbeat(2, offline=(home,))
    assert rig.partition("t") == before
    assert rig.image.brokers[2].directories == rig.image.brokers[2].directories[-1:]
    # The leader fails. The replica in the failed directory cannot lead, even in an unclean election.
    rig.heartbeat(1, fence=True)
    assert rig.partition("t").leader == -1


def test_a_replica_that_is_assigned_to_a_failed_directory_leaves_the_isr() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2, directories=2)
    rig.create("t", assignments={0: [2, 1]})
    failed = rig.image.brokers[2].directories[0]
    rig.heartbeat(2, offline=(failed,))
    assert rig.partition("t").leader == 2
    before = rig.partition("t")
    assign(rig, 2, failed)
    after = rig.partition("t")
    assert (after.leader, after.isr, after.directory(2)) == (1, (1,), failed)
    # One record has the directory, and the next one the ISR.
    assert after.partition_epoch == before.partition_epoch + 2


def assign(rig: ControllerRig, broker_id: int, directory: uuid.UUID) -> None:
    topic = ad.RequestTopicData(
        topic_id=rig.image.topics.ids["t"], partitions=(ad.RequestPartitionData(partition_index=0),)
    )
    request = ad.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=rig.image.brokers[broker_id].epoch,
        directories=(ad.RequestDirectoryData(id_=directory, topics=(topic,)),),
    )
    response = rig.obey(rig.decide(ASSIGN_REPLICAS_TO_DIRS, request))
    assert response.directories[0].topics[0].partitions[0].error_code is ErrorCode.NONE


# Elections of leaders and ISRs.


def test_items_of_one_request_are_judged_one_after_another(rig: ControllerRig) -> None:
    topic = rig.image.topics.topic("t")

    def item(*isr: int) -> ap.RequestPartitionData:
        # Versions below 3 have no broker epochs.
        return ap.RequestPartitionData(
            partition_index=0, leader_epoch=0, partition_epoch=0, new_isr=tuple(isr)
        )

    request = ap.AlterPartitionRequest(
        broker_id=1,
        broker_epoch=rig.image.brokers[1].epoch,
        topics=(ap.RequestTopicData(topic_id=topic.topic_id, partitions=(item(1, 2), item(1))),),
    )
    response = rig.obey(rig.decide(ALTER_PARTITION, request, api_version=2))
    assert [each.error_code for each in response.topics[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert rig.partition("t").isr == (1, 2) and rig.partition("t").partition_epoch == 1


def test_the_preferred_replicas_lead_again_in_rounds(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.controller.leadership.MAX_ELECTIONS_PER_ROUND", 3)
    rig.heartbeat(1, fence=True)
    rig.heartbeat(1)
    for number in range(5):
        assert propose_isr(rig, number, (2, 3, 1)) is ErrorCode.NONE

    def round_of() -> bool:
        return rig.obey(rig.last_step(leadership.elect_preferred(rig.controller)))

    assert len(rig.controller.index.not_preferred) == 5
    assert [round_of(), round_of(), round_of()] == [True, False, False]
    assert not rig.controller.index.not_preferred


def test_no_partition_is_visited_while_no_broker_is_active() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    rig.create("t", partitions=1)
    rig.heartbeat(1, fence=True)
    assert rig.partition("t", 0).leader == -1
    assert leadership.elect_leaderless(rig.controller) == Decision((), False)


def test_leaderless_partitions_get_leaders_when_their_topics_allow_it() -> None:
    rig = ControllerRig(WITHOUT_ELR)
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: [2, 1], 1: [2, 1]})
    for number in range(2):
        assert propose_isr(rig, number, (2,)) is ErrorCode.NONE
    rig.heartbeat(2, fence=True)

    def leaders_after_a_round() -> list[int]:
        assert rig.obey(rig.last_step(leadership.elect_leaderless(rig.controller))) is False
        return [rig.partition("t", number).leader for number in range(2)]

    assert leaders_after_a_round() == [-1, -1]
    rig.replay(
        [
            ConfigRecord(
                resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true"
            )
        ]
    )
    assert leaders_after_a_round() == [1, 1]
    assert rig.partition("t").recovery_state is LeaderRecoveryState.RECOVERING


def test_an_event_elects_uncleanly_if_the_topic_allows_it() -> None:
    rig = ControllerRig(WITHOUT_ELR)
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: [2, 1]}, configs={"unclean.leader.election.enable": "true"})
    propose_isr(rig, 0, (2,))
    rig.heartbeat(2, fence=True)
    assert (rig.partition("t").leader, rig.partition("t").isr) == (1, (1,))
    assert rig.partition("t").recovery_state is LeaderRecoveryState.RECOVERING


def test_too_many_elections_are_refused_before_the_first(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.heartbeat(1, fence=True)
    rig.heartbeat(1)
    monkeypatch.setattr("kcli.controller.leadership.MAX_RECORDS_PER_BATCH", 4)
    some = (el.TopicPartitions(topic="t", partitions=(0, 1, 2, 3, 4)),)
    before = rig.image
    for asked in (None, some):
        with pytest.raises(PolicyViolationException, match="excessively large batch"):
            rig.decide(ELECT_LEADERS, el.ElectLeadersRequest(election_type=0, topic_partitions=asked))
    assert rig.image is before


# The index.


def test_the_index_forgets_deleted_topics(rig: ControllerRig) -> None:
    request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),))
    rig.obey(rig.decide(DELETE_TOPICS, request, api_version=6))
    assert not rig.controller.index.in_isr(1) and not rig.controller.index.leads(1)
    assert rig.controller.index == PartitionIndex(rig.image)


# --- requests with many names


def finish(rig: ControllerRig, steps: Decision | DecisionSteps) -> Any:
    return rig.obey(rig.last_step(steps))


def delete(*names: str) -> dt.DeleteTopicsRequest:
    return dt.DeleteTopicsRequest(topics=tuple(dt.DeleteTopicState(name=name) for name in names))


MANY_TOPICS = ["t", *(f"unknown-{number}" for number in range(7))]
MANY_REQUESTS: dict[str, tuple[ControllerApi[Any, Any], Any]] = {
    "delete": (DELETE_TOPICS, delete(*MANY_TOPICS)),
    "extend": (
        CREATE_PARTITIONS,
        cp.CreatePartitionsRequest(
            topics=tuple(
                cp.CreatePartitionsTopic(name=name, count=6, assignments=None) for name in MANY_TOPICS
            )
        ),
    ),
    "reassign": (
        ALTER_PARTITION_REASSIGNMENTS,
        reassign.AlterPartitionReassignmentsRequest(
            topics=tuple(
                reassign.ReassignableTopic(
                    name=name, partitions=(reassign.ReassignablePartition(replicas=(2, 1, 3)),)
                )
                for name in MANY_TOPICS
            )
        ),
    ),
}


def codes_of(response: Any) -> list[ErrorCode]:
    answers = getattr(response, "responses", None) or response.results
    return [(each.partitions[0] if hasattr(each, "partitions") else each).error_code for each in answers]


@pytest.mark.parametrize("name", MANY_REQUESTS)
def test_many_names_are_checked_in_steps_and_the_decision_is_one_batch(rig: ControllerRig, name: str) -> None:
    api, request = MANY_REQUESTS[name]
    steps = api.decide(rig.controller, request, ControllerRequestContext(), rig.now_ms)
    sizes = [len(found) for found in sizes_of(rig, steps)]
    assert len(sizes) >= len(MANY_TOPICS) // 2 and sum(map(bool, sizes)) == 1, sizes


@pytest.mark.parametrize("name", MANY_REQUESTS)
def test_a_topic_that_is_deleted_while_names_are_checked_is_unknown(rig: ControllerRig, name: str) -> None:
    api, request = MANY_REQUESTS[name]
    steps = api.decide(rig.controller, request, ControllerRequestContext(), rig.now_ms)
    assert not isinstance(steps, Decision)
    for _ in range(1 if name == "reassign" else 5):  # "t" is found; the other requests first count the names
        assert next(steps) == ()
    rig.obey(rig.decide(DELETE_TOPICS, delete("t")))
    decision = rig.last_step(steps)
    assert decision.records == ()
    assert set(codes_of(decision.response)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_credential_that_is_removed_while_names_are_checked_is_unknown(rig: ControllerRig) -> None:
    rig.obey(
        rig.decide(
            ALTER_USER_SCRAM_CREDENTIALS,
            scram.AlterUserScramCredentialsRequest(
                upsertions=(
                    scram.ScramCredentialUpsertion(
                        name="alice", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
                    ),
                )
            ),
        )
    )
    names = ["alice", "bob", "carol", "dave", "erin"]
    request = scram.AlterUserScramCredentialsRequest(
        deletions=tuple(scram.ScramCredentialDeletion(name=name, mechanism=1) for name in names)
    )
    steps = ALTER_USER_SCRAM_CREDENTIALS.decide(rig.controller, request, ControllerRequestContext(), 0)
    assert not isinstance(steps, Decision)
    assert next(steps) == ()
    only = scram.AlterUserScramCredentialsRequest(deletions=request.deletions[:1])
    assert rig.obey(rig.decide(ALTER_USER_SCRAM_CREDENTIALS, only)).results[0].error_code is ErrorCode.NONE
    results = finish(rig, steps).results
    assert {each.user: each.error_code for each in results} == dict.fromkeys(
        names, ErrorCode.RESOURCE_NOT_FOUND
    )


def retention(*topics: str) -> configs.IncrementalAlterConfigsRequest:
    change = configs.AlterableConfig(name="retention.ms", config_operation=0, value="7")
    return configs.IncrementalAlterConfigsRequest(
        resources=tuple(
            configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=(change,))
            for name in topics
        )
    )


def test_changed_configs_fit_to_the_decisions_between_the_steps(rig: ControllerRig) -> None:
    for name in ("u", "v"):
        rig.create(name)
    names = ("t", "u", "v", "unknown")
    steps = INCREMENTAL_ALTER_CONFIGS.decide(
        rig.controller, retention(*names), ControllerRequestContext(), rig.now_ms
    )
    assert not isinstance(steps, Decision)
    for _ in range(7):
        assert next(steps) == ()  # the first two topics have been checked
    rig.obey(rig.decide(INCREMENTAL_ALTER_CONFIGS, retention("t")))
    rig.obey(rig.decide(DELETE_TOPICS, dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="u"),))))
    found: list[Any] = []
    with pytest.raises(StopIteration) as last:
        while True:
            found += next(steps)
    found += last.value.value.records
    assert [(record.resource_name, record.value) for record in found] == [("v", "7")]
    answers = [each.error_code for each in last.value.value.response.responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answers == [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown]


def quota(*users: str) -> quotas.AlterClientQuotasRequest:
    return quotas.AlterClientQuotasRequest(
        entries=tuple(
            quotas.RequestEntryData(
                entity=(quotas.RequestEntityData(entity_type="user", entity_name=user),),
                ops=(quotas.OpData(key="request_percentage", value=5.0),),
            )
            for user in users
        )
    )


def test_changed_quotas_fit_to_the_decisions_between_the_steps(rig: ControllerRig) -> None:
    context = ControllerRequestContext()
    steps = ALTER_CLIENT_QUOTAS.decide(rig.controller, quota("a", "b", "c"), context, rig.now_ms)
    assert not isinstance(steps, Decision)
    for _ in range(5):
        assert next(steps) == ()  # the first user has been checked
    rig.obey(rig.decide(ALTER_CLIENT_QUOTAS, quota("a")))
    found: list[Any] = []
    with pytest.raises(StopIteration) as last:
        while True:
            found += next(steps)
    found += last.value.value.records
    assert [record.entity[0].entity_name for record in found] == ["b", "c"]
    assert [each.error_code for each in last.value.value.response.entries] == [ErrorCode.NONE] * 3


def test_too_many_changes_are_refused_as_a_whole(rig: ControllerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.controller.configs.MAX_RECORDS_PER_BATCH", 1)
    monkeypatch.setattr("kcli.controller.client_quotas.MAX_RECORDS_PER_BATCH", 1)
    rig.create("u")
    with pytest.raises(PolicyViolationException, match="excessively large batch operation"):
        rig.decide(INCREMENTAL_ALTER_CONFIGS, retention("t", "u"))
    with pytest.raises(PolicyViolationException, match="excessively large batch operation"):
        rig.decide(ALTER_CLIENT_QUOTAS, quota("a", "b"))
