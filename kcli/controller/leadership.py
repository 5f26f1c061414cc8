"""What becomes of partitions when brokers come and go: the election rules applied to everything a broker touches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kcli.config.topic import TOPIC
from kcli.controller.configs import MIN_INSYNC_REPLICAS, elr_enabled
from kcli.controller.election import Election, ElectionRules, PartitionTarget, may_lead, partition_change
from kcli.controller.image import (
    CLUSTER_DEFAULT,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kcli.controller.settings import ControllerSettings
from kcli.protocol.records.metadata import NO_LEADER, MetadataRecord, PartitionChangeRecord

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class PartitionRef:
    topic: TopicImage
    partition_id: int
    partition: PartitionImage


def partitions_where(
    image: MetadataImage, wanted: Callable[[PartitionImage], bool]
) -> Iterator[PartitionRef]:
    """Looks at every partition: for events that are rare, such as the coming and going of a broker."""
    for topic in image.topics:
        for number, partition in topic.partitions.items():
            if wanted(partition):
                yield PartitionRef(topic, number, partition)


def topic_setting(image: MetadataImage, settings: ControllerSettings, topic: str, name: str) -> str:
    """A topic key whose broker key has the same name: from the topic, the cluster, the node's file, or the default."""
    for layer in (image.topic_config(topic), image.config(CLUSTER_DEFAULT), settings.static_config):
        if name in layer:
            return layer[name]
    default = TOPIC[name].default
    assert default is not None
    return default


def election_rules(
    image: MetadataImage, settings: ControllerSettings, topic: str, brokers: Mapping[int, BrokerRegistration]
) -> ElectionRules:
    """The rules for one topic, with `brokers` as they will be after the operation that asks."""
    min_isr = TOPIC[MIN_INSYNC_REPLICAS].parse(topic_setting(image, settings, topic, MIN_INSYNC_REPLICAS))
    unclean = TOPIC[UNCLEAN_LEADER_ELECTION].parse(
        topic_setting(image, settings, topic, UNCLEAN_LEADER_ELECTION)
    )
    assert isinstance(min_isr, int)
    return ElectionRules(
        acceptable=may_lead(brokers),
        elr_enabled=elr_enabled(image),
        min_insync_replicas=min_isr,
        unclean_allowed=bool(unclean),
    )


class PartitionUpdates:
    """Collects the changes of one operation, in which `brokers` are what the image's brokers will be."""

    def __init__(
        self, image: MetadataImage, settings: ControllerSettings, brokers: Mapping[int, BrokerRegistration]
    ) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._settings = settings
        self._brokers = brokers
        self._rules: dict[str, ElectionRules] = {}

    def change(self, ref: PartitionRef, target: PartitionTarget) -> PartitionChangeRecord | None:
        """Adds the record for one partition, if it changes at all."""
        record = partition_change(
            ref.topic.topic_id, ref.partition_id, ref.partition, target, self.rules(ref.topic.name)
        )
        if record is not None:
            self.records.append(record)
        return record

    def rules(self, topic: str) -> ElectionRules:
        rules = self._rules.get(topic)
        if rules is None:
            rules = election_rules(self._image, self._settings, topic, self._brokers)
            self._rules[topic] = rules
        return rules

    def remove_from_isr(self, broker_id: int) -> None:
        """The broker leaves every ISR, and its leaderships go to others."""
        for ref in partitions_where(self._image, lambda partition: broker_id in partition.isr):
            self.change(ref, PartitionTarget(isr=_without(ref.partition.isr, broker_id)))

    def distrust(self, broker_id: int) -> None:
        """The broker died without saying so: it may have lost its newest records, so it leaves ISR and ELR alike."""
        for ref in partitions_where(
            self._image, lambda partition: broker_id in partition.isr or broker_id in partition.elr
        ):
            isr = _without(ref.partition.isr, broker_id)
            self.change(ref, PartitionTarget(isr=isr, uncleanly_stopped=(broker_id,)))

    def elect_leaderless(self) -> None:
        """Gives every partition without a leader another chance."""
        for ref in partitions_where(self._image, lambda partition: partition.leader == NO_LEADER):
            self.change(ref, PartitionTarget(election=Election.ONLINE))


def _without(values: tuple[int, ...], removed: int) -> tuple[int, ...]:
    return tuple(value for value in values if value != removed)
