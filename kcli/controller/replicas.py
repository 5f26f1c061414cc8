"""Handles reports about the replicas of partitions.

Leaders report new ISRs (KIP-497). Brokers report the directories of replicas (KIP-858).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from kcli.controller.brokers import BrokerContext, known_broker
from kcli.controller.decision import Decision, decide
from kcli.controller.election import PartitionTarget, directory_online
from kcli.controller.leadership import PartitionRef, PartitionUpdates
from kcli.errors import ErrorCode
from kcli.metadata import values
from kcli.metadata.delta import merge_partition_change
from kcli.metadata.image import BrokerRegistration, LeaderRecoveryState, MetadataImage, PartitionImage
from kcli.model.ids import BrokerId
from kcli.protocol.messages import alter_partition as ap
from kcli.protocol.messages import assign_replicas_to_dirs as ad
from kcli.protocol.records.metadata import MetadataRecord

NO_EPOCH = -1


def alter_partition(
    context: BrokerContext, request: ap.AlterPartitionRequest
) -> Decision[ap.AlterPartitionResponse]:
    """Applies the ISRs that a leader proposes. Raises StaleBrokerEpoch if the leader's broker epoch is old."""
    sender = known_broker(context.image, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    topics = []
    for topic in request.topics:
        partitions = tuple(
            _alter_partition(context, sender.id, topic.topic_id, asked, records) for asked in topic.partitions
        )
        topics.append(ap.ResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
    return decide(records, ap.AlterPartitionResponse(topics=tuple(topics)))


def _alter_partition(
    context: BrokerContext,
    broker_id: BrokerId,
    topic_id: uuid.UUID | None,
    asked: ap.RequestPartitionData,
    records: list[MetadataRecord],
) -> ap.ResponsePartitionData:
    topic = context.image.topics.topic_by_id(topic_id)
    if topic is None:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with_epochs = tuple(state.broker_id for state in asked.new_isr_with_epochs)
    isr = tuple(map(BrokerId, with_epochs or asked.new_isr))
    error = _check(context.image, broker_id, partition, asked, isr)
    if error is not ErrorCode.NONE:
        return _refused(asked, error)
    updates = PartitionUpdates(context.image, context.settings, context.image.brokers)
    target = PartitionTarget(isr=isr, recovery_state=LeaderRecoveryState(asked.leader_recovery_state))
    change = updates.change(PartitionRef(topic, asked.partition_index, partition), target)
    records += updates.records
    after = partition if change is None else merge_partition_change(partition, change)
    if after.leader != broker_id:
        # The new ISR completed a reassignment that removes the leader. The change is valid, but the sender of the
        # request no longer leads.
        return _refused(asked, ErrorCode.NEW_LEADER_ELECTED)
    return ap.ResponsePartitionData(
        partition_index=asked.partition_index,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        leader_recovery_state=int(after.recovery_state),
        partition_epoch=after.partition_epoch,
    )


def _refused(asked: ap.RequestPartitionData, error: ErrorCode) -> ap.ResponsePartitionData:
    return ap.ResponsePartitionData(partition_index=asked.partition_index, error_code=error)


def _check(
    image: MetadataImage,
    broker_id: BrokerId,
    partition: PartitionImage,
    asked: ap.RequestPartitionData,
    isr: Sequence[int],
) -> ErrorCode:
    """Checks the epochs, the sender, the form of the ISR and the members of the ISR, in Kafka's order."""
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state not in LeaderRecoveryState.__members__.values():
        return ErrorCode.INVALID_REQUEST
    recovering = asked.leader_recovery_state == LeaderRecoveryState.RECOVERING
    if recovering and (len(isr) > 1 or partition.recovery_state is LeaderRecoveryState.RECOVERED):
        return ErrorCode.INVALID_REQUEST
    epochs = {state.broker_id: state.broker_epoch for state in asked.new_isr_with_epochs}
    if not all(_eligible(image.brokers.get(member), epochs.get(member, NO_EPOCH)) for member in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _eligible(broker: BrokerRegistration | None, epoch: int) -> bool:
    return broker is not None and broker.active and epoch in (NO_EPOCH, broker.epoch)


def assign_replicas_to_dirs(
    context: BrokerContext, request: ad.AssignReplicasToDirsRequest
) -> Decision[ad.AssignReplicasToDirsResponse]:
    """Applies the directories that a broker chose for its replicas. Raises StaleBrokerEpoch if its epoch is old."""
    broker = known_broker(context.image, request.broker_id, request.broker_epoch)
    updates = PartitionUpdates(context.image, context.settings, context.image.brokers)
    directories = []
    for directory in request.directories:
        directory_id = values.known_id(directory.id_)
        topics = []
        for topic in directory.topics:
            partitions = tuple(
                ad.ResponsePartitionData(
                    partition_index=asked.partition_index,
                    error_code=_assign(
                        context.image, updates, broker, directory_id, topic.topic_id, asked.partition_index
                    ),
                )
                for asked in topic.partitions
            )
            topics.append(ad.ResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        directories.append(ad.ResponseDirectoryData(id_=directory.id_, topics=tuple(topics)))
    return decide(updates.records, ad.AssignReplicasToDirsResponse(directories=tuple(directories)))


def _assign(
    image: MetadataImage,
    updates: PartitionUpdates,
    broker: BrokerRegistration,
    directory_id: uuid.UUID,
    topic_id: uuid.UUID | None,
    partition_id: int,
) -> ErrorCode:
    topic = image.topics.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(partition_id)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    directories = tuple(
        directory_id if replica == broker.id else directory
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
    )
    isr = None
    if not directory_online(broker, directory_id):
        isr = tuple(replica for replica in partition.isr if replica != broker.id)
    updates.change(
        PartitionRef(topic, partition_id, partition), PartitionTarget(isr=isr, directories=directories)
    )
    return ErrorCode.NONE
