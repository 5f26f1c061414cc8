"""The rules of leader election and of the eligible leader replicas (ELR, KIP-966).

`partition_change` builds the record that changes one partition to its target. A replica is *acceptable* if its broker
is active and its directory is online. An acceptable replica is *valid* if it certainly has every committed record. Such
a replica is in the ISR or, if the ISR is empty, in the ELR.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

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
    `new_directory(broker)` is the directory of a new replica. This directory is None if records have no directories.
    `shrink_begins_epoch`: a smaller ISR begins a new leader epoch.
    """

    acceptable: Callable[[BrokerId, uuid.UUID], bool]
    elr_enabled: bool
    min_insync_replicas: int
    unclean_allowed: bool = False
    shrink_begins_epoch: bool = False
    new_directory: Callable[[BrokerId], uuid.UUID] | None = None

    @property
    def election(self) -> Election:
        """The kind of election that keeps a partition of the topic online."""
        return Election.UNCLEAN if self.unclean_allowed else Election.ONLINE


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """The new values of a partition. None keeps the present value. Replicas in `uncleanly_stopped` leave the ELR.
    `directories` has new directories of some replicas."""

    isr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    adding: tuple[BrokerId, ...] | None = None
    removing: tuple[BrokerId, ...] | None = None
    directories: Mapping[BrokerId, uuid.UUID] | None = None
    recovery_state: LeaderRecoveryState | None = None
    election: Election = Election.ONLINE
    uncleanly_stopped: tuple[BrokerId, ...] = ()


@dataclass(slots=True)
class _Draft:
    """The new values of a partition, while its record is built. `leader` is NO_LEADER_CHANGE if the record does not
    name a leader."""

    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    directories: tuple[uuid.UUID, ...]
    elr: tuple[BrokerId, ...]
    recovery_state: LeaderRecoveryState
    leader: BrokerId = NO_LEADER_CHANGE


def partition_change(
    topic_id: uuid.UUID, partition_id: int, old: PartitionImage, target: PartitionTarget, rules: ElectionRules
) -> PartitionChangeRecord | None:
    """The record that changes `old` to `target`. It names the leader if the leader or the leader epoch changes. None if
    nothing changes."""
    new = _draft(old, target, rules)
    new.elr = _eligible(old, new, rules, target.uncleanly_stopped)
    _elect(old, new, target.election, rules)
    # A reassignment that shrinks the replica set needs a new leader epoch even with the same leader (KAFKA-15021).
    if new.leader == NO_LEADER_CHANGE and _shrinks(old.replicas, new.replicas):
        new.leader = old.leader
    if not rules.elr_enabled:
        # If ELR is disabled, the last in-sync replica stays in the ISR even if its broker is dead.
        new.elr, new.isr = (), new.isr or old.isr
    if rules.shrink_begins_epoch and new.leader == NO_LEADER_CHANGE and _shrinks(old.isr, new.isr):
        new.leader = old.leader
    record = PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=_changed(new.isr, old.isr),
        leader=new.leader,
        replicas=_changed(new.replicas, old.replicas),
        removing_replicas=_changed(new.removing, old.removing),
        adding_replicas=_changed(new.adding, old.adding),
        leader_recovery_state=-1 if new.recovery_state is old.recovery_state else int(new.recovery_state),
        eligible_leader_replicas=_changed(new.elr, old.elr),
        last_known_elr=_changed(_last_known(old, new, rules), old.last_known_elr),
        directories=_changed_directories(old, new, rules),
    )
    return None if record == PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id) else record


def _draft(old: PartitionImage, target: PartitionTarget, rules: ElectionRules) -> _Draft:
    """Combines the target with the values that it does not change. If the target completes a reassignment, the result
    has the values of the partition after the reassignment."""
    replicas = old.replicas if target.replicas is None else target.replicas
    isr = old.isr if target.isr is None else target.isr
    adding = old.adding if target.adding is None else target.adding
    removing = old.removing if target.removing is None else target.removing
    if (adding or removing) and _is_complete(replicas, isr, removing):
        replicas, isr = _without(replicas, removing), _without(isr, removing)
        adding = removing = ()
    directories = old.directories
    if replicas != old.replicas or target.directories:
        known = {**dict(zip(old.replicas, old.directories, strict=True)), **(target.directories or {})}
        new_directory = rules.new_directory or _no_directory
        directories = tuple(
            known[replica] if replica in known else new_directory(replica) for replica in replicas
        )
    recovery_state = old.recovery_state if target.recovery_state is None else target.recovery_state
    return _Draft(replicas, isr, adding, removing, directories, old.elr, recovery_state)


def _no_directory(_replica: BrokerId) -> uuid.UUID:
    return MIGRATING_DIRECTORY


def _is_complete(replicas: Sequence[BrokerId], isr: Sequence[BrokerId], removing: Sequence[BrokerId]) -> bool:
    """Whether a reassignment may end: every replica that stays is in the ISR."""
    staying = _without(replicas, removing)
    return bool(staying) and set(staying) <= set(isr)


def _eligible(
    old: PartitionImage, new: _Draft, rules: ElectionRules, uncleanly_stopped: Sequence[BrokerId]
) -> tuple[BrokerId, ...]:
    """The ELR for the new ISR. While the ISR is smaller than min.insync.replicas, replicas that leave the ISR join the
    ELR.

    If a reassignment or its cancellation removes a replica, the replica also leaves the ELR. Kafka keeps the replica in
    the ELR. If the broker gets a replica of the partition again, the new log is empty, but Kafka may elect this replica
    as leader.
    """
    if not rules.elr_enabled:
        return old.elr
    if len(new.isr) >= rules.min_insync_replicas:
        return ()
    eligible = {*old.isr, *old.elr}.intersection(new.replicas)
    return _without(_without(sorted(eligible), new.isr), uncleanly_stopped)


def _elect(old: PartitionImage, new: _Draft, election: Election, rules: ElectionRules) -> None:
    """Changes the draft if another leader is elected, or if the partition loses its leader."""
    leader, unclean = _find_leader(old, new, election, rules)
    if leader == old.leader:
        return
    new.leader = leader
    if unclean:
        new.isr, new.elr, new.recovery_state = (leader,), (), LeaderRecoveryState.RECOVERING
    elif leader in new.elr:
        new.isr, new.elr = (leader,), _without(new.elr, (leader,))


def _find_leader(
    old: PartitionImage, new: _Draft, election: Election, rules: ElectionRules
) -> tuple[BrokerId, bool]:
    """The elected leader, or NO_LEADER, and whether the election is unclean."""
    directories = dict(zip(new.replicas, new.directories, strict=True))

    def acceptable(replica: BrokerId) -> bool:
        return replica in directories and rules.acceptable(replica, directories[replica])

    def valid(replica: BrokerId) -> bool:
        return (replica in new.isr or (not new.isr and replica in new.elr)) and acceptable(replica)

    if election is Election.PREFERRED and valid(new.replicas[0]):
        return new.replicas[0], False
    for replica in (old.leader, *new.replicas):
        if valid(replica):
            return replica, False
    if rules.elr_enabled and not new.isr and not new.elr and len(old.last_known_elr) == 1:
        (last_leader,) = old.last_known_elr
        if acceptable(last_leader):
            return last_leader, True
    if election is Election.UNCLEAN:
        for replica in new.replicas:
            if acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _last_known(old: PartitionImage, new: _Draft, rules: ElectionRules) -> tuple[BrokerId, ...]:
    """The last leader of the partition, if its ISR is empty. If its ELR is empty too, this broker may be elected."""
    if not rules.elr_enabled:
        return old.last_known_elr
    if old.isr and not new.isr and old.leader != NO_LEADER:
        return (old.leader,)
    if (old.leader if new.leader == NO_LEADER_CHANGE else new.leader) != NO_LEADER:
        return ()
    return old.last_known_elr


def _changed_directories(
    old: PartitionImage, new: _Draft, rules: ElectionRules
) -> tuple[uuid.UUID, ...] | None:
    if rules.new_directory is None:
        return None
    # If a record changes the replicas, it must also contain their directories. Otherwise the directories would be
    # unknown.
    return new.directories if new.replicas != old.replicas else _changed(new.directories, old.directories)


def _shrinks(old: Sequence[BrokerId], new: Sequence[BrokerId]) -> bool:
    """Whether a broker in the list `old` is missing in the list `new`."""
    return not set(old) <= set(new)


def _without(values: Iterable[BrokerId], removed: Sequence[BrokerId]) -> tuple[BrokerId, ...]:
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
