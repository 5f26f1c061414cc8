"""Elects leaders of many partitions, when a broker starts or stops, from time to time, or on request of an operator."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kcli.config.features import DIRECTORY_ASSIGNMENT_FROM, ISR_SHRINK_WITHOUT_NEW_EPOCH_FROM
from kcli.config.stored import usable
from kcli.config.topic import TOPIC
from kcli.controller.configs import MIN_INSYNC_REPLICAS, elr_enabled
from kcli.controller.controller import Controller
from kcli.controller.decision import (
    MAX_RECORDS_PER_BATCH,
    NAME_COST,
    NO_ERROR,
    ApiError,
    Decision,
    DecisionSteps,
    StepCounter,
    in_steps,
    too_many_records,
)
from kcli.controller.election import Election, ElectionRules, PartitionTarget, may_lead, partition_change
from kcli.controller.partition_index import Keys, PartitionKey
from kcli.controller.settings import ControllerSettings
from kcli.controller.topics import default_directory
from kcli.errors import (
    ElectionNotNeededException,
    EligibleLeadersNotAvailableException,
    ErrorCode,
    InvalidRequestException,
    PreferredLeaderNotAvailableException,
)
from kcli.metadata.delta import merge_partition_change
from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.model.ids import NO_LEADER, BrokerId
from kcli.model.pace import Pace, mapped
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.records.metadata import MetadataRecord, PartitionChangeRecord

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

MAX_ELECTIONS_PER_ROUND = 1000
"""The most partitions for which one round of a periodic task elects leaders, as in Kafka."""

Changes = Generator[Sequence[MetadataRecord], None, None]
"""A generator that makes the partition changes of an event in steps, and yields the records of each step. The records
of the last step stay in `PartitionUpdates.records`."""


@dataclass(frozen=True, slots=True)
class PartitionRef:
    topic: TopicImage
    partition_id: int
    partition: PartitionImage

    @property
    def key(self) -> PartitionKey:
        return self.topic.topic_id, self.partition_id


def topic_setting(image: MetadataImage, settings: ControllerSettings, topic: str, name: str) -> str:
    """The value of a topic's configuration key, for keys whose broker key has the same name. The value is taken from
    the first of these places that sets the key: the topic, the cluster's default, this node's file, Kafka's default."""
    for layer in (image.topic_config(topic), image.config(CLUSTER_DEFAULT), settings.static_config):
        if name in usable(TOPIC, {name: layer[name]} if name in layer else {}):
            return layer[name]
    default = TOPIC[name].default
    assert default is not None
    return default


def election_rules(image: MetadataImage, settings: ControllerSettings, topic: TopicImage) -> ElectionRules:
    """The rules for one topic. `min.insync.replicas` is limited to the number of replicas of the topic's first
    partition.
    """
    min_isr = TOPIC[MIN_INSYNC_REPLICAS].parse(
        topic_setting(image, settings, topic.name, MIN_INSYNC_REPLICAS)
    )
    unclean = TOPIC[UNCLEAN_LEADER_ELECTION].parse(
        topic_setting(image, settings, topic.name, UNCLEAN_LEADER_ELECTION)
    )
    assert isinstance(min_isr, int)
    level = image.metadata_version
    return ElectionRules(
        acceptable=may_lead(image.brokers),
        elr_enabled=elr_enabled(image),
        # A topic may have fewer replicas than min.insync.replicas. All its replicas are then enough, as in Kafka
        # (KIP-966).
        min_insync_replicas=min(min_isr, len(topic.partitions[0].replicas)),
        unclean_allowed=bool(unclean),
        shrink_begins_epoch=level < ISR_SHRINK_WITHOUT_NEW_EPOCH_FROM.level,
        new_directory=(
            partial(default_directory, image) if level >= DIRECTORY_ASSIGNMENT_FROM.level else None
        ),
    )


class PartitionUpdates:
    """Collects the partition changes of one operation. Each change is based on the result of the changes before it."""

    def __init__(self, controller: Controller) -> None:
        self.records: list[MetadataRecord] = []
        self._controller = controller
        self._changed: dict[PartitionKey, list[PartitionChangeRecord]] = {}
        self._rules: dict[uuid.UUID, ElectionRules] = {}
        self._step = StepCounter()

    @property
    def image(self) -> MetadataImage:
        return self._controller.image

    def take(self) -> tuple[MetadataRecord, ...]:
        """Returns the collected records and removes them from this object. The caller must replay them before the next
        change."""
        records = tuple(self.records)
        self.records = []
        self._changed = {}
        self._rules = {}
        return records

    def find(self, key: PartitionKey) -> PartitionRef | None:
        """The partition with all changes that were collected so far. None if the partition does not exist."""
        topic = self._controller.image.topics.by_id.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if topic is None or partition is None:
            return None
        for record in self._changed.get(key, ()):
            partition = merge_partition_change(partition, record)
        return PartitionRef(topic, key[1], partition)

    def find_named(self, name: str, number: int) -> PartitionRef | None:
        topic = self._controller.image.topics.topic(name)
        return None if topic is None else self.find((topic.topic_id, number))

    def has_topic(self, name: str) -> bool:
        return name in self._controller.image.topics

    def change(self, ref: PartitionRef, target: PartitionTarget) -> bool:
        """Adds the record for one partition. Returns False if the target does not change the partition."""
        record = partition_change(
            ref.topic.topic_id, ref.partition_id, ref.partition, target, self.rules(ref.topic)
        )
        if record is None:
            return False
        self.records.append(record)
        self._changed.setdefault(ref.key, []).append(record)
        return True

    def rules(self, topic: TopicImage) -> ElectionRules:
        rules = self._rules.get(topic.topic_id)
        if rules is None:
            image, settings = self._controller.image, self._controller.settings
            rules = self._rules[topic.topic_id] = election_rules(image, settings, topic)
        return rules

    def change_all(self, keys: Iterable[PartitionKey], change: Callable[[PartitionRef], object]) -> Changes:
        """Calls `change` for each of these partitions that still exists."""
        for key in keys:
            if self.step_is_full:
                yield self.take()
            ref = self.find(key)
            if ref is not None:
                change(ref)

    @property
    def step_is_full(self) -> bool:
        """See `StepCounter.is_full`."""
        return self._step.is_full

    # The changes of events.

    def remove_from_isr(self, broker_id: BrokerId) -> Changes:
        """Removes the broker from every ISR, and gives its leaderships to other brokers."""
        return self.change_all(self._controller.index.in_isr(broker_id), partial(self.leave_isr, broker_id))

    def distrust(self, broker_id: BrokerId) -> Changes:
        """Removes the broker from every ISR and ELR, because it may have lost its newest records."""
        change = partial(self.leave_isr, broker_id, uncleanly_stopped=(broker_id,))
        yield from self.change_all(self._controller.index.in_isr(broker_id), change)
        yield from self.change_all(self._controller.index.in_elr(broker_id), change)

    def leave_directory(self, broker_id: BrokerId, directory: uuid.UUID) -> Changes:
        """Removes the broker from the ISRs of its partitions in a directory that failed."""
        return self.change_all(
            self._controller.index.in_directory(directory), partial(self.leave_isr, broker_id)
        )

    def elect_leaderless(self) -> Changes:
        """Tries an election for every partition without a leader."""
        return self.change_all(tuple(self._controller.index.leaderless), partial(self.leave_isr, NO_LEADER))

    def leave_isr(
        self, broker_id: BrokerId, ref: PartitionRef, *, uncleanly_stopped: tuple[BrokerId, ...] = ()
    ) -> None:
        """Removes the broker from one ISR, if it is in the ISR, and elects another leader if needed."""
        isr = tuple(member for member in ref.partition.isr if member != broker_id)
        self.change(
            ref,
            PartitionTarget(
                isr=isr, election=self.rules(ref.topic).election, uncleanly_stopped=uncleanly_stopped
            ),
        )


# --- the periodic tasks


def elect_preferred(controller: Controller) -> DecisionSteps[bool]:
    """Elects the preferred replicas of some partitions. The response is True if more partitions may need such an
    election."""
    return _elect_some(controller, controller.index.not_preferred, Election.PREFERRED)


def elect_leaderless(controller: Controller) -> Decision[bool] | DecisionSteps[bool]:
    """Elects leaders of some partitions without a leader. The response is True if there may be more such partitions.

    In topics that allow unclean elections, the election may be unclean. In other topics, an election succeeds only if
    the previous controller failed before it elected a leader. While no broker is active, for example when a whole
    cluster starts, this function does not look at any partition.
    """
    if not any(broker.active for broker in controller.image.brokers.values()):
        return Decision((), False)
    return _elect_some(controller, controller.index.leaderless, None)


def _elect_some(controller: Controller, keys: Keys, election: Election | None) -> DecisionSteps[bool]:
    updates = PartitionUpdates(controller)
    elected = 0
    for key in tuple(keys):
        if updates.step_is_full:
            yield updates.take()
        ref = updates.find(key) if key in keys else None
        if ref is not None and updates.change(
            ref, PartitionTarget(election=election or updates.rules(ref.topic).election)
        ):
            elected += 1
            if elected == MAX_ELECTIONS_PER_ROUND:
                break
    return Decision(updates.take(), elected == MAX_ELECTIONS_PER_ROUND)


# --- the request of an operator


def elect_leaders(
    controller: Controller, request: el.ElectLeadersRequest
) -> DecisionSteps[el.ElectLeadersResponse]:
    """Elects the preferred replica, or any live replica, at an operator's request (KIP-183, KIP-460). If the list of
    partitions is null, elects a leader for each partition that needs one.

    Raises PolicyViolationException if more than 10,000 partitions need a leader.
    """
    try:
        election = _ELECTIONS[request.election_type]
    except KeyError:
        raise InvalidRequestException(f"Unknown election type {request.election_type}") from None
    everywhere = request.topic_partitions is None
    topics = yield from in_steps(lambda pace: _topics(controller.image, request, pace))
    index = controller.index
    needed = index.not_preferred if election is Election.PREFERRED else index.leaderless
    ids = controller.image.topics.ids
    count = len(needed)
    if not everywhere:
        count = yield from in_steps(lambda pace: _count_needed(topics, ids, needed, pace))
    if count > MAX_RECORDS_PER_BATCH:
        raise too_many_records()
    return (yield from _elect(PartitionUpdates(controller), topics, election, everywhere))


async def _topics(
    image: MetadataImage, request: el.ElectLeadersRequest, pace: Pace
) -> Sequence[tuple[str, Sequence[int]]]:
    """The topics of a request, with the numbers of their partitions."""
    if request.topic_partitions is None:
        return await mapped(
            pace, NAME_COST, image.topics, lambda topic: (topic.name, tuple(topic.partitions))
        )
    return await mapped(
        pace, NAME_COST, request.topic_partitions, lambda topic: (topic.topic, topic.partitions)
    )


async def _count_needed(
    topics: Iterable[tuple[str, Sequence[int]]], ids: Mapping[str, uuid.UUID], needed: Keys, pace: Pace
) -> int:
    """The number of partitions in a request that need a leader."""
    counted = set()
    for name, numbers in topics:
        await pace(NAME_COST)
        topic_id = ids.get(name)
        for number in () if topic_id is None else numbers:
            await pace(NAME_COST)
            if (topic_id, number) in needed:
                counted.add((topic_id, number))
    return len(counted)


_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def _elect(
    updates: PartitionUpdates,
    topics: Iterable[tuple[str, Sequence[int]]],
    election: Election,
    everywhere: bool,
) -> DecisionSteps[el.ElectLeadersResponse]:
    results = []
    for name, numbers in topics:
        answers = []
        for number in numbers:
            if updates.step_is_full:
                yield updates.take()
            error = _elect_one(updates, name, number, election)
            # As in Kafka, the response to a request for all partitions lists only those that needed an election.
            if not everywhere or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                answers.append(
                    el.PartitionResult(
                        partition_id=number, error_code=error.code, error_message=error.message
                    )
                )
        results.append(el.ReplicaElectionResult(topic=name, partition_result=tuple(answers)))
    return Decision(updates.take(), el.ElectLeadersResponse(replica_election_results=tuple(results)))


def _elect_one(updates: PartitionUpdates, name: str, number: int, election: Election) -> ApiError:
    ref = updates.find_named(name, number)
    if ref is None:
        what = f"partition as {name}-{number}" if updates.has_topic(name) else f"topic as {name}"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")
    partition = ref.partition
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return ApiError.standard(ElectionNotNeededException)
    if not updates.change(ref, PartitionTarget(election=election)):
        return ApiError.standard(
            PreferredLeaderNotAvailableException if preferred else EligibleLeadersNotAvailableException
        )
    return NO_ERROR
