"""Brokers: registration, heartbeats, fencing and controlled shutdown (KIP-500, KIP-841, KIP-858, KIP-966).

If a broker starts, stops or fails, its partitions and its registration change. The records have Kafka's order, which is
safe if the controller fails between two records. A broker loses its leaderships before it is fenced, and is unfenced
before it leads.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto

from kcli.config.features import DIRECTORY_ASSIGNMENT_FROM, KRAFT_VERSION
from kcli.controller.configs import elr_enabled
from kcli.controller.controller import Controller
from kcli.controller.decision import MAX_RECORDS_PER_BATCH, Decision, DecisionSteps, too_many_records
from kcli.controller.leadership import Changes, PartitionUpdates
from kcli.errors import (
    BrokerIdNotRegisteredException,
    DuplicateBrokerRegistrationException,
    InconsistentClusterIdException,
    InvalidRegistrationException,
    StaleBrokerEpochException,
    UnsupportedVersionException,
)
from kcli.metadata import values
from kcli.metadata.image import (
    LOST_DIRECTORY,
    METADATA_VERSION,
    BrokerRegistration,
    MetadataImage,
    is_real_directory,
)
from kcli.model.ids import BrokerId, Offset
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.records.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

FENCE = 1
UNFENCE = -1


# --- registration


def register_broker(
    controller: Controller, request: br.BrokerRegistrationRequest, now_ms: int
) -> DecisionSteps[br.BrokerRegistrationResponse]:
    """Registers a broker. The broker epoch is the first offset of the batch that registers the broker.

    Raises KafkaError if the registration is refused.
    """
    existing = controller.image.brokers.get(request.broker_id)
    _check_registration(controller, request, existing, now_ms)
    return _register(controller, request, existing)


def _register(
    controller: Controller, request: br.BrokerRegistrationRequest, existing: BrokerRegistration | None
) -> DecisionSteps[br.BrokerRegistrationResponse]:
    updates = PartitionUpdates(controller)
    # The same process registers again, for example because it lost the answer. It keeps its broker epoch, so that its
    # other requests stay valid.
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record = _registration(
            controller,
            request,
            epoch=existing.epoch,
            fenced=existing.fenced,
            in_controlled_shutdown=existing.in_controlled_shutdown,
        )
    else:
        yield from _end_previous_life(updates, controller, request, existing)
        controller.sessions.forget(BrokerId(request.broker_id))
        record = _registration(controller, request, epoch=controller.next_offset)
    response = br.BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Decision((*updates.take(), record), response)


def _end_previous_life(
    updates: PartitionUpdates,
    controller: Controller,
    request: br.BrokerRegistrationRequest,
    existing: BrokerRegistration | None,
) -> Changes:
    broker_id = BrokerId(request.broker_id)
    stopped_cleanly = existing is not None and request.previous_broker_epoch == existing.epoch
    with controller.expecting(broker_id, existing and replace(existing, fenced=True)):
        # After an unclean stop, the broker may have lost records that were not flushed. So it must leave the ELR too,
        # whose members may become leader (KIP-966).
        if stopped_cleanly or not elr_enabled(controller.image):
            yield from updates.remove_from_isr(broker_id)
        else:
            yield from updates.distrust(broker_id)


def _registration(
    controller: Controller,
    request: br.BrokerRegistrationRequest,
    *,
    epoch: int,
    fenced: bool = True,
    in_controlled_shutdown: bool = False,
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(request.broker_id),
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        incarnation_id=values.known_id(request.incarnation_id),
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ),
        features=tuple(
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=(
            tuple(values.known_id(directory) for directory in request.log_dirs)
            if _has_directories(controller.image)
            else ()
        ),
    )


def _has_directories(image: MetadataImage) -> bool:
    return image.metadata_version >= DIRECTORY_ASSIGNMENT_FROM.level


def _check_registration(
    controller: Controller,
    request: br.BrokerRegistrationRequest,
    existing: BrokerRegistration | None,
    now_ms: int,
) -> None:
    image = controller.image
    if request.cluster_id != image.cluster_id:
        raise InconsistentClusterIdException(
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}"
        )
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and controller.sessions.is_valid(existing.id, existing.epoch, now_ms)
    ):
        raise DuplicateBrokerRegistrationException(
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegisteredException("Controller does not support registering ZK brokers.")
    if _has_directories(image):
        _check_directories(image, request)
    _check_features({**image.features, KRAFT_VERSION: controller.settings.kraft_version}, request)


def _check_directories(image: MetadataImage, request: br.BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise InvalidRegistrationException("No directories specified in request")
    if not all(directory is not None and is_real_directory(directory) for directory in directories):
        raise InvalidRegistrationException("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise InvalidRegistrationException("Duplicate directory ID in request")
    for broker in image.brokers.values():
        if broker.id == request.broker_id:
            continue
        for directory in directories:
            # A copied disk would give two brokers the same directory id, and the controller could not tell their
            # replicas apart (KIP-858).
            if directory in broker.directories:
                raise InvalidRegistrationException(
                    f"Broker {broker.id} is already registered with directory {directory}"
                )


def _check_features(finalized: Mapping[str, int], request: br.BrokerRegistrationRequest) -> None:
    """Raises KafkaError unless the broker supports every finalized feature level of the cluster."""
    supported = {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, levels in supported.items():
        _check_level(name, finalized.get(name, 0), levels)
    if METADATA_VERSION not in supported:
        raise InvalidRegistrationException(f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in finalized.items():
        _check_level(name, level, supported.get(name, (0, 0)))


def _check_level(name: str, level: int, supported: tuple[int, int]) -> None:
    lowest, highest = supported
    if not lowest <= level <= highest:
        raise UnsupportedVersionException(
            f"Unable to register because the broker does not support finalized version {level} of {name}. "
            f"The broker wants a version between {lowest} and {highest}, inclusive."
        )


# --- heartbeats


class BrokerState(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def heard(controller: Controller, request: hb.BrokerHeartbeatRequest, now_ms: int) -> None:
    """Stores the time at which a heartbeat arrived, before the decision about this heartbeat."""
    broker = controller.image.brokers.get(request.broker_id)
    if broker is not None and broker.epoch == request.broker_epoch:
        controller.sessions.touch(broker.id, broker.epoch, now_ms)


def heartbeat(
    controller: Controller, request: hb.BrokerHeartbeatRequest
) -> Decision[hb.BrokerHeartbeatResponse] | DecisionSteps[hb.BrokerHeartbeatResponse]:
    """Moves the broker to the state that its heartbeat asks for, as soon as this state is safe. Call `heard` first.

    Raises KafkaError if the broker or its epoch is unknown.
    """
    broker = known_broker(controller.image, request.broker_id, request.broker_epoch)
    next_state = _next_state(controller, broker, request)
    controller.sessions.reached(broker.id, Offset(request.current_metadata_offset))
    response = hb.BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=next_state is BrokerState.SHUTDOWN_NOW,
    )
    # A controller that failed in the middle of a controlled shutdown may have left leaderships.
    moves = next_state is not _state(broker) or (
        next_state is BrokerState.CONTROLLED_SHUTDOWN and controller.index.leads(broker.id)
    )
    failed = [directory for directory in broker.directories if directory in request.offline_log_dirs]
    if not moves and not failed:
        return Decision((), response)
    return _move(controller, broker, next_state if moves else None, failed, response)


def known_broker(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The broker that a request names. Raises StaleBrokerEpoch if the broker is not registered with this epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpochException(f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise StaleBrokerEpochException(f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
    return broker


def _state(broker: BrokerRegistration) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerState.UNFENCED


def _next_state(
    controller: Controller, broker: BrokerRegistration, request: hb.BrokerHeartbeatRequest
) -> BrokerState:
    leads = controller.index.leads(broker.id)
    match _state(broker):
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            # The epoch is the offset of the registration. A broker that has not read so far has old metadata, so it
            # must not serve clients yet (KIP-631).
            caught_up = request.current_metadata_offset >= broker.epoch
            return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if request.want_shut_down:
                return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
            return BrokerState.UNFENCED
        case _:
            # The broker waits until the other brokers have the metadata with the new leaders. If it stopped earlier,
            # they would still send clients to it.
            if leads or not controller.sessions.may_shut_down(broker.id, controller.image.brokers):
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW


def _move(
    controller: Controller,
    broker: BrokerRegistration,
    next_state: BrokerState | None,
    failed: Sequence[uuid.UUID],
    response: hb.BrokerHeartbeatResponse,
) -> DecisionSteps[hb.BrokerHeartbeatResponse]:
    """Moves the broker to the state `next_state`, or keeps its state if `next_state` is None. Removes its replicas
    in failed directories from the ISRs."""
    updates = PartitionUpdates(controller)
    online = tuple(directory for directory in broker.directories if directory not in failed)
    with controller.expecting(broker.id, _as_it_will_be(broker, next_state, online)):
        match next_state:
            case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
                yield from _fence(updates, broker)
            case BrokerState.UNFENCED:
                updates.records.append(_change(broker, fenced=UNFENCE))
                yield from updates.elect_leaderless()
            case BrokerState.CONTROLLED_SHUTDOWN:
                if not broker.in_controlled_shutdown:
                    updates.records.append(_change(broker, in_controlled_shutdown=1))
                yield from updates.remove_from_isr(broker.id)
        for directory in failed:
            yield from updates.leave_directory(broker.id, directory)
        if failed:
            updates.records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online
                )
            )
    records = updates.take()
    if next_state is BrokerState.CONTROLLED_SHUTDOWN:
        last_offset = Offset(controller.next_offset + len(records) - 1)
        controller.sessions.begin_controlled_shutdown(broker.id, last_offset)
    if next_state is BrokerState.SHUTDOWN_NOW:
        # The process ends now, so the next process of this broker may register at once.
        controller.sessions.forget(broker.id)
    return Decision(records, response)


def _as_it_will_be(
    broker: BrokerRegistration, next_state: BrokerState | None, online: tuple[uuid.UUID, ...]
) -> BrokerRegistration:
    # An empty list would mean that the directories of the broker are unknown, and that all of them may be online.
    broker = replace(broker, directories=online or (LOST_DIRECTORY,)) if broker.directories else broker
    match next_state:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            return replace(broker, fenced=True)
        case BrokerState.UNFENCED:
            return replace(broker, fenced=False)
        case BrokerState.CONTROLLED_SHUTDOWN:
            return replace(broker, in_controlled_shutdown=True)
        case None:
            return broker


def _fence(updates: PartitionUpdates, broker: BrokerRegistration) -> Changes:
    yield from updates.remove_from_isr(broker.id)
    updates.records.append(_change(broker, fenced=FENCE))


def _change(
    broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


# --- leaving


def fence_expired(
    controller: Controller, now_ms: int, *, exempt: int | None = None
) -> Decision[bool] | DecisionSteps[bool]:
    """Fences one broker whose session has expired. The response is False if there is no such broker.

    A call fences only one broker, because each fencing moves leaderships.

    `exempt` is the broker in this process. This broker is never fenced, because it runs as long as the controller.
    """
    for broker in controller.sessions.expired(controller.image.brokers, now_ms):
        if broker.id != exempt:
            return _expire(controller, broker)
    return Decision((), False)


def _expire(controller: Controller, broker: BrokerRegistration) -> DecisionSteps[bool]:
    updates = PartitionUpdates(controller)
    with controller.expecting(broker.id, replace(broker, fenced=True)):
        yield from _fence(updates, broker)
    return Decision(updates.take(), True)


def unregister_broker(
    controller: Controller, request: ub.UnregisterBrokerRequest
) -> DecisionSteps[ub.UnregisterBrokerResponse]:
    """Removes a broker from the cluster, and from every ISR and ELR. The broker stays in the replica lists of its
    partitions.

    Raises BrokerIdNotRegistered, or PolicyViolation if the broker is in too many ISRs and ELRs.
    """
    broker = controller.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredException(f"Broker ID {request.broker_id} is not currently registered")
    index = controller.index
    if len(index.in_isr(broker.id)) + len(index.in_elr(broker.id)) >= MAX_RECORDS_PER_BATCH:
        raise too_many_records()
    return _unregister(controller, broker)


def _unregister(
    controller: Controller, broker: BrokerRegistration
) -> DecisionSteps[ub.UnregisterBrokerResponse]:
    updates = PartitionUpdates(controller)
    with controller.expecting(broker.id, None):
        yield from updates.distrust(broker.id)
    controller.sessions.forget(broker.id)
    gone = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return Decision((*updates.take(), gone), ub.UnregisterBrokerResponse(error_message=None))
