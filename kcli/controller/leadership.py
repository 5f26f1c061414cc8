"""Elects leaders of many partitions at once, when a broker starts or stops, or on request of an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kcli.config.topic import TOPIC
from kcli.controller.configs import MIN_INSYNC_REPLICAS, elr_enabled
from kcli.controller.decision import NO_ERROR, ApiError, Decision, decide
from kcli.controller.election import Election, ElectionRules, PartitionTarget, may_lead, partition_change
from kcli.controller.settings import ControllerSettings
from kcli.errors import (
    ElectionNotNeededException,
    EligibleLeadersNotAvailableException,
    ErrorCode,
    InvalidRequestException,
    PreferredLeaderNotAvailableException,
)
from kcli.metadata.image import BrokerRegistration, MetadataImage, PartitionImage, TopicImage
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.model.ids import NO_LEADER, BrokerId
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.records.metadata import MetadataRecord, PartitionChangeRecord

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class PartitionRef:
    topic: TopicImage
    partition_id: int
    partition: PartitionImage


def partitions_where(
    image: MetadataImage, wanted: Callable[[PartitionImage], bool]
) -> Iterator[PartitionRef]:
    """The partitions for which `wanted` returns True. Every partition of the cluster is visited, so call this function
    only at rare events such as the start of a broker."""
    for topic in image.topics:
        for number, partition in topic.partitions.items():
            if wanted(partition):
                yield PartitionRef(topic, number, partition)


def topic_setting(image: MetadataImage, settings: ControllerSettings, topic: str, name: str) -> str:
    """The value of a topic key whose broker key has the same name. The value comes from the first of these that sets
    the key: the topic, the cluster's default, this node's file, Kafka's default."""
    for layer in (image.topic_config(topic), image.config(CLUSTER_DEFAULT), settings.static_config):
        if name in layer:
            return layer[name]
    default = TOPIC[name].default
    assert default is not None
    return default


def election_rules(
    image: MetadataImage, settings: ControllerSettings, topic: str, brokers: Mapping[int, BrokerRegistration]
) -> ElectionRules:
    """The rules for one topic.

    `brokers` has the brokers as they will be after the operation that needs the election.
    """
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
    """Collects the partition changes of one operation.

    `brokers` has the brokers as they will be after the operation.
    """

    def __init__(
        self, image: MetadataImage, settings: ControllerSettings, brokers: Mapping[int, BrokerRegistration]
    ) -> None:
        self.records: list[MetadataRecord] = []
        self._image = image
        self._settings = settings
        self._brokers = brokers
        self._rules: dict[str, ElectionRules] = {}

    def change(self, ref: PartitionRef, target: PartitionTarget) -> PartitionChangeRecord | None:
        """Adds the record for one partition, if the target changes the partition. Returns that record."""
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

    def remove_from_isr(self, broker_id: BrokerId) -> None:
        """Removes the broker from every ISR, and gives its leaderships to other brokers."""
        for ref in partitions_where(self._image, lambda partition: broker_id in partition.isr):
            self.change(ref, PartitionTarget(isr=_without(ref.partition.isr, broker_id)))

    def distrust(self, broker_id: BrokerId) -> None:
        """Removes a broker that stopped uncleanly from every ISR and ELR, because it may have lost its newest
        records."""
        for ref in partitions_where(
            self._image, lambda partition: broker_id in partition.isr or broker_id in partition.elr
        ):
            isr = _without(ref.partition.isr, broker_id)
            self.change(ref, PartitionTarget(isr=isr, uncleanly_stopped=(broker_id,)))

    def elect_leaderless(self) -> None:
        """Tries an election for every partition without a leader."""
        for ref in partitions_where(self._image, lambda partition: partition.leader == NO_LEADER):
            self.change(ref, PartitionTarget(election=Election.ONLINE))


def _without(values: tuple[BrokerId, ...], removed: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(value for value in values if value != removed)


def elect_leaders(
    image: MetadataImage, settings: ControllerSettings, request: el.ElectLeadersRequest
) -> Decision[el.ElectLeadersResponse]:
    """Elects the preferred replica, or any live replica, at an operator's request (KIP-183, KIP-460). If the list of
    partitions is null, elects a leader for each partition that needs one."""
    try:
        election = _ELECTIONS[request.election_type]
    except KeyError:
        raise InvalidRequestException(f"Unknown election type {request.election_type}") from None
    updates = PartitionUpdates(image, settings, image.brokers)
    everywhere = request.topic_partitions is None
    asked = (
        ((topic.name, tuple(topic.partitions)) for topic in image.topics)
        if request.topic_partitions is None
        else ((each.topic, each.partitions) for each in request.topic_partitions)
    )
    results = []
    for name, numbers in asked:
        answers = tuple(_elect_one(image, updates, name, number, election) for number in numbers)
        if everywhere:
            answers = tuple(each for each in answers if each.error_code is not ErrorCode.ELECTION_NOT_NEEDED)
        results.append(el.ReplicaElectionResult(topic=name, partition_result=answers))
    return decide(updates.records, el.ElectLeadersResponse(replica_election_results=tuple(results)))


_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def _elect_one(
    image: MetadataImage, updates: PartitionUpdates, name: str, number: int, election: Election
) -> el.PartitionResult:
    def answer(error: ApiError) -> el.PartitionResult:
        return el.PartitionResult(partition_id=number, error_code=error.code, error_message=error.message)

    topic = image.topics.topic(name)
    if topic is None:
        return answer(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"))
    partition = topic.partitions.get(number)
    if partition is None:
        return answer(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"))
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return answer(ApiError.standard(ElectionNotNeededException))
    if updates.change(PartitionRef(topic, number, partition), PartitionTarget(election=election)) is None:
        return answer(
            ApiError.standard(
                PreferredLeaderNotAvailableException if preferred else EligibleLeadersNotAvailableException
            )
        )
    return answer(NO_ERROR)
