"""Handles reports about the replicas of partitions.

Leaders report new ISRs (KIP-497). Brokers report the directories of replicas (KIP-858).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from kcli.config.features import DIRECTORY_ASSIGNMENT_FROM
from kcli.controller.brokers import known_broker
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision, DecisionSteps
from kcli.controller.election import PartitionTarget, directory_online
from kcli.controller.leadership import PartitionUpdates
from kcli.errors import ErrorCode, UnsupportedVersionException
from kcli.metadata import values
from kcli.metadata.image import BrokerRegistration, LeaderRecoveryState, MetadataImage, PartitionImage
from kcli.model.ids import NO_BROKER_EPOCH, BrokerId
from kcli.protocol.messages import assign_replicas_to_dirs as ad
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)


def alter_partition(
    controller: Controller, request: AlterPartitionRequest
) -> DecisionSteps[AlterPartitionResponse]:
    """Applies the ISRs that a leader proposes, one after another.

    Raises StaleBrokerEpoch if the leader's broker epoch is old.
    """
    sender = known_broker(controller.image, request.broker_id, request.broker_epoch)
    return _alter_partitions(controller, sender.id, request)


def _alter_partitions(
    controller: Controller, sender: BrokerId, request: AlterPartitionRequest
) -> DecisionSteps[AlterPartitionResponse]:
    updates = PartitionUpdates(controller)
    topics = []
    for topic in request.topics:
        partitions = []
        for change in topic.partitions:
            if updates.step_is_full:
                yield updates.take()
            partitions.append(_alter_partition(controller, updates, sender, topic.topic_id, change))
        topics.append(ResponseTopicData(topic_id=topic.topic_id, partitions=tuple(partitions)))
    return Decision(updates.take(), AlterPartitionResponse(topics=tuple(topics)))


def _alter_partition(
    controller: Controller,
    updates: PartitionUpdates,
    sender: BrokerId,
    topic_id: uuid.UUID | None,
    change: RequestPartitionData,
) -> ResponsePartitionData:
    if topic_id is None or topic_id not in controller.image.topics.by_id:
        return _refused(change, ErrorCode.UNKNOWN_TOPIC_ID)
    ref = updates.find((topic_id, change.partition_index))
    if ref is None:
        return _refused(change, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # Versions below 3 have no epochs.
    with_epochs = tuple(state.broker_id for state in change.new_isr_with_epochs)
    isr = tuple(map(BrokerId, with_epochs or change.new_isr))
    error = _check(controller.image, sender, ref.partition, change, isr)
    if error is not ErrorCode.NONE:
        return _refused(change, error)
    target = PartitionTarget(
        isr=isr,
        recovery_state=LeaderRecoveryState(change.leader_recovery_state),
        election=updates.rules(ref.topic).election,
    )
    updates.change(ref, target)
    changed = updates.find(ref.key)
    assert changed is not None
    after = changed.partition
    if after.leader != sender:
        # The new ISR completed a reassignment that removes the leader. The change is valid, but the sender of the
        # request no longer leads.
        return _refused(change, ErrorCode.NEW_LEADER_ELECTED)
    return ResponsePartitionData(
        partition_index=change.partition_index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        leader_recovery_state=int(after.recovery_state),
        partition_epoch=after.partition_epoch,
    )


def _refused(change: RequestPartitionData, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=change.partition_index, error_code=error)


def _check(
    image: MetadataImage,
    broker_id: BrokerId,
    partition: PartitionImage,
    change: RequestPartitionData,
    isr: Sequence[int],
) -> ErrorCode:
    """Checks the epochs, the sender, the form of the ISR and the members of the ISR, in Kafka's order."""
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if change.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if change.leader_recovery_state not in LeaderRecoveryState.__members__.values():
        return ErrorCode.INVALID_REQUEST
    recovering = change.leader_recovery_state == LeaderRecoveryState.RECOVERING
    if recovering and (len(isr) > 1 or partition.recovery_state is LeaderRecoveryState.RECOVERED):
        return ErrorCode.INVALID_REQUEST
    epochs = {state.broker_id: state.broker_epoch for state in change.new_isr_with_epochs}
    if not all(_eligible(image.brokers.get(member), epochs.get(member, NO_BROKER_EPOCH)) for member in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _eligible(broker: BrokerRegistration | None, epoch: int) -> bool:
    return broker is not None and broker.active and epoch in (NO_BROKER_EPOCH, broker.epoch)


def assign_replicas_to_dirs(
    controller: Controller, request: ad.AssignReplicasToDirsRequest
) -> DecisionSteps[ad.AssignReplicasToDirsResponse]:
    """Applies the directories that a broker chose for its replicas.

    Raises StaleBrokerEpoch if the epoch of the broker is old. Raises UnsupportedVersion if the finalized
    metadata.version has no directories.
    """
    if controller.image.metadata_version < DIRECTORY_ASSIGNMENT_FROM.level:
        raise UnsupportedVersionException("Directory assignment is not supported yet.")
    broker = known_broker(controller.image, request.broker_id, request.broker_epoch)
    return _assign_all(controller, broker, request)


def _assign_all(
    controller: Controller, broker: BrokerRegistration, request: ad.AssignReplicasToDirsRequest
) -> DecisionSteps[ad.AssignReplicasToDirsResponse]:
    updates = PartitionUpdates(controller)
    directories = []
    for directory in request.directories:
        directory_id = values.known_id(directory.id_)
        topics = []
        for topic in directory.topics:
            partitions = []
            for assignment in topic.partitions:
                if updates.step_is_full:
                    yield updates.take()
                number = assignment.partition_index
                error = _assign(controller, updates, broker, directory_id, topic.topic_id, number)
                partitions.append(ad.ResponsePartitionData(partition_index=number, error_code=error))
            topics.append(ad.ResponseTopicData(topic_id=topic.topic_id, partitions=tuple(partitions)))
        directories.append(ad.ResponseDirectoryData(id_=directory.id_, topics=tuple(topics)))
    return Decision(updates.take(), ad.AssignReplicasToDirsResponse(directories=tuple(directories)))


def _assign(
    controller: Controller,
    updates: PartitionUpdates,
    broker: BrokerRegistration,
    directory_id: uuid.UUID,
    topic_id: uuid.UUID | None,
    partition_id: int,
) -> ErrorCode:
    if topic_id is None or topic_id not in controller.image.topics.by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    ref = updates.find((topic_id, partition_id))
    if ref is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in ref.partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    updates.change(ref, PartitionTarget(directories={broker.id: directory_id}))
    # The registration is read again, because the directory may have failed since the last step.
    present = controller.image.brokers.get(broker.id, broker)
    if not directory_online(present, directory_id):
        ref = updates.find(ref.key)
        assert ref is not None
        updates.leave_isr(broker.id, ref)
    return ErrorCode.NONE
