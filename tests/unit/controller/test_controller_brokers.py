"""Brokers coming, going and falling silent; what their partitions go through meanwhile."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kcli.controller.api import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    UNREGISTER_BROKER,
)
from kcli.controller.sessions import BrokerSessions
from kcli.errors import (
    BrokerIdNotRegisteredException,
    DuplicateBrokerRegistrationException,
    ErrorCode,
    InconsistentClusterIdException,
    InvalidRegistrationException,
    StaleBrokerEpochException,
    UnsupportedVersionException,
)
from kcli.metadata.image import LeaderRecoveryState, PartitionImage
from kcli.protocol.messages import allocate_producer_ids as ap
from kcli.protocol.messages import alter_partition as al
from kcli.protocol.messages import assign_replicas_to_dirs as ad
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kcli.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from rigs.controller import FEATURES, ControllerRig

WITHOUT_ELR = {**FEATURES, "eligible.leader.replicas.version": 0}


def shape(partition: PartitionImage) -> tuple[int, tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]:
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


# Registration.


def test_a_broker_registers_fenced_and_its_epoch_is_the_offset_of_its_registration() -> None:
    rig = ControllerRig()
    offset = rig.controller.next_offset
    assert rig.register(1) == offset
    broker = rig.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown) == (offset, True, False)
    assert broker.endpoints["PLAINTEXT"].host == "host1"


def test_the_same_incarnation_keeps_its_epoch_and_stays_unfenced() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    epoch = rig.image.brokers[1].epoch
    assert rig.register(1) == epoch
    assert not rig.image.brokers[1].fenced


def test_a_second_broker_of_the_id_must_wait_until_the_first_is_silent() -> None:
    rig = ControllerRig(broker_session_timeout_ms=9_000)
    rig.add_brokers(1)
    with pytest.raises(DuplicateBrokerRegistrationException):
        rig.register(1, incarnation=2)
    rig.now_ms += 9_001
    assert rig.register(1, incarnation=2) == rig.image.brokers[1].epoch
    assert rig.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "other"}, InconsistentClusterIdException),
        ({"log_dirs": ()}, InvalidRegistrationException),
        ({"log_dirs": (uuid.UUID(int=2),)}, InvalidRegistrationException),
        ({"log_dirs": (uuid.UUID(int=500),) * 2}, InvalidRegistrationException),
        ({"log_dirs": (uuid.UUID(int=10_000),)}, InvalidRegistrationException),
        ({"features": ()}, InvalidRegistrationException),
        (
            {
                "features": (
                    br.Feature(name="metadata.version", min_supported_version=7, max_supported_version=25),
                )
            },
            UnsupportedVersionException,
        ),
        ({"is_migrating_zk_broker": True}, BrokerIdNotRegisteredException),
    ],
)
def test_a_wrong_registration_is_refused(changes: dict[Any, Any], error: Any) -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    with pytest.raises(error):
        rig.register(2, **changes)
    assert 2 not in rig.image.brokers


# Heartbeats: the state table.


def test_a_broker_that_is_behind_stays_fenced() -> None:
    rig = ControllerRig()
    epoch = rig.register(1)
    assert rig.heartbeat(1, offset=epoch - 1).is_fenced
    answer = rig.heartbeat(1, offset=epoch)
    assert (answer.is_fenced, answer.is_caught_up) == (False, True)
    assert not rig.image.brokers[1].fenced


def test_a_broker_may_ask_to_stay_fenced_or_to_be_fenced() -> None:
    rig = ControllerRig()
    rig.register(1)
    assert rig.heartbeat(1, fence=True).is_fenced
    rig.heartbeat(1)
    assert rig.heartbeat(1, fence=True).is_fenced
    assert rig.image.brokers[1].fenced


def test_a_stale_or_unknown_broker_gets_an_error() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    with pytest.raises(StaleBrokerEpochException):
        rig.heartbeat(1, epoch=999)
    with pytest.raises(StaleBrokerEpochException, match="No broker registration found for broker id 2"):
        rig.heartbeat(2, epoch=1)


def test_a_fenced_broker_or_one_that_leads_nothing_may_stop_at_once() -> None:
    rig = ControllerRig()
    rig.register(1)
    assert rig.heartbeat(1, shut_down=True).should_shut_down
    rig.add_brokers(2)
    assert rig.heartbeat(2, shut_down=True).should_shut_down
    assert rig.image.brokers[2].fenced


def test_a_lone_broker_leaves_as_kafka_records_it() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    rig.create("t", 2)
    decision_before = len(rig.deltas)
    answer = rig.heartbeat(1, shut_down=True)
    assert not answer.should_shut_down
    assert rig.image.brokers[1].in_controlled_shutdown
    assert shape(rig.partition("t")) == (-1, (), (1,), (1,))
    assert rig.partition("t").leader_epoch == 1
    answer = rig.heartbeat(1, shut_down=True)
    assert answer.should_shut_down and answer.is_fenced
    assert rig.image.brokers[1].fenced and rig.image.brokers[1].in_controlled_shutdown
    assert len(rig.deltas) == decision_before + 2


def test_leaving_waits_until_the_others_have_seen_that_leaderships_moved() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: (1, 2)})
    seen = rig.image.offset
    rig.heartbeat(2, offset=seen)
    assert not rig.heartbeat(1, shut_down=True).should_shut_down
    assert shape(rig.partition("t"))[:2] == (2, (2,))
    assert not rig.heartbeat(1, shut_down=True).should_shut_down, "broker 2 has not seen it yet"
    rig.heartbeat(2)
    assert rig.heartbeat(1, shut_down=True).should_shut_down


def test_the_records_of_a_controlled_shutdown_and_of_coming_back() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    rig.create("t")
    epoch = rig.image.brokers[1].epoch
    topic_id = rig.image.topics.topic("t").topic_id
    leaving = rig.decide(BROKER_HEARTBEAT, _request(rig, want_shut_down=True))
    assert leaving.records == (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=topic_id,
            isr=(),
            leader=-1,
            eligible_leader_replicas=(1,),
            last_known_elr=(1,),
        ),
    )
    rig.obey(leaving)
    rig.heartbeat(1, shut_down=True)
    rig.now_ms += 60_000
    rig.register(1, incarnation=2, previous_epoch=epoch)
    back = rig.decide(BROKER_HEARTBEAT, _request(rig))
    assert back.records == (
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=rig.image.brokers[1].epoch, fenced=-1),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=topic_id,
            isr=(1,),
            leader=1,
            eligible_leader_replicas=(),
            last_known_elr=(),
        ),
    )


def _request(rig: ControllerRig, **changes: Any) -> BrokerHeartbeatRequest:
    from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

    return BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=rig.image.brokers[1].epoch,
        current_metadata_offset=rig.image.offset,
        **changes,
    )


# Falling silent, dying, coming back.


def test_a_silent_broker_is_fenced_after_its_session() -> None:
    rig = ControllerRig(broker_session_timeout_ms=9_000)
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: (1, 2)})
    rig.now_ms += 9_000
    assert not rig.fence_expired()
    rig.heartbeat(2)
    rig.now_ms += 1
    assert rig.fence_expired()
    assert rig.image.brokers[1].fenced and not rig.image.brokers[2].fenced
    assert shape(rig.partition("t"))[:2] == (2, (2,))


def test_a_broker_in_our_own_process_is_not_fenced_for_silence() -> None:
    """A process that was suspended wakes up with all its timers at once: it must not fence itself first."""
    rig = ControllerRig(broker_session_timeout_ms=9_000)
    rig.add_brokers(1, 2)
    rig.now_ms += 60_000
    assert rig.fence_expired(exempt=1)
    assert not rig.fence_expired(exempt=1)
    assert not rig.image.brokers[1].fenced and rig.image.brokers[2].fenced


def test_a_restarted_controller_gives_brokers_time() -> None:
    rig = ControllerRig(broker_session_timeout_ms=9_000)
    rig.add_brokers(1)
    sessions = BrokerSessions(9_000, rig.image.brokers.values(), now_ms=50_000)
    assert list(sessions.expired(rig.image.brokers, 59_000)) == []
    assert [broker.id for broker in sessions.expired(rig.image.brokers, 59_001)] == [1]


def test_a_broker_that_died_is_trusted_no_more() -> None:
    """Its replica may have lost committed records: only the last known leader may bring the partition back."""
    rig = ControllerRig()
    rig.add_brokers(1)
    rig.create("t")
    rig.now_ms += 60_000
    decision = rig.decide(BROKER_REGISTRATION, rig.registration(1, incarnation=2, previous_epoch=-1))
    assert [type(record) for record in decision.records] == [PartitionChangeRecord, RegisterBrokerRecord]
    rig.obey(decision)
    assert shape(rig.partition("t")) == (-1, (), (), (1,))
    rig.heartbeat(1)
    partition = rig.partition("t")
    assert (partition.leader, partition.isr) == (1, (1,))
    assert partition.recovery_state is LeaderRecoveryState.RECOVERING


def test_a_broker_that_stopped_cleanly_is_trusted() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    rig.create("t")
    epoch = rig.image.brokers[1].epoch
    rig.now_ms += 60_000
    rig.register(1, incarnation=2, previous_epoch=epoch)
    assert shape(rig.partition("t")) == (-1, (), (1,), (1,))
    rig.heartbeat(1)
    assert rig.partition("t").recovery_state is LeaderRecoveryState.RECOVERED


def test_without_elr_the_last_in_sync_replica_stays_known() -> None:
    rig = ControllerRig(WITHOUT_ELR)
    rig.add_brokers(1)
    rig.create("t")
    rig.heartbeat(1, shut_down=True)
    assert shape(rig.partition("t")) == (-1, (1,), (), ())
    rig.now_ms += 60_000
    rig.register(1, incarnation=2)
    rig.heartbeat(1)
    assert shape(rig.partition("t")) == (1, (1,), (), ())


def test_unregistering_takes_a_broker_out_of_everything() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: (1, 2)})
    rig.obey(rig.decide(UNREGISTER_BROKER, ub.UnregisterBrokerRequest(broker_id=1)))
    assert 1 not in rig.image.brokers
    assert rig.partition("t").isr == (2,)
    with pytest.raises(BrokerIdNotRegisteredException, match="Broker ID 77 is not currently registered"):
        rig.decide(UNREGISTER_BROKER, ub.UnregisterBrokerRequest(broker_id=77))


# Directories.


def test_replicas_of_a_broken_directory_lose_their_leadership() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, directories=2)
    rig.create("t", 2)
    good, bad = rig.image.brokers[1].directories
    assign(rig, {good: 0, bad: 1})
    rig.heartbeat(1, offline=(bad,))
    assert rig.image.brokers[1].directories == (good,)
    assert (rig.partition("t", 0).leader, rig.partition("t", 1).leader) == (1, -1)
    assert rig.heartbeat(1, offline=(bad,)).is_fenced is False


def assign(rig: ControllerRig, partitions: dict[uuid.UUID, int]) -> list[str]:
    topic_id = rig.image.topics.topic("t").topic_id
    request = ad.AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=rig.image.brokers[1].epoch,
        directories=tuple(
            ad.RequestDirectoryData(
                id_=directory,
                topics=(
                    ad.RequestTopicData(
                        topic_id=topic_id,
                        partitions=(ad.RequestPartitionData(partition_index=number),),
                    ),
                ),
            )
            for directory, number in partitions.items()
        ),
    )
    response = rig.obey(rig.decide(ASSIGN_REPLICAS_TO_DIRS, request))
    return [directory.topics[0].partitions[0].error_code.name for directory in response.directories]


def test_a_broker_says_where_its_replicas_lie() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, directories=2)
    rig.create("t", 2)
    first, second = rig.image.brokers[1].directories
    assert assign(rig, {first: 0, second: 1}) == ["NONE", "NONE"]
    assert [rig.partition("t", number).directories for number in (0, 1)] == [(first,), (second,)]
    assert assign(rig, {first: 7}) == ["UNKNOWN_TOPIC_OR_PARTITION"]


# AlterPartition.


def alter(rig: ControllerRig, **changes: Any) -> al.ResponsePartitionData:
    partition = rig.partition("t")
    fields = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "new_isr_with_epochs": tuple(al.BrokerState(broker_id=each) for each in changes.pop("isr", (1,))),
    }
    sender = changes.pop("sender", 1)
    topic_id = changes.pop("topic_id", rig.image.topics.topic("t").topic_id)
    asked = al.RequestPartitionData(**{**fields, **changes})
    request = al.AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=rig.image.brokers[sender].epoch,
        topics=(al.RequestTopicData(topic_id=topic_id, partitions=(asked,)),),
    )
    response = rig.obey(rig.decide(ALTER_PARTITION, request))
    return response.topics[0].partitions[0]


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: (1, 2)})
    answer = alter(rig, isr=(1,))
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, (1,), 1)
    assert rig.partition("t").isr == (1,)
    assert alter(rig, isr=(1, 2)).error_code is ErrorCode.NONE
    partition = rig.partition("t")
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 2)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic_id": uuid.UUID(int=3)}, "UNKNOWN_TOPIC_ID"),
        ({"partition_index": 5}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"leader_epoch": 9}, "NOT_CONTROLLER"),
        ({"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ({"sender": 2}, "INVALID_REQUEST"),
        ({"partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
        ({"isr": (1, 1)}, "INVALID_REQUEST"),
        ({"isr": (2,)}, "INVALID_REQUEST"),
        ({"isr": (1, 3)}, "INVALID_REQUEST"),
        ({"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ({"leader_recovery_state": 7}, "INVALID_REQUEST"),
    ],
)
def test_isr_changes_refused(changes: dict[Any, Any], code: str) -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2, 3)
    rig.create("t", assignments={0: (1, 2)})
    assert alter(rig, **changes).error_code.name == code
    assert rig.partition("t").partition_epoch == 0


def test_a_fenced_broker_cannot_join_an_isr() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: (1, 2)})
    rig.heartbeat(2, fence=True)
    assert alter(rig, isr=(1, 2)).error_code is ErrorCode.INELIGIBLE_REPLICA


def test_a_member_that_has_restarted_since_its_fetch_cannot_join_an_isr() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: (1, 2)})
    alter(rig, isr=(1,))
    epochs = {broker: rig.image.brokers[broker].epoch for broker in (1, 2)}

    def member(broker: int, epoch: int) -> al.BrokerState:
        return al.BrokerState(broker_id=broker, broker_epoch=epoch)

    stale = (member(1, epochs[1]), member(2, epochs[2] - 1))
    assert alter(rig, new_isr_with_epochs=stale).error_code is ErrorCode.INELIGIBLE_REPLICA
    assert rig.partition("t").isr == (1,)
    current = (member(1, epochs[1]), member(2, epochs[2]))
    assert alter(rig, new_isr_with_epochs=current).error_code is ErrorCode.NONE
    assert rig.partition("t").isr == (1, 2)


# Producer ids.


def test_producer_ids_are_given_in_blocks_and_never_twice() -> None:
    rig = ControllerRig()
    rig.add_brokers(1)
    epoch = rig.image.brokers[1].epoch
    request = ap.AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    decision = rig.decide(ALLOCATE_PRODUCER_IDS, request)
    assert decision.records == (ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=1000),)
    first = rig.obey(decision)
    second = rig.obey(rig.decide(ALLOCATE_PRODUCER_IDS, request))
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert second.producer_id_start == 1000
    with pytest.raises(StaleBrokerEpochException):
        rig.decide(ALLOCATE_PRODUCER_IDS, ap.AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1))
