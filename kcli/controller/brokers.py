"""Brokers: registration, heartbeats, fencing and controlled shutdown (KIP-500, KIP-841, KIP-858, KIP-966)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from kcli.controller.configs import elr_enabled
from kcli.controller.decision import Decision
from kcli.controller.election import PartitionTarget
from kcli.controller.leadership import PartitionUpdates, partitions_where
from kcli.controller.sessions import BrokerSessions
from kcli.controller.settings import ControllerSettings
from kcli.errors import (
    BrokerIdNotRegisteredException,
    DuplicateBrokerRegistrationException,
    InconsistentClusterIdException,
    InvalidRegistrationException,
    StaleBrokerEpochException,
    UnsupportedVersionException,
)
from kcli.metadata import values
from kcli.metadata.image import METADATA_VERSION, BrokerRegistration, MetadataImage
from kcli.model.ids import BrokerId, Offset
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.records.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

FIRST_DIRECTORY_ID = 100
"""The lowest id of a real directory. Lower ids have special meanings (metadata/image.py)."""

FENCE = 1
UNFENCE = -1


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """The inputs of the broker functions besides the request.

    `next_offset` is the offset of the next record. `now_ms` is the time of the sessions. It comes from a monotonic
    clock, so it is no timestamp for a record.
    """

    image: MetadataImage
    settings: ControllerSettings
    sessions: BrokerSessions
    next_offset: Offset
    now_ms: int


# --- registration


def register_broker(
    context: BrokerContext, request: br.BrokerRegistrationRequest
) -> Decision[br.BrokerRegistrationResponse]:
    """Registers a broker. The broker epoch is the first offset of the batch that registers the broker.

    Raises KafkaError if the registration is refused.
    """
    image = context.image
    existing = image.brokers.get(request.broker_id)
    _check_registration(context, request, existing)
    records: list[MetadataRecord] = []
    record = RegisterBrokerRecord(
        broker_id=BrokerId(request.broker_id),
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        incarnation_id=values.known_id(request.incarnation_id),
        broker_epoch=context.next_offset,
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
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=tuple(values.known_id(directory) for directory in request.log_dirs),
    )
    if existing is not None and existing.incarnation_id == record.incarnation_id:
        record = replace(
            record,
            fenced=existing.fenced,
            in_controlled_shutdown=existing.in_controlled_shutdown,
            broker_epoch=existing.epoch,
        )
    else:
        stopped_cleanly = existing is None or request.previous_broker_epoch == existing.epoch
        records += _end_previous_life(context, record.broker_id, stopped_cleanly)
    records.append(record)
    return Decision(tuple(records), br.BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _end_previous_life(
    context: BrokerContext, broker_id: BrokerId, stopped_cleanly: bool
) -> list[MetadataRecord]:
    brokers = {key: broker for key, broker in context.image.brokers.items() if key != broker_id}
    updates = PartitionUpdates(context.image, context.settings, brokers)
    if stopped_cleanly or not elr_enabled(context.image):
        updates.remove_from_isr(broker_id)
    else:
        updates.distrust(broker_id)
    return updates.records


def _check_registration(
    context: BrokerContext, request: br.BrokerRegistrationRequest, existing: BrokerRegistration | None
) -> None:
    image = context.image
    if request.cluster_id != image.cluster_id:
        raise InconsistentClusterIdException(
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}"
        )
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and context.sessions.is_valid(existing.id, existing.epoch, context.now_ms)
    ):
        raise DuplicateBrokerRegistrationException(
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegisteredException("Controller does not support registering ZK brokers.")
    _check_directories(image, request)
    _check_features(image, request)


def _check_directories(image: MetadataImage, request: br.BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise InvalidRegistrationException("No directories specified in request")
    if any(directory is None or directory.int < FIRST_DIRECTORY_ID for directory in directories):
        raise InvalidRegistrationException("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise InvalidRegistrationException("Duplicate directory ID in request")
    for broker in image.brokers.values():
        if broker.id == request.broker_id:
            continue
        for directory in directories:
            if directory in broker.directories:
                raise InvalidRegistrationException(
                    f"Broker {broker.id} is already registered with directory {directory}"
                )


def _check_features(image: MetadataImage, request: br.BrokerRegistrationRequest) -> None:
    """Raises KafkaError unless the broker supports every finalized feature level of the cluster."""
    supported = {feature.name: feature for feature in request.features}
    if METADATA_VERSION not in supported:
        raise InvalidRegistrationException(
            f"Request features do not contain '{METADATA_VERSION}'; a broker must say which levels it supports"
        )
    for name, level in image.features.items():
        feature = supported.get(name)
        lowest, highest = (
            (0, 0) if feature is None else (feature.min_supported_version, feature.max_supported_version)
        )
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


def heartbeat(
    context: BrokerContext, request: hb.BrokerHeartbeatRequest
) -> Decision[hb.BrokerHeartbeatResponse]:
    """Moves the broker to the state that its heartbeat asks for, as soon as this state is safe.

    Raises KafkaError if the broker or its epoch is unknown.
    """
    broker = known_broker(context.image, request.broker_id, request.broker_epoch)
    context.sessions.touch(broker.id, broker.epoch, Offset(request.current_metadata_offset), context.now_ms)
    current = _state(broker)
    wanted = _next_state(context, broker, request)
    records: list[MetadataRecord] = []
    if wanted is not current:
        records += _transition(context, broker, wanted)
    records += _offline_directories(context, broker, request)
    if wanted is BrokerState.CONTROLLED_SHUTDOWN and records:
        last_offset = Offset(context.next_offset + len(records) - 1)
        context.sessions.begin_controlled_shutdown(broker.id, last_offset)
    response = hb.BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=wanted in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=wanted is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(tuple(records), response)


def known_broker(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The broker that a request names. Raises BrokerIdNotRegistered or StaleBrokerEpoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredException(f"Broker {broker_id} is not currently registered.")
    if broker.epoch != epoch:
        raise StaleBrokerEpochException(f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
    return broker


def _state(broker: BrokerRegistration) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerState.UNFENCED


def _next_state(
    context: BrokerContext, broker: BrokerRegistration, request: hb.BrokerHeartbeatRequest
) -> BrokerState:
    match _state(broker):
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= broker.epoch
            return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if request.want_shut_down:
                return (
                    BrokerState.CONTROLLED_SHUTDOWN if _leads(context, broker) else BrokerState.SHUTDOWN_NOW
                )
            return BrokerState.UNFENCED
        case _:
            if _leads(context, broker) or not context.sessions.may_shut_down(
                broker.id, context.image.brokers
            ):
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW


def _leads(context: BrokerContext, broker: BrokerRegistration) -> bool:
    leaderships = partitions_where(context.image, lambda partition: partition.leader == broker.id)
    return next(leaderships, None) is not None


def _transition(
    context: BrokerContext, broker: BrokerRegistration, wanted: BrokerState
) -> list[MetadataRecord]:
    match wanted:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            return _fence(context, broker)
        case BrokerState.UNFENCED:
            updates = PartitionUpdates(
                context.image, context.settings, _with(context, replace(broker, fenced=False))
            )
            updates.elect_leaderless()
            return [_change(broker, fenced=UNFENCE), *updates.records]
        case BrokerState.CONTROLLED_SHUTDOWN:
            leaving = replace(broker, in_controlled_shutdown=True)
            updates = PartitionUpdates(context.image, context.settings, _with(context, leaving))
            updates.remove_from_isr(broker.id)
            return [_change(broker, in_controlled_shutdown=1), *updates.records]


def _fence(context: BrokerContext, broker: BrokerRegistration) -> list[MetadataRecord]:
    updates = PartitionUpdates(context.image, context.settings, _with(context, replace(broker, fenced=True)))
    updates.remove_from_isr(broker.id)
    return [*updates.records, _change(broker, fenced=FENCE)]


def _with(context: BrokerContext, broker: BrokerRegistration) -> Mapping[int, BrokerRegistration]:
    return {**context.image.brokers, broker.id: broker}


def _change(
    broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def _offline_directories(
    context: BrokerContext, broker: BrokerRegistration, request: hb.BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    """Removes replicas in failed directories from the ISR. The broker's other directories stay in use (KIP-858)."""
    offline = frozenset(request.offline_log_dirs)
    online = tuple(directory for directory in broker.directories if directory not in offline)
    if len(online) == len(broker.directories):
        return []
    brokers = _with(context, replace(broker, fenced=False, directories=online))
    updates = PartitionUpdates(context.image, context.settings, brokers)
    for ref in partitions_where(context.image, lambda partition: broker.id in partition.replicas):
        if ref.partition.directory(broker.id) in offline and broker.id in ref.partition.isr:
            isr = tuple(replica for replica in ref.partition.isr if replica != broker.id)
            updates.change(ref, PartitionTarget(isr=isr))
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online)
    return [*updates.records, change]


# --- leaving


def fence_expired(context: BrokerContext, exempt: int | None) -> list[MetadataRecord]:
    """Fences one broker whose session has expired.

    A call fences only one broker, because each fencing moves leaderships.

    `exempt` is the broker in this process. It is never fenced, because it lives as long as the controller does.
    """
    for broker in context.sessions.expired(context.image.brokers, context.now_ms):
        if broker.id != exempt:
            return _fence(context, broker)
    return []


def unregister_broker(
    context: BrokerContext, request: ub.UnregisterBrokerRequest
) -> Decision[ub.UnregisterBrokerResponse]:
    broker = context.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredException(f"Broker ID {request.broker_id} is not currently registered")
    others = {key: other for key, other in context.image.brokers.items() if key != broker.id}
    updates = PartitionUpdates(context.image, context.settings, others)
    updates.remove_from_isr(broker.id)
    gone = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return Decision((*updates.records, gone), ub.UnregisterBrokerResponse(error_message=None))
