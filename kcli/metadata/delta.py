"""The changes from one image to the next. A delta replays metadata records, and lists the topics and keys that they
change.

A delta starts from an image, replays the records of one or more batches in log order, and is applied once. A table of
the image is copied when it is first changed, and the partitions of a topic are copied when the topic is first changed.
Records are not validated again. If a record contradicts the image (for example, because its topic is unknown), the log
or this program is broken. The replay of such a record raises `MetadataLogError`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Generic, NamedTuple, Never, TypeVar

from kcli.errors import CorruptRecordError
from kcli.metadata import values
from kcli.metadata.image import (
    AclEntry,
    BrokerRegistration,
    ControllerRegistration,
    DelegationToken,
    LeaderRecoveryState,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    TopicImage,
    Topics,
)
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.protocol.records import metadata as records

K = TypeVar("K")
V = TypeVar("V")


class MetadataLogError(CorruptRecordError):
    """The metadata log has a record that contradicts the records before it."""


class PartitionDiff(NamedTuple):
    """One partition before and after a delta. `None` means that the partition does not exist at that time."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    before: PartitionImage | None
    after: PartitionImage | None


class _Table(Generic[K, V]):
    """One map of the image. It is copied before the first write, so that the old image does not change. `touched` lists
    the written keys."""

    __slots__ = ("_base", "_own", "touched")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._own: dict[K, V] | None = None
        self.touched: dict[K, None] = {}

    @property
    def current(self) -> Mapping[K, V]:
        return self._base if self._own is None else self._own

    def get(self, key: K) -> V | None:
        return self.current.get(key)

    def put(self, key: K, value: V) -> None:
        self._writable(key)[key] = value

    def remove(self, key: K) -> None:
        self._writable(key).pop(key, None)

    def become(self, target: Mapping[K, V]) -> None:
        """Removes the keys that `target` does not have, and writes the values that are different in `target`."""
        for key in [key for key in self._base if key not in target]:
            self.remove(key)
        for key, value in target.items():
            if self.get(key) != value:
                self.put(key, value)

    def _writable(self, key: K) -> dict[K, V]:
        self.touched[key] = None
        if self._own is None:
            self._own = dict(self._base)
        return self._own


class MetadataDelta:
    """The changes on top of `image`. Call `replay` for each record in log order, then `apply` once."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._features = _Table(image.features)
        self._brokers = _Table(image.brokers)
        self._controllers = _Table(image.controllers)
        self._topic_ids = _Table(image.topics.ids)
        self._topics = _Table(image.topics.by_id)
        self._partitions: dict[uuid.UUID, _Table[int, PartitionImage]] = {}
        self._configs = _Table(image.configs)
        self._client_quotas = _Table(image.client_quotas)
        self._acls = _Table(image.acls)
        self._scram = _Table(image.scram)
        self._delegation_tokens = _Table(image.delegation_tokens)
        self._next_producer_id = image.next_producer_id

    @classmethod
    def between(cls, old: MetadataImage, new: MetadataImage) -> MetadataDelta:
        """Makes the delta that changes the image `old` to the image `new`. This is needed when a snapshot from another
        node replaces the image."""
        delta = cls(old)
        delta._features.become(new.features)
        delta._brokers.become(new.brokers)
        delta._controllers.become(new.controllers)
        delta._topic_ids.become(new.topics.ids)
        delta._topics.become(new.topics.by_id)
        for topic_id, topic in new.topics.by_id.items():
            before = old.topics.by_id.get(topic_id)
            partitions = _Table({} if before is None else before.partitions)
            partitions.become(topic.partitions)
            if partitions.touched:
                delta._partitions[topic_id] = partitions
        delta._configs.become(new.configs)
        delta._client_quotas.become(new.client_quotas)
        delta._acls.become(new.acls)
        delta._scram.become(new.scram)
        delta._delegation_tokens.become(new.delegation_tokens)
        delta._next_producer_id = new.next_producer_id
        return delta

    # --- what changed

    @property
    def features_changed(self) -> tuple[str, ...]:
        return tuple(self._features.touched)

    @property
    def brokers_changed(self) -> tuple[int, ...]:
        return tuple(self._brokers.touched)

    @property
    def configs_changed(self) -> tuple[ConfigResource, ...]:
        return tuple(self._configs.touched)

    @property
    def client_quotas_changed(self) -> tuple[QuotaEntity, ...]:
        return tuple(self._client_quotas.touched)

    @property
    def acls_changed(self) -> tuple[uuid.UUID, ...]:
        return tuple(self._acls.touched)

    @property
    def scram_changed(self) -> tuple[ScramKey, ...]:
        return tuple(self._scram.touched)

    @property
    def delegation_tokens_changed(self) -> tuple[str, ...]:
        return tuple(self._delegation_tokens.touched)

    @property
    def topics_created(self) -> tuple[TopicImage, ...]:
        """The topics that the delta creates. They have no partitions here, because only `apply` adds the partitions to
        the topics."""
        after, before = self._topics.current, self.image.topics.by_id
        return tuple(
            after[topic_id]
            for topic_id in self._topics.touched
            if topic_id in after and topic_id not in before
        )

    @property
    def topics_deleted(self) -> tuple[TopicImage, ...]:
        """The topics that the delta deleted, as they were in the old image."""
        after, before = self._topics.current, self.image.topics.by_id
        return tuple(before[key] for key in self._topics.touched if key in before and key not in after)

    def partitions_changed(self) -> Iterator[PartitionDiff]:
        """Every partition that was created, changed, or deleted with its topic. The deleted topics come first, then the
        other topics in the order of their first records."""
        for topic in self.topics_deleted:
            for partition, before in sorted(topic.partitions.items()):
                yield PartitionDiff(topic.name, topic.topic_id, partition, before, None)
        for topic_id, table in self._partitions.items():
            current = self._topics.get(topic_id)
            if current is None:
                continue
            old = self.image.topics.by_id.get(topic_id)
            for partition in table.touched:
                previous = None if old is None else old.partitions.get(partition)
                yield PartitionDiff(current.name, topic_id, partition, previous, table.get(partition))

    @property
    def is_empty(self) -> bool:
        tables = (
            self._features,
            self._brokers,
            self._controllers,
            self._topics,
            self._configs,
            self._client_quotas,
            self._acls,
            self._scram,
            self._delegation_tokens,
        )
        return (
            not any(table.touched for table in tables)
            and not self._partitions
            and self._next_producer_id == self.image.next_producer_id
        )

    # --- replay and apply

    def replay(self, record: records.MetadataRecord) -> None:
        """Replays the next record of the log. Raises MetadataLogError if this record contradicts the image."""
        _REPLAY[type(record)](self, record)  # type: ignore[arg-type]  # the table pairs each type with its method

    def apply(self, offset: Offset, epoch: LeaderEpoch, timestamp_ms: int) -> MetadataImage:
        """The image after all replayed records. `offset`, `epoch` and `timestamp_ms` belong to the last record."""
        return MetadataImage(
            cluster_id=self.image.cluster_id,
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            features=self._features.current,
            brokers=self._brokers.current,
            controllers=self._controllers.current,
            topics=self._applied_topics(),
            configs=self._configs.current,
            client_quotas=self._client_quotas.current,
            next_producer_id=self._next_producer_id,
            acls=self._acls.current,
            scram=self._scram.current,
            delegation_tokens=self._delegation_tokens.current,
        )

    def _applied_topics(self) -> Topics:
        for topic_id, table in self._partitions.items():
            topic = self._topics.get(topic_id)
            if topic is not None:
                self._topics.put(topic_id, replace(topic, partitions=table.current))
        if self._topic_ids.touched:
            return Topics(self._topics.current, self._topic_ids.current)
        if self._topics.touched:
            return self.image.topics.with_partitions(self._topics.current)
        return self.image.topics

    # --- topics and partitions

    def _topic(self, record: records.TopicRecord) -> None:
        topic_id = record.topic_id
        self._topics.put(topic_id, TopicImage(record.name, topic_id, {}))
        self._topic_ids.put(record.name, topic_id)
        self._partitions[topic_id] = _Table({})

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        topic = self._topics.get(record.topic_id)
        if topic is None:
            raise MetadataLogError(
                f"the metadata log removes topic id {record.topic_id}, which does not exist"
            )
        self._topics.remove(topic.topic_id)
        self._topic_ids.remove(topic.name)
        self._partitions.pop(topic.topic_id, None)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
        if resource in self._configs.current:
            self._configs.remove(resource)

    def _partition_table(self, topic_id: uuid.UUID) -> _Table[int, PartitionImage]:
        table = self._partitions.get(topic_id)
        if table is None:
            topic = self._topics.get(topic_id)
            if topic is None:
                raise MetadataLogError(
                    f"the metadata log names a partition of topic id {topic_id}, which does not exist"
                )
            table = self._partitions[topic_id] = _Table(topic.partitions)
        return table

    def _partition(self, record: records.PartitionRecord) -> None:
        self._partition_table(record.topic_id).put(
            record.partition_id,
            PartitionImage(
                replicas=tuple(record.replicas),
                isr=tuple(record.isr),
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                directories=values.directories(record.directories, len(record.replicas)),
                elr=tuple(record.eligible_leader_replicas or ()),
                last_known_elr=tuple(record.last_known_elr or ()),
                adding=tuple(record.adding_replicas),
                removing=tuple(record.removing_replicas),
                recovery_state=LeaderRecoveryState(record.leader_recovery_state),
            ),
        )

    def _partition_change(self, record: records.PartitionChangeRecord) -> None:
        table = self._partition_table(record.topic_id)
        before = table.get(record.partition_id)
        if before is None:
            raise MetadataLogError(
                f"the metadata log changes partition {record.partition_id} of topic id {record.topic_id}, "
                "which does not exist"
            )
        table.put(record.partition_id, merge_partition_change(before, record))

    def _clear_elr(self, record: records.ClearElrRecord) -> None:
        if record.topic_name:
            topic_id = self._topic_ids.get(record.topic_name)
            if topic_id is None:
                raise MetadataLogError(
                    f"the metadata log clears the ELR of '{record.topic_name}', which is no topic"
                )
            self._clear_topic_elr(topic_id)
            return
        for topic_id in self._topics.current:
            self._clear_topic_elr(topic_id)

    def _clear_topic_elr(self, topic_id: uuid.UUID) -> None:
        table = self._partitions.get(topic_id)
        if table is None:
            stored = self._topics.current[topic_id].partitions
            if not any(partition.elr or partition.last_known_elr for partition in stored.values()):
                return
            table = self._partition_table(topic_id)
        for number, partition in tuple(table.current.items()):
            if partition.elr or partition.last_known_elr:
                cleared = replace(
                    partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                )
                table.put(number, cleared)

    # --- configs, features, ids

    def _config(self, record: records.ConfigRecord) -> None:
        resource = ConfigResource(ConfigResourceType(record.resource_type), record.resource_name)
        config = dict(self._configs.get(resource) or {})
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        if config:
            self._configs.put(resource, config)
        else:
            self._configs.remove(resource)

    def _feature_level(self, record: records.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self._features.remove(record.name)
        else:
            self._features.put(record.name, record.feature_level)

    def _producer_ids(self, record: records.ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    # --- nodes

    def _register_broker(self, record: records.RegisterBrokerRecord) -> None:
        self._brokers.put(record.broker_id, values.broker_registration(record))

    def _unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        self._known_broker(record.broker_id, record.broker_epoch)
        self._brokers.remove(record.broker_id)

    def _known_broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "no broker of that id" if broker is None else f"epoch {broker.epoch}"
            raise MetadataLogError(
                f"the metadata log speaks of broker {broker_id} epoch {epoch}, but knows {known}"
            )
        return broker

    def _fence_broker(self, record: records.FenceBrokerRecord) -> None:
        self._brokers.put(record.id, replace(self._known_broker(record.id, record.epoch), fenced=True))

    def _unfence_broker(self, record: records.UnfenceBrokerRecord) -> None:
        self._brokers.put(record.id, replace(self._known_broker(record.id, record.epoch), fenced=False))

    def _broker_registration_change(self, record: records.BrokerRegistrationChangeRecord) -> None:
        broker = self._known_broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = replace(broker, fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=True)
        if record.log_dirs:
            broker = replace(broker, directories=record.log_dirs)
        self._brokers.put(record.broker_id, broker)

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        self._controllers.put(
            record.controller_id,
            ControllerRegistration(
                id=record.controller_id,
                incarnation_id=record.incarnation_id,
                endpoints=values.endpoints(record.end_points),
                features=values.version_ranges(record.features),
                zk_migration_ready=record.zk_migration_ready,
            ),
        )

    def _unregister_controller(self, record: records.UnregisterControllerRecord) -> None:
        self._controllers.remove(record.controller_id)

    # --- security and quotas

    def _access_control_entry(self, record: records.AccessControlEntryRecord) -> None:
        self._acls.put(
            record.id,
            AclEntry(
                resource_type=record.resource_type,
                resource_name=record.resource_name,
                pattern_type=record.pattern_type,
                principal=record.principal,
                host=record.host,
                operation=record.operation,
                permission_type=record.permission_type,
            ),
        )

    def _remove_access_control_entry(self, record: records.RemoveAccessControlEntryRecord) -> None:
        acl_id = record.id
        if self._acls.get(acl_id) is None:
            raise MetadataLogError(f"the metadata log removes ACL {acl_id}, which does not exist")
        self._acls.remove(acl_id)

    def _user_scram_credential(self, record: records.UserScramCredentialRecord) -> None:
        self._scram.put(
            ScramKey(record.name, record.mechanism),
            ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations),
        )

    def _remove_user_scram_credential(self, record: records.RemoveUserScramCredentialRecord) -> None:
        self._scram.remove(ScramKey(record.name, record.mechanism))

    def _delegation_token(self, record: records.DelegationTokenRecord) -> None:
        self._delegation_tokens.put(
            record.token_id,
            DelegationToken(
                token_id=record.token_id,
                owner=record.owner,
                requester=record.requester,
                renewers=tuple(record.renewers),
                issue_timestamp_ms=record.issue_timestamp,
                max_timestamp_ms=record.max_timestamp,
                expiration_timestamp_ms=record.expiration_timestamp,
            ),
        )

    def _remove_delegation_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        self._delegation_tokens.remove(record.token_id)

    def _client_quota(self, record: records.ClientQuotaRecord) -> None:
        entity = values.quota_entity(record.entity)
        quotas = dict(self._client_quotas.get(entity) or {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            self._client_quotas.put(entity, quotas)
        else:
            self._client_quotas.remove(entity)

    def _nothing(self, _record: records.MetadataRecord) -> None:
        """Ignores a record: a NoOp, an obsolete ZkMigrationState, or a record of a transaction, which replay.py
        handles."""


def merge_partition_change(
    partition: PartitionImage, record: records.PartitionChangeRecord
) -> PartitionImage:
    """The partition after the change. Every record increments the partition epoch. A record that names a leader, even
    the same leader as before, also increments the leader epoch."""
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if record.leader != records.NO_LEADER_CHANGE:
        leader, leader_epoch = record.leader, LeaderEpoch(leader_epoch + 1)
    replicas = _new(record.replicas, partition.replicas)
    recovery = partition.recovery_state
    if record.leader_recovery_state >= 0:
        recovery = LeaderRecoveryState(record.leader_recovery_state)
    directories = partition.directories
    if record.directories is not None:
        directories = values.directories(record.directories, len(replicas))
    elif record.replicas is not None:
        directories = values.directories((), len(replicas))
    return PartitionImage(
        replicas=replicas,
        isr=_new(record.isr, partition.isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        directories=directories,
        elr=_new(record.eligible_leader_replicas, partition.elr),
        last_known_elr=_new(record.last_known_elr, partition.last_known_elr),
        adding=_new(record.adding_replicas, partition.adding),
        removing=_new(record.removing_replicas, partition.removing),
        recovery_state=recovery,
    )


def _new(changed: tuple[BrokerId, ...] | None, old: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    return old if changed is None else tuple(changed)


_REPLAY: Mapping[type, Callable[[MetadataDelta, Never], None]] = {
    records.TopicRecord: MetadataDelta._topic,
    records.RemoveTopicRecord: MetadataDelta._remove_topic,
    records.PartitionRecord: MetadataDelta._partition,
    records.PartitionChangeRecord: MetadataDelta._partition_change,
    records.ClearElrRecord: MetadataDelta._clear_elr,
    records.ConfigRecord: MetadataDelta._config,
    records.FeatureLevelRecord: MetadataDelta._feature_level,
    records.ProducerIdsRecord: MetadataDelta._producer_ids,
    records.RegisterBrokerRecord: MetadataDelta._register_broker,
    records.UnregisterBrokerRecord: MetadataDelta._unregister_broker,
    records.FenceBrokerRecord: MetadataDelta._fence_broker,
    records.UnfenceBrokerRecord: MetadataDelta._unfence_broker,
    records.BrokerRegistrationChangeRecord: MetadataDelta._broker_registration_change,
    records.RegisterControllerRecord: MetadataDelta._register_controller,
    records.UnregisterControllerRecord: MetadataDelta._unregister_controller,
    records.AccessControlEntryRecord: MetadataDelta._access_control_entry,
    records.RemoveAccessControlEntryRecord: MetadataDelta._remove_access_control_entry,
    records.UserScramCredentialRecord: MetadataDelta._user_scram_credential,
    records.RemoveUserScramCredentialRecord: MetadataDelta._remove_user_scram_credential,
    records.DelegationTokenRecord: MetadataDelta._delegation_token,
    records.RemoveDelegationTokenRecord: MetadataDelta._remove_delegation_token,
    records.ClientQuotaRecord: MetadataDelta._client_quota,
    records.NoOpRecord: MetadataDelta._nothing,
    records.ZkMigrationStateRecord: MetadataDelta._nothing,
}
