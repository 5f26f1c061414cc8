"""Reassignments of replicas to other brokers: starts, replaces, cancels and lists them (KIP-455, KIP-860).

During a reassignment, the list of the partition's replicas has first the replicas of the target, and then the replicas
to be removed. `adding` has the replicas that are new, and `removing` the replicas that are not in the target. The
reassignment is complete when the new replicas are in the ISR (`election.partition_change`). No function of this module
waits for this.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import islice

from kcli.controller.controller import Controller
from kcli.controller.decision import (
    MAX_RECORDS_PER_BATCH,
    NO_ERROR,
    ApiError,
    Decision,
    DecisionSteps,
    too_many_records,
)
from kcli.controller.election import PartitionTarget
from kcli.controller.leadership import PartitionRef, PartitionUpdates
from kcli.controller.topics import check_assignment
from kcli.errors import (
    InvalidReplicaAssignmentException,
    InvalidReplicationFactorException,
    KafkaError,
    NoReassignmentInProgressException,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import PartitionImage, TopicImage
from kcli.model.ids import BrokerId
from kcli.protocol.messages import list_partition_reassignments as lr
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

LISTED_PER_STEP = 1000
"""The number of partitions and topics that one step looks up. Each takes about 1 µs."""


def alter_partition_reassignments(
    controller: Controller, request: AlterPartitionReassignmentsRequest
) -> DecisionSteps[AlterPartitionReassignmentsResponse]:
    """Starts, replaces and cancels reassignments. Looks for the partitions in steps, and then makes one decision about
    all partitions that exist. The response has an error for each partition that is refused."""
    updates = PartitionUpdates(controller)
    answers: list[ReassignablePartitionResponse] = []
    accepted: list[tuple[int, str, ReassignablePartition]] = []
    for topic in request.topics:
        for partition in topic.partitions:
            if updates.step_is_full:
                yield ()
            try:
                _find(updates, topic.name, partition.partition_index)
                accepted.append((len(answers), topic.name, partition))
                error = NO_ERROR
            except KafkaError as refused:
                error = ApiError.of(refused)
            answers.append(_answer(partition, error))
    for place, name, partition in accepted:
        try:
            _change(updates, name, partition, request.allow_replication_factor_change)
        except KafkaError as refused:
            answers[place] = _answer(partition, ApiError.of(refused))
    if len(updates.records) > MAX_RECORDS_PER_BATCH:
        raise too_many_records()
    # If the response is large, the records are appended before it is complete. It is sent when they are committed.
    responses, rest = [], iter(answers)
    for topic in request.topics:
        if updates.step_is_full:
            yield updates.take()
        partitions = tuple(islice(rest, len(topic.partitions)))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        # As in Kafka, the message is an empty text if the request has no topics, and null in all other cases.
        error_message=None if request.topics else "",
        responses=tuple(responses),
    )
    return Decision(updates.take(), response)


def _change(
    updates: PartitionUpdates,
    topic: str,
    partition: ReassignablePartition,
    allow_replication_factor_change: bool,
) -> None:
    ref = _find(updates, topic, partition.partition_index)
    if partition.replicas is None:
        _cancel(updates, ref)
        return
    check_assignment(updates.image, partition.replicas, None)
    if not allow_replication_factor_change:
        _check_replication_factor(ref.partition, partition.replicas)
    _start(updates, ref, tuple(map(BrokerId, partition.replicas)))


def _answer(partition: ReassignablePartition, error: ApiError) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition.partition_index, error_code=error.code, error_message=error.message
    )


def _find(updates: PartitionUpdates, name: str, number: int) -> PartitionRef:
    if not updates.has_topic(name):
        raise UnknownTopicOrPartitionException(f"Unable to find a topic named {name}.")
    ref = updates.find_named(name, number)
    if ref is None:
        raise UnknownTopicOrPartitionException(f"Unable to find partition {name}:{number}.")
    return ref


def _check_replication_factor(partition: PartitionImage, target: Sequence[int]) -> None:
    """Raises KafkaError if the target has more or fewer replicas than the partition.

    During a reassignment, the replicas to be removed are not counted.
    """
    current = len(set(partition.replicas) - set(partition.removing))
    if len(target) != current:
        raise InvalidReplicationFactorException(
            f"The replication factor is changed from {current} to {len(target)}"
        )


def _start(updates: PartitionUpdates, ref: PartitionRef, target: tuple[BrokerId, ...]) -> None:
    """Starts a reassignment, or replaces a running one.

    If the new list of added or removed replicas is empty, the list of the running reassignment is kept, as in Kafka. So
    a request can repeat the target of a running reassignment, and a later cancellation still removes the added
    replicas.
    """
    present = ref.partition.replicas
    removing = tuple(sorted(set(present) - set(target)))
    adding = tuple(sorted(set(target) - set(present)))
    updates.change(
        ref,
        PartitionTarget(replicas=(*target, *removing), adding=adding or None, removing=removing or None),
    )


def _cancel(updates: PartitionUpdates, ref: PartitionRef) -> None:
    """Restores the replicas that the partition had before the reassignment. Raises KafkaError if this would need an
    unclean election."""
    partition = ref.partition
    if not is_reassigning(partition):
        raise NoReassignmentInProgressException
    rules = updates.rules(ref.topic)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding)
    if not isr and not rules.unclean_allowed:
        raise InvalidReplicaAssignmentException(
            f"Unable to revert partition assignment for {ref.topic.name}:{ref.partition_id} because it would "
            "require an unclean leader election."
        )
    updates.change(
        ref,
        PartitionTarget(
            isr=isr or replicas[:1], replicas=replicas, adding=(), removing=(), election=rules.election
        ),
    )


def is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def list_partition_reassignments(
    controller: Controller, request: lr.ListPartitionReassignmentsRequest
) -> DecisionSteps[lr.ListPartitionReassignmentsResponse]:
    """The running reassignments of the requested partitions, or of all partitions if the request has a null list."""
    listing = _listed(controller, request)
    while True:
        try:
            for _ in range(LISTED_PER_STEP):
                next(listing)
        except StopIteration as end:
            topics: tuple[lr.OngoingTopicReassignment, ...] = end.value
            break
        yield ()
    return Decision((), lr.ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _listed(
    controller: Controller, request: lr.ListPartitionReassignmentsRequest
) -> Generator[None, None, tuple[lr.OngoingTopicReassignment, ...]]:
    requested: Iterable[tuple[str, Sequence[int]]]
    if request.topics is None:
        requested = yield from _reassigning(controller)
    else:
        requested = ((topic.name, topic.partition_indexes) for topic in request.topics)
    topics = []
    for name, numbers in requested:
        yield
        topic = controller.image.topics.topic(name)
        ongoing = [] if topic is None else (yield from _ongoing(topic, numbers))
        if ongoing:
            topics.append(lr.OngoingTopicReassignment(name=name, partitions=tuple(ongoing)))
    return tuple(topics)


def _reassigning(controller: Controller) -> Generator[None, None, Iterable[tuple[str, Sequence[int]]]]:
    """All partitions with a running reassignment, by topic. Topics and partitions are sorted."""
    numbers: dict[str, list[int]] = {}
    topics = controller.image.topics
    for topic_id, number in tuple(controller.index.reassigning):
        numbers.setdefault(topics.by_id[topic_id].name, []).append(number)
        yield
    return ((name, sorted(numbers[name])) for name in sorted(numbers))


def _ongoing(
    topic: TopicImage, numbers: Sequence[int]
) -> Generator[None, None, list[lr.OngoingPartitionReassignment]]:
    partitions = []
    for number in numbers:
        partition = topic.partitions.get(number)
        if partition is not None and is_reassigning(partition):
            partitions.append(
                lr.OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=partition.replicas,
                    adding_replicas=partition.adding,
                    removing_replicas=partition.removing,
                )
            )
        yield
    return partitions
