"""The rules of leader election and of the eligible leader replicas (ELR, KIP-966).

`partition_change` builds the record that changes one partition to its target. A replica is *acceptable* if its broker
is active and its directory is online. An acceptable replica is *valid* if it certainly has every committed record. It
has if it is in the ISR. While the ISR is empty, it has if it is in the ELR.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from kcli.metadata.delta import merge_partition_change
from kcli.metadata.image import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    LeaderRecoveryState,
    PartitionImage,
)
from kcli.model.ids import NO_LEADER, BrokerId
from kcli.protocol.records.metadata import NO_LEADER_CHANGE, PartitionChangeRecord


class Election(Enum):
    """The kind of election.

    ONLINE keeps the leader if the leader is valid. PREFERRED elects the first replica if this replica is valid. UNCLEAN
    elects any acceptable replica if there is no valid replica.
    """

    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """The cluster's settings for the elections of one topic.

    `acceptable(broker, directory)` returns whether a replica of this broker in this directory may lead.
    """

    acceptable: Callable[[BrokerId, uuid.UUID], bool]
    elr_enabled: bool
    min_insync_replicas: int
    unclean_allowed: bool = False


@dataclass(frozen=True, slots=True)
class _Elected:
    leader: BrokerId
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """The new values of a partition. None keeps the present value. Replicas in `uncleanly_stopped` leave the ELR."""

    isr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    adding: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None
    directories: tuple[uuid.UUID, ...] | None = None
    recovery_state: LeaderRecoveryState | None = None
    election: Election = Election.ONLINE
    uncleanly_stopped: tuple[BrokerId, ...] = ()


def partition_change(
    topic_id: uuid.UUID, partition_id: int, old: PartitionImage, target: PartitionTarget, rules: ElectionRules
) -> PartitionChangeRecord | None:
    """The record that changes `old` to `target`, with the newly elected leader. None if nothing changes."""
    replicas = old.replicas if target.replicas is None else target.replicas
    directories = old.directories if target.directories is None else target.directories
    adding = old.adding if target.adding is None else target.adding
    removing = old.removing if target.removing is None else target.removing
    isr = old.isr if target.isr is None else target.isr
    if _is_complete(replicas, isr, adding, removing):
        kept = [each for each in zip(replicas, directories, strict=True) if each[0] not in removing]
        replicas, directories = tuple(each[0] for each in kept), tuple(each[1] for each in kept)
        isr = _without(isr, removing)
        adding = removing = ()
    if not isr and not rules.elr_enabled:
        # If ELR is disabled, the last in-sync replica stays in the ISR even if its broker is dead.
        isr = old.isr
    elr = _eligible(old, isr, rules, target.uncleanly_stopped)
    elected = _elect(
        old, replicas, dict(zip(replicas, directories, strict=True)), isr, elr, target.election, rules
    )
    recovery = old.recovery_state if target.recovery_state is None else target.recovery_state
    if elected.unclean:
        isr, elr, recovery = (elected.leader,), (), LeaderRecoveryState.RECOVERING
    elif elected.leader != NO_LEADER and not isr:
        isr = (elected.leader,)
        elr = _without(elr, isr)
        if len(isr) >= _effective_min_isr(rules, replicas):
            elr = ()
    last_known = _last_known(old, elected, isr, rules, replicas)

    # A reassignment that shrinks the replica set needs a new leader epoch even with the same leader
    # (KAFKA-15021).
    leader = NO_LEADER_CHANGE
    if elected.leader != old.leader or not set(old.replicas) <= set(replicas):
        leader = elected.leader
    record = PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=_changed(isr, old.isr),
        leader=leader,
        replicas=_changed(replicas, old.replicas),
        removing_replicas=_changed(removing, old.removing),
        adding_replicas=_changed(adding, old.adding),
        leader_recovery_state=-1 if recovery is old.recovery_state else int(recovery),
        eligible_leader_replicas=_changed(elr, old.elr),
        last_known_elr=_changed(last_known, old.last_known_elr),
        # If a record changes the replicas, it must also contain their directories. Otherwise the directories would be
        # unknown.
        directories=_changed(directories, old.directories) if replicas == old.replicas else directories,
    )
    if leader == NO_LEADER_CHANGE and _same(merge_partition_change(old, record), old):
        return None
    return record


def _is_complete(
    replicas: Sequence[BrokerId],
    isr: Sequence[BrokerId],
    adding: Sequence[BrokerId],
    removing: Sequence[BrokerId],
) -> bool:
    """Whether a reassignment may end. Every added replica must be in the ISR. If fewer replicas are added than removed,
    every replica of the target must be in the ISR."""
    if not adding and not removing:
        return False
    target = set(replicas) - set(removing)
    in_sync = set(isr) - set(removing)
    if not in_sync or not set(adding) <= in_sync:
        return False
    return len(adding) >= len(removing) or target <= in_sync


def _same(merged: PartitionImage, old: PartitionImage) -> bool:
    return (
        merged.isr == old.isr
        and merged.replicas == old.replicas
        and merged.adding == old.adding
        and merged.removing == old.removing
        and merged.elr == old.elr
        and merged.last_known_elr == old.last_known_elr
        and merged.directories == old.directories
        and merged.recovery_state is old.recovery_state
    )


def _eligible(
    old: PartitionImage, isr: Sequence[BrokerId], rules: ElectionRules, uncleanly_stopped: Sequence[BrokerId]
) -> tuple[BrokerId, ...]:
    """The ELR for this `isr`. While the ISR is smaller than min.insync.replicas, replicas that leave the ISR join the
    ELR."""
    if not rules.elr_enabled:
        return old.elr
    if len(isr) >= _effective_min_isr(rules, old.replicas):
        return ()
    candidates = tuple(dict.fromkeys((*old.isr, *old.elr)))
    return _without(_without(candidates, isr), uncleanly_stopped)


def _effective_min_isr(rules: ElectionRules, replicas: Sequence[BrokerId]) -> int:
    return min(rules.min_insync_replicas, len(replicas))


def _elect(
    old: PartitionImage,
    replicas: Sequence[BrokerId],
    directories: Mapping[BrokerId, uuid.UUID],
    isr: Sequence[BrokerId],
    elr: Sequence[BrokerId],
    election: Election,
    rules: ElectionRules,
) -> _Elected:
    def acceptable(replica: BrokerId) -> bool:
        return replica in directories and rules.acceptable(replica, directories[replica])

    def valid(replica: BrokerId) -> bool:
        return acceptable(replica) and (replica in isr or (not isr and replica in elr))

    if election is Election.PREFERRED and valid(replicas[0]):
        return _Elected(replicas[0])
    if valid(old.leader):
        return _Elected(old.leader)
    for replica in replicas:
        if valid(replica):
            return _Elected(replica)
    if rules.elr_enabled and not isr and not elr and len(old.last_known_elr) == 1:
        (last_leader,) = old.last_known_elr
        if acceptable(last_leader):
            return _Elected(last_leader, unclean=True)
    if election is Election.UNCLEAN or rules.unclean_allowed:
        for replica in replicas:
            if acceptable(replica):
                return _Elected(replica, unclean=True)
    return _Elected(NO_LEADER)


def _last_known(
    old: PartitionImage,
    elected: _Elected,
    isr: Sequence[BrokerId],
    rules: ElectionRules,
    replicas: Sequence[BrokerId],
) -> tuple[BrokerId, ...]:
    """The last leader of a partition that has no leader now. If both ISR and ELR are empty, this broker may be
    elected."""
    if not rules.elr_enabled:
        return old.last_known_elr
    if len(isr) >= _effective_min_isr(rules, replicas):
        return ()
    if elected.leader == NO_LEADER and old.leader != NO_LEADER:
        return (old.leader,)
    return old.last_known_elr


def _without(values: Sequence[BrokerId], removed: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
    return tuple(value for value in values if value not in removed)


def _changed(new: tuple, old: tuple) -> tuple | None:  # type: ignore[type-arg]  # of ids or of directories
    return None if new == old else new


def may_lead(brokers: Mapping[int, BrokerRegistration]) -> Callable[[BrokerId, uuid.UUID], bool]:
    """The rule for `ElectionRules.acceptable`: the broker is active and the replica's directory is online (KIP-858)."""

    def acceptable(broker_id: BrokerId, directory: uuid.UUID) -> bool:
        broker = brokers.get(broker_id)
        return broker is not None and broker.active and directory_online(broker, directory)

    return acceptable


def directory_online(broker: BrokerRegistration, directory: uuid.UUID) -> bool:
    """Whether a directory counts as online. A directory that the broker has not chosen yet counts as online.

    Any directory of a broker that registered no list of directories also counts as online.
    """
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or not broker.directories:
        return True
    return directory in broker.directories
