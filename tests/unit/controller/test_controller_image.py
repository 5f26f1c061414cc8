"""Images and deltas: sharing, what changed, transactions, snapshots; every kind of record."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kcli.metadata.delta import MetadataDelta, MetadataLogError
from kcli.metadata.image import MIGRATING_DIRECTORY, MetadataImage, ScramCredential, ScramKey
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import image_records
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.protocol.records import metadata as records
from rigs.controller import ControllerRig

ONE, TWO = uuid.UUID(int=1001), uuid.UUID(int=1002)


def topic(
    name: str, topic_id: uuid.UUID, partitions: int = 1
) -> Iterator[records.PartitionRecord | records.TopicRecord]:
    yield records.TopicRecord(name=name, topic_id=topic_id)
    for number in range(partitions):
        yield records.PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )


def applied(image: MetadataImage, *changes: Any) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    for record in changes:
        delta.replay(record)
    return delta, delta.apply(image.offset + max(1, len(changes)), 1, 5)


def test_a_delta_tells_what_changed_and_the_old_image_stays() -> None:
    empty = MetadataImage()
    delta, first = applied(empty, *topic("b", ONE, 2), *topic("a", TWO))
    assert [each.name for each in delta.topics_created] == ["b", "a"]
    assert [(diff.topic, diff.partition, diff.before is None) for diff in delta.partitions_changed()] == [
        ("b", 0, True),
        ("b", 1, True),
        ("a", 0, True),
    ]
    assert first.topics.names == ("a", "b") and [each.name for each in first.topics] == ["a", "b"]
    assert len(empty.topics) == 0 and "a" in first.topics and first.topics.topic_by_id(ONE).name == "b"

    change = records.PartitionChangeRecord(partition_id=1, topic_id=ONE, leader=-1, isr=())
    delta, second = applied(first, change)
    (diff,) = delta.partitions_changed()
    assert (diff.topic, diff.partition, diff.before.leader, diff.after.leader) == ("b", 1, 1, -1)
    assert (diff.after.leader_epoch, diff.after.partition_epoch) == (1, 1)
    assert first.partition("b", 1).leader == 1
    assert second.topics.by_id[TWO] is first.topics.by_id[TWO], "what stayed is shared"
    assert delta.topics_created == () == delta.topics_deleted


def test_deleting_a_topic_names_its_partitions_and_drops_its_configs() -> None:
    config = records.ConfigRecord(resource_type=2, resource_name="b", name="retention.ms", value="1")
    _, image = applied(MetadataImage(), *topic("b", ONE, 2), config)
    assert image.topic_config("b") == {"retention.ms": "1"}
    delta, after = applied(image, records.RemoveTopicRecord(topic_id=ONE))
    assert [(diff.partition, diff.after) for diff in delta.partitions_changed()] == [(0, None), (1, None)]
    assert [each.name for each in delta.topics_deleted] == ["b"]
    assert delta.configs_changed == (ConfigResource(ConfigResourceType.TOPIC, "b"),)
    assert after.topic_config("b") == {} and len(after.topics) == 0


def test_a_topic_deleted_and_created_again_in_one_delta_is_two_topics() -> None:
    _, image = applied(MetadataImage(), *topic("t", ONE))
    delta, after = applied(image, records.RemoveTopicRecord(topic_id=ONE), *topic("t", TWO))
    assert [each.topic_id for each in delta.topics_deleted] == [ONE]
    assert [each.topic_id for each in delta.topics_created] == [TWO]
    assert after.topics.topic("t").topic_id == TWO


def test_a_topic_made_and_deleted_in_one_delta_leaves_nothing() -> None:
    delta, after = applied(MetadataImage(), *topic("t", ONE), records.RemoveTopicRecord(topic_id=ONE))
    assert list(delta.partitions_changed()) == [] and delta.topics_created == ()
    assert len(after.topics) == 0


def test_partitions_older_than_directories_have_migrating_ones() -> None:
    _, image = applied(MetadataImage(), *topic("t", ONE))
    assert image.partition("t", 0).directories == (MIGRATING_DIRECTORY,)
    assert image.partition("t", 0).directory(1) == MIGRATING_DIRECTORY


def test_clearing_elrs_bumps_only_partitions_that_have_one() -> None:
    _, image = applied(MetadataImage(), *topic("t", ONE, 2), *topic("u", TWO))
    lost = records.PartitionChangeRecord(
        partition_id=0, topic_id=ONE, isr=(), leader=-1, eligible_leader_replicas=(1,), last_known_elr=(1,)
    )
    _, image = applied(image, lost)
    delta, cleared = applied(image, records.ClearElrRecord(topic_name="t"))
    assert [(diff.topic, diff.partition) for diff in delta.partitions_changed()] == [("t", 0)]
    partition = cleared.partition("t", 0)
    assert (partition.elr, partition.last_known_elr, partition.partition_epoch) == ((), (), 2)
    _, all_cleared = applied(image, records.ClearElrRecord(topic_name=""))
    assert all_cleared.topics == cleared.topics


def test_broker_records_old_and_new() -> None:
    registered = records.RegisterBrokerRecord(
        broker_id=1, incarnation_id=ONE, broker_epoch=7, rack="r", fenced=True
    )
    _, image = applied(MetadataImage(), registered)
    delta, image = applied(image, records.UnfenceBrokerRecord(id=1, epoch=7))
    assert delta.brokers_changed == (1,) and image.brokers[1].active
    _, fenced = applied(image, records.FenceBrokerRecord(id=1, epoch=7))
    assert fenced.brokers[1].fenced
    change = records.BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=7, in_controlled_shutdown=1, log_dirs=(TWO,)
    )
    _, image = applied(image, change)
    broker = image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.directories) == (False, True, (TWO,))
    _, image = applied(image, records.UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert image.brokers == {}


def test_configs_quotas_and_features_vanish_when_emptied() -> None:
    entity = (records.QuotaEntity(entity_type="user", entity_name=None),)
    _, image = applied(
        MetadataImage(),
        records.ConfigRecord(resource_type=4, resource_name="", name="a", value="1"),
        records.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0),
        records.FeatureLevelRecord(name="group.version", feature_level=1),
    )
    assert image.client_quotas == {(("user", None),): {"producer_byte_rate": 5.0}}
    delta, image = applied(
        image,
        records.ConfigRecord(resource_type=4, resource_name="", name="a", value=None),
        records.ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True),
        records.FeatureLevelRecord(name="group.version", feature_level=0),
    )
    assert (dict(image.configs), dict(image.client_quotas), dict(image.features)) == ({}, {}, {})
    assert delta.client_quotas_changed == ((("user", None),),)
    assert delta.features_changed == ("group.version",)


@pytest.mark.parametrize(
    "record",
    [
        records.RemoveTopicRecord(topic_id=ONE),
        records.PartitionRecord(partition_id=0, topic_id=ONE),
        records.PartitionChangeRecord(partition_id=0, topic_id=ONE),
        records.FenceBrokerRecord(id=1, epoch=2),
        records.UnregisterBrokerRecord(broker_id=1, broker_epoch=2),
        records.RemoveAccessControlEntryRecord(id=ONE),
        records.ClearElrRecord(topic_name="t"),
    ],
)
def test_records_that_cannot_follow_are_refused(record: Any) -> None:
    with pytest.raises(MetadataLogError):
        MetadataDelta(MetadataImage()).replay(record)


def test_no_change_is_no_change() -> None:
    delta, _ = applied(MetadataImage(), records.NoOpRecord())
    assert delta.is_empty
    delta, _ = applied(MetadataImage(), records.ProducerIdsRecord(next_producer_id=5))
    assert not delta.is_empty


def test_scram_secrets_are_not_shown() -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    assert "salt" not in repr(credential) and "stored" not in repr(credential)


# Transactions.


def follow(replayer: ImageReplayer, *batches: list[Any]) -> Iterator[MetadataDelta]:
    for batch in batches:
        last = replayer.image.offset + 10
        yield replayer.replay(batch, last_offset=last, epoch=1, timestamp_ms=3)


def test_a_transaction_shows_only_when_it_ends() -> None:
    replayer = ImageReplayer(MetadataImage())
    begin = [records.BeginTransactionRecord(name="x"), *topic("t", ONE)]
    first, second = follow(replayer, begin, [*topic("u", TWO), records.EndTransactionRecord()])
    assert first is None
    assert [each.name for each in second.topics_created] == ["t", "u"]
    assert replayer.image.topics.names == ("t", "u") and not replayer.in_transaction


def test_an_open_transaction_hides_what_it_did() -> None:
    replayer = ImageReplayer(MetadataImage())
    list(follow(replayer, [records.BeginTransactionRecord(), *topic("t", ONE)]))
    assert replayer.in_transaction and len(replayer.image.topics) == 0
    (delta,) = follow(replayer, [records.AbortTransactionRecord(reason="y")])
    assert delta.is_empty and not replayer.in_transaction and len(replayer.image.topics) == 0


@pytest.mark.parametrize(
    "batch",
    [
        [records.EndTransactionRecord()],
        [records.AbortTransactionRecord()],
        [records.BeginTransactionRecord(), records.BeginTransactionRecord()],
        [*topic("t", ONE), records.BeginTransactionRecord()],
    ],
)
def test_transactions_out_of_order_are_refused(batch: list[Any]) -> None:
    with pytest.raises(MetadataLogError):
        list(follow(ImageReplayer(MetadataImage()), batch))


# Snapshots.


def everything() -> MetadataImage:
    rig = ControllerRig()
    rig.add_brokers(1, 2, rack="r")
    rig.create("t", 3, 2, configs={"retention.ms": "5", "min.insync.replicas": "2"})
    rig.create("u.v", 1, 1)
    rig.heartbeat(2, fence=True)
    rig.replay(
        [
            records.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=3000),
            records.ClientQuotaRecord(
                entity=(
                    records.QuotaEntity(entity_type="client-id", entity_name=None),
                    records.QuotaEntity(entity_type="user", entity_name="x"),
                ),
                key="request_percentage",
                value=7.5,
            ),
            records.AccessControlEntryRecord(
                id=ONE,
                resource_type=2,
                resource_name="t",
                pattern_type=3,
                principal="User:x",
                host="*",
                operation=3,
                permission_type=3,
            ),
            records.UserScramCredentialRecord(
                name="x", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
            ),
            records.DelegationTokenRecord(
                token_id="id", owner="User:x", requester="User:y", renewers=("User:z",), issue_timestamp=1
            ),
            records.RegisterControllerRecord(
                controller_id=1,
                incarnation_id=TWO,
                end_points=(records.ControllerEndpoint(name="C", host="h", port=1),),
                features=(
                    records.ControllerFeature(
                        name="metadata.version", min_supported_version=7, max_supported_version=27
                    ),
                ),
            ),
        ]
    )
    return rig.image


def test_a_snapshot_gives_the_image_back() -> None:
    image = everything()
    assert ScramKey("x", 1) in image.scram and image.delegation_tokens and image.controllers
    replayer = ImageReplayer(MetadataImage(cluster_id=image.cluster_id))
    snapshot = list(image_records(image))
    replayer.replay(snapshot, last_offset=image.offset, epoch=image.epoch, timestamp_ms=image.timestamp_ms)
    assert replayer.image == image
    assert list(image_records(replayer.image)) == snapshot


def test_a_snapshot_begins_with_the_metadata_version() -> None:
    image = replace(everything(), features={"a": 1, "metadata.version": 27, "b": 2})
    names = [record.name for record in image_records(image) if isinstance(record, records.FeatureLevelRecord)]
    assert names == ["metadata.version", "a", "b"]


def test_the_difference_of_two_images_leads_from_one_to_the_other() -> None:
    both = everything()
    changes = [
        *topic("other", TWO, 3),
        records.PartitionChangeRecord(partition_id=2, topic_id=TWO, leader=-1, isr=()),
        records.FeatureLevelRecord(name="metadata.version", feature_level=7),
    ]
    _, changed = applied(both, *changes)
    for old, new in ((MetadataImage(), both), (both, changed), (changed, both), (both, MetadataImage())):
        delta = MetadataDelta.between(old, new)
        given = delta.apply(new.offset, new.epoch, new.timestamp_ms)
        assert replace(given, cluster_id=new.cluster_id) == new
    assert MetadataDelta.between(both, both).is_empty


def test_the_difference_of_two_images_has_only_what_changed() -> None:
    _, old = applied(MetadataImage(), *topic("kept", ONE, 2), *topic("gone", TWO))
    change = records.PartitionChangeRecord(partition_id=1, topic_id=ONE, leader=-1, isr=())
    _, new = applied(old, change, records.RemoveTopicRecord(topic_id=TWO))
    delta = MetadataDelta.between(old, new)
    assert [(diff.topic, diff.partition) for diff in delta.partitions_changed()] == [("gone", 0), ("kept", 1)]
    assert [each.name for each in delta.topics_deleted] == ["gone"]
    assert delta.topics_created == () and delta.brokers_changed == ()
