"""Creates topics, adds partitions, and deletes topics: makes Kafka's checks in Kafka's order and builds the records.

Every function is pure: it takes an image and a request, and returns records and a response. The checks use the image as
it was before the request. Two topics of a request must not have the same name.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcli.config.broker import BROKER
from kcli.config.definition import ConfigValue
from kcli.config.describe import BrokerLayers, describe_topic
from kcli.config.features import DIRECTORY_ASSIGNMENT_FROM
from kcli.config.stored import usable
from kcli.controller import placement
from kcli.controller.configs import topic_config_records
from kcli.controller.decision import NO_ERROR, ApiError, Decision, DecisionSteps, StepCounter, decide
from kcli.controller.policies import TopicToCreate
from kcli.controller.settings import ControllerSettings
from kcli.errors import (
    ErrorCode,
    InvalidPartitionsException,
    InvalidReplicaAssignmentException,
    InvalidReplicationFactorException,
    InvalidRequestException,
    InvalidTopicException,
    KafkaError,
    PolicyViolationException,
    TopicDeletionDisabledException,
    TopicExistsException,
    UnknownTopicIdException,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    LeaderRecoveryState,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kcli.metadata.snapshot import partition_record
from kcli.model import topic_names
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.ids import FIRST_LEADER_EPOCH, NO_LEADER, BrokerId
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.records.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from kcli.runtime.rng import Rng

MAX_PARTITIONS_PER_REQUEST = 10_000
"""The most partitions in one CreateTopics request, as in Kafka. This limit also bounds the size of the resulting
batch."""

Charge = Callable[[int], None]
"""A function that counts created or deleted partitions against the client's quota. It raises
ThrottlingQuotaExceededException if the quota is exceeded (KIP-599)."""


def no_charge(_partitions: int) -> None:
    """The `Charge` of a caller without a quota. This function charges nothing."""


DEFAULT = -1
"""In a request, this value means the default number of partitions or replicas."""

# The first version of DeleteTopics with TOPIC_DELETION_DISABLED, and the first version with topic ids.
TOPIC_DELETION_DISABLED_SINCE = 3
DELETE_BY_ID_SINCE = 6


@dataclass(frozen=True, slots=True)
class TopicContext:
    """The inputs of this module's functions besides the request. Make one context per request, because `described`
    caches parts of the response."""

    image: MetadataImage
    settings: ControllerSettings
    rng: Rng
    described: dict[tuple[tuple[str, str], ...], tuple[ct.CreatableTopicConfigs, ...]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class _NewTopic:
    topic: TopicImage
    records: tuple[MetadataRecord, ...]
    result: ct.CreatableTopicResult


def create_topics(
    context: TopicContext,
    request: ct.CreateTopicsRequest,
    *,
    describable: Callable[[str], bool],
    charge: Charge = no_charge,
) -> Decision[ct.CreateTopicsResponse]:
    """Creates topics. `describable` returns whether the client may see the configuration of a topic.

    Raises PolicyViolationException if the request has too many partitions or needs too many records.
    """
    _check_total_partitions(context, request.topics)
    records: list[MetadataRecord] = []
    results: list[ct.CreatableTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise InvalidRequestException("Duplicate topic name.")
            created = _create_topic(context, topic, describable(topic.name))
            charge(len(created.topic.partitions))
        except KafkaError as error:
            results.append(
                ct.CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=ApiError.of(error).message
                )
            )
        else:
            records += created.records
            results.append(created.result)
    decision = decide(records, ct.CreateTopicsResponse(topics=tuple(results)))
    return replace(decision, records=()) if request.validate_only else decision


def _check_total_partitions(context: TopicContext, topics: Iterable[ct.CreatableTopic]) -> None:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions > 0:
            total += topic.num_partitions
        else:
            total += context.settings.num_partitions
    if total > MAX_PARTITIONS_PER_REQUEST:
        raise too_many_partitions()


def too_many_partitions() -> PolicyViolationException:
    return PolicyViolationException("Excessively large number of partitions per request.")


def _create_topic(context: TopicContext, topic: ct.CreatableTopic, describable: bool) -> _NewTopic:
    _check_new_name(context.image, topic.name)
    configs = {config.name: config.value for config in topic.configs}
    config_records = topic_config_records(context.image, topic.name, configs, context.settings)
    _check_counts(topic)
    if topic.assignments:
        partitions = _assigned_partitions(context.image, topic)
    else:
        partitions = _placed_partitions(context, topic)
    context.settings.policies.check_topic(_asked_of_policy(topic, partitions, configs))
    image = TopicImage(topic.name, context.rng.uuid(), partitions)
    records = (
        TopicRecord(name=image.name, topic_id=image.topic_id),
        *config_records,
        *(
            partition_record(image, number, partition, context.image.metadata_version)
            for number, partition in partitions.items()
        ),
    )
    return _NewTopic(image, records, _result(context, image, configs, describable))


def _asked_of_policy(
    topic: ct.CreatableTopic, partitions: Mapping[int, PartitionImage], configs: Mapping[str, str | None]
) -> TopicToCreate:
    if topic.assignments:
        assignments = {number: partition.replicas for number, partition in partitions.items()}
        return TopicToCreate(topic.name, None, None, assignments, configs)
    return TopicToCreate(topic.name, len(partitions), len(partitions[0].replicas), None, configs)


def _check_new_name(image: MetadataImage, name: str) -> None:
    if name == topic_names.CLUSTER_METADATA_TOPIC:
        raise InvalidRequestException(
            f"Creation of internal topic {topic_names.CLUSTER_METADATA_TOPIC} is prohibited."
        )
    if name in image.topics:
        raise TopicExistsException(f"Topic '{name}' already exists.")
    topic_names.validate(name)
    if topic_names.has_collision_characters(name):
        other = _colliding_topic(image, topic_names.unify_collision_characters(name))
        if other is not None:
            raise InvalidTopicException(f"Topic '{name}' collides with existing topic: {other}")


def _colliding_topic(image: MetadataImage, unified: str) -> str | None:
    return image.topics.unified_names.get(unified)


def _check_counts(topic: ct.CreatableTopic) -> None:
    if topic.assignments:
        if topic.replication_factor != DEFAULT:
            raise InvalidRequestException(
                "A manual partition assignment was specified, but replication factor was not set to -1."
            )
        if topic.num_partitions != DEFAULT:
            raise InvalidRequestException(
                "A manual partition assignment was specified, but numPartitions was not set to -1."
            )
        return
    if topic.replication_factor == 0 or topic.replication_factor < DEFAULT:
        raise InvalidReplicationFactorException(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions == 0 or topic.num_partitions < DEFAULT:
        raise InvalidPartitionsException("Number of partitions was set to an invalid non-positive value.")


def _assigned_partitions(image: MetadataImage, topic: ct.CreatableTopic) -> dict[int, PartitionImage]:
    partitions: dict[int, PartitionImage] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        number, replicas = assignment.partition_index, tuple(map(BrokerId, assignment.broker_ids))
        if number in partitions:
            raise InvalidReplicaAssignmentException(
                f"Found multiple manual partition assignments for partition {number}"
            )
        check_assignment(image, replicas, replication_factor)
        replication_factor = len(replicas)
        partitions[number] = _assigned_partition(image, number, replicas)
    if sorted(partitions) != list(range(len(partitions))):
        raise InvalidReplicaAssignmentException("partitions should be a consecutive 0-based integer sequence")
    return dict(sorted(partitions.items()))


def check_assignment(image: MetadataImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    if not replicas:
        raise InvalidReplicaAssignmentException(
            "The manual partition assignment includes an empty replica list."
        )
    previous: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise InvalidReplicaAssignmentException(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignmentException(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignmentException(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _assigned_partition(image: MetadataImage, number: int, replicas: Sequence[BrokerId]) -> PartitionImage:
    partition = _new_partition(image, replicas)
    if not partition.isr:
        raise InvalidReplicaAssignmentException(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
    return partition


def _placed_partitions(context: TopicContext, topic: ct.CreatableTopic) -> dict[int, PartitionImage]:
    settings = context.settings
    count = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = (
        settings.default_replication_factor
        if topic.replication_factor == DEFAULT
        else topic.replication_factor
    )
    try:
        return dict(enumerate(_place(context, count, factor)))
    except InvalidReplicationFactorException as error:
        raise InvalidReplicationFactorException(f"{_unable(factor)}{error.message}") from None


def _place(context: TopicContext, count: int, replication_factor: int) -> list[PartitionImage]:
    usable = tuple(
        placement.UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in context.image.brokers.values()
        if not broker.in_controlled_shutdown
    )
    placed = placement.place(usable, count, replication_factor, context.rng)
    partitions = [_new_partition(context.image, replicas) for replicas in placed]
    if not all(partition.isr for partition in partitions):
        raise InvalidReplicationFactorException("All brokers are currently fenced or in controlled shutdown.")
    return partitions


def _unable(replication_factor: int) -> str:
    return f"Unable to replicate the partition {replication_factor} time(s): "


def _new_partition(image: MetadataImage, replicas: Sequence[BrokerId]) -> PartitionImage:
    """A new partition. Its ISR has the replicas on active brokers, and the first of these replicas leads. If no replica
    is on an active broker, the ISR is empty."""
    isr = tuple(replica for replica in replicas if image.brokers[replica].active)
    return PartitionImage(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=FIRST_LEADER_EPOCH,
        partition_epoch=0,
        directories=tuple(default_directory(image, replica) for replica in replicas),
        recovery_state=LeaderRecoveryState.RECOVERED,
    )


def default_directory(image: MetadataImage, broker_id: BrokerId) -> uuid.UUID:
    """The directory of a new replica. If the broker has only one directory, this is the directory's id.

    If the broker has several directories, the result means "unassigned": the broker will choose a directory and report
    its choice (KIP-858).
    """
    if image.metadata_version < DIRECTORY_ASSIGNMENT_FROM.level:
        return MIGRATING_DIRECTORY
    directories = image.brokers[broker_id].directories
    if not directories:
        return MIGRATING_DIRECTORY
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def _result(
    context: TopicContext, topic: TopicImage, configs: dict[str, str | None], describable: bool
) -> ct.CreatableTopicResult:
    if not describable:
        return ct.CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    overrides = {name: value for name, value in configs.items() if value is not None}
    return ct.CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_described(context, overrides),
    )


def _described(context: TopicContext, overrides: dict[str, str]) -> tuple[ct.CreatableTopicConfigs, ...]:
    """Describes a topic's configuration. Making the description is most of the work of a CreateTopics. The result is
    cached, because the topics of one request mostly have the same configuration."""
    key = tuple(sorted(overrides.items()))
    described = context.described.get(key)
    if described is None:
        layers = broker_layers(context.image, context.settings)
        broker: dict[str, ConfigValue] = {**context.settings.config, **usable(BROKER, layers.merged())}
        described = context.described[key] = tuple(
            ct.CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=int(entry.source))
            for entry in describe_topic(overrides, layers, broker)
        )
    return described


def broker_layers(image: MetadataImage, settings: ControllerSettings) -> BrokerLayers:
    """The sources of the values of this node's broker keys: dynamic configurations, file and defaults."""
    return BrokerLayers(
        dynamic=image.config(ConfigResource(ConfigResourceType.BROKER, str(settings.node_id))),
        dynamic_default=image.config(ConfigResource(ConfigResourceType.BROKER, "")),
        static=settings.static_config,
    )


def create_partitions(
    context: Callable[[], TopicContext], request: cp.CreatePartitionsRequest, charge: Charge = no_charge
) -> DecisionSteps[cp.CreatePartitionsResponse]:
    """Adds partitions. Checks the names in steps, and then makes one decision about all topics that exist. `context`
    returns the present state."""
    step = StepCounter()
    counts: Counter[str] = Counter()
    by_name: dict[str, cp.CreatePartitionsTopic] = {}
    for topic in request.topics:
        if step.is_full:
            yield ()
        counts[topic.name] += 1
        by_name[topic.name] = topic
    results: list[cp.CreatePartitionsTopicResult] = []
    accepted: list[tuple[int, cp.CreatePartitionsTopic]] = []
    for name, topic in by_name.items():
        if step.is_full:
            yield ()
        error = NO_ERROR
        if counts[name] > 1:
            error = ApiError.of(InvalidRequestException("Duplicate topic name."))
        elif name not in context().image.topics:
            error = ApiError.of(UnknownTopicOrPartitionException())
        else:
            accepted.append((len(results), topic))
        results.append(_extended(name, error))
    now, records = context(), list[MetadataRecord]()
    for place, topic in accepted:
        try:
            records += _create_partitions(now, topic, charge)
        except KafkaError as refused:
            results[place] = _extended(topic.name, ApiError.of(refused))
    decision = decide(records, cp.CreatePartitionsResponse(results=tuple(results)))
    return replace(decision, records=()) if request.validate_only else decision


def _extended(name: str, error: ApiError) -> cp.CreatePartitionsTopicResult:
    return cp.CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message)


def _create_partitions(
    context: TopicContext, request: cp.CreatePartitionsTopic, charge: Charge
) -> list[MetadataRecord]:
    topic = context.image.topics.topic(request.name)
    if topic is None:
        raise UnknownTopicOrPartitionException
    current = len(topic.partitions)
    if request.count == current:
        raise InvalidPartitionsException(f"Topic already has {current} partition(s).")
    if request.count < current:
        raise InvalidPartitionsException(
            f"The topic {request.name} currently has {current} partition(s); {request.count} would not be an "
            "increase."
        )
    additional = request.count - current
    if additional > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolationException("Unable to perform excessively large batch operation.")
    if request.assignments is not None and len(request.assignments) != additional:
        raise InvalidReplicaAssignmentException(
            f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
            "assignment(s) were specified."
        )
    charge(additional)
    factor = len(topic.partitions[0].replicas)
    if request.assignments is None:
        partitions = _place(context, additional, factor)
    else:
        partitions = _additional_assignments(context.image, request.assignments, current, factor)
    level = context.image.metadata_version
    return [
        partition_record(topic, current + index, partition, level)
        for index, partition in enumerate(partitions)
    ]


def _additional_assignments(
    image: MetadataImage, assignments: Iterable[cp.CreatePartitionsAssignment], current: int, factor: int
) -> list[PartitionImage]:
    partitions = []
    for number, assignment in enumerate(assignments, current):
        replicas = tuple(map(BrokerId, assignment.broker_ids))
        check_assignment(image, replicas, factor)
        partitions.append(_assigned_partition(image, number, replicas))
    return partitions


def delete_topics(
    image: Callable[[], MetadataImage],
    settings: ControllerSettings,
    request: dt.DeleteTopicsRequest,
    api_version: int,
    charge: Charge = no_charge,
) -> DecisionSteps[dt.DeleteTopicsResponse]:
    """Deletes topics by name or, from version 6 on, by id. Checks the names and ids in steps, and then makes one
    decision about all topics that exist. `image` returns the present metadata.

    Raises KafkaError if delete.topic.enable is false.
    """
    if not settings.delete_topic_enable:
        if api_version < TOPIC_DELETION_DISABLED_SINCE:
            raise InvalidRequestException("Topic deletion is disabled.")
        raise TopicDeletionDisabledException
    step = StepCounter()
    names: Counter[str] = Counter()
    ids: Counter[uuid.UUID] = Counter()
    states: dict[dt.DeleteTopicState, None] = {}
    for state in _states(request, api_version):
        if step.is_full:
            yield ()
        states[state] = None
        if state.name is not None:
            names[state.name] += 1
        if state.topic_id is not None:
            ids[state.topic_id] += 1
    results: list[dt.DeletableTopicResult] = []
    accepted: list[tuple[int, dt.DeleteTopicState]] = []
    for state in states:
        if step.is_full:
            yield ()
        error = _unclear_target(state, names, ids)
        if error is NO_ERROR and _target(image(), state) is not None:
            accepted.append((len(results), state))
        results.append(_deleted(state, None, _unknown(state) if error is NO_ERROR else error))
    now, records = image(), dict[MetadataRecord, None]()  # a request may name a topic both by name and by id
    for place, state in accepted:
        topic = _target(now, state)
        if topic is not None:
            error = _charged(charge, topic)
            results[place] = _deleted(state, topic, error)
            if error is NO_ERROR:
                records[RemoveTopicRecord(topic_id=topic.topic_id)] = None
    return decide(list(records), dt.DeleteTopicsResponse(responses=tuple(results)))


def _states(request: dt.DeleteTopicsRequest, api_version: int) -> Iterable[dt.DeleteTopicState]:
    if api_version < DELETE_BY_ID_SINCE:
        return (dt.DeleteTopicState(name=name) for name in request.topic_names)
    return request.topics


def _unknown(state: dt.DeleteTopicState) -> ApiError:
    return ApiError.standard(
        UnknownTopicOrPartitionException if state.topic_id is None else UnknownTopicIdException
    )


def _deleted(
    state: dt.DeleteTopicState, topic: TopicImage | None, error: ApiError
) -> dt.DeletableTopicResult:
    return dt.DeletableTopicResult(
        name=state.name if topic is None else topic.name,
        topic_id=state.topic_id if topic is None else topic.topic_id,
        error_code=error.code,
        error_message=error.message,
    )


def _charged(charge: Charge, topic: TopicImage) -> ApiError:
    try:
        charge(len(topic.partitions))
    except KafkaError as error:
        return ApiError.of(error)
    return NO_ERROR


def _unclear_target(state: dt.DeleteTopicState, names: Counter[str], ids: Counter[uuid.UUID]) -> ApiError:
    match state.name, state.topic_id:
        case None, None:
            return ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        case None, topic_id if topic_id is not None and ids[topic_id] > 1:
            return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        case name, None if name is not None and names[name] > 1:
            return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        case name, topic_id if name is not None and topic_id is not None:
            return ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        case _:
            return NO_ERROR


def _target(image: MetadataImage, state: dt.DeleteTopicState) -> TopicImage | None:
    if state.name is not None:
        return image.topics.topic(state.name)
    return image.topics.topic_by_id(state.topic_id)
