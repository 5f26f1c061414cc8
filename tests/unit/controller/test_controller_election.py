"""Leader election and the eligible leader replicas, rule by rule (KIP-966)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from kcli.controller.election import (
    Election,
    ElectionRules,
    PartitionTarget,
    directory_online,
    may_lead,
    partition_change,
)
from kcli.controller.leadership import election_rules
from kcli.metadata.delta import merge_partition_change
from kcli.metadata.image import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    LeaderRecoveryState,
    PartitionImage,
)
from rigs.controller import ControllerRig

TOPIC_ID = uuid.UUID(int=777)


def partition(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    leader: int = 1,
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    **more: Any,
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=leader,
        leader_epoch=4,
        partition_epoch=9,
        directories=(UNASSIGNED_DIRECTORY,) * len(replicas),
        elr=elr,
        last_known_elr=last_known,
        **more,
    )


def after(
    old: PartitionImage,
    target: PartitionTarget,
    alive: tuple[int, ...] = (1, 2, 3),
    *,
    elr: bool = True,
    min_isr: int = 1,
    **rules: Any,
) -> PartitionImage:
    record = partition_change(
        TOPIC_ID,
        0,
        old,
        target,
        ElectionRules(
            acceptable=lambda broker, _directory: broker in alive,
            elr_enabled=elr,
            min_insync_replicas=min_isr,
            **rules,
        ),
    )
    return None if record is None else merge_partition_change(old, record)


def test_a_target_without_a_change_writes_no_record() -> None:
    assert after(partition(), PartitionTarget(isr=(1, 2, 3))) is None
    assert after(partition(), PartitionTarget(election=Election.PREFERRED)) is None


def test_the_leader_stays_while_it_can() -> None:
    new = after(partition(leader=2), PartitionTarget(isr=(2, 3)))
    assert (new.leader, new.leader_epoch, new.partition_epoch, new.isr) == (2, 4, 10, (2, 3))


def test_the_next_in_sync_replica_leads_in_the_order_of_the_assignment() -> None:
    new = after(partition(replicas=(1, 3, 2)), PartitionTarget(isr=(2, 3)), alive=(2, 3))
    assert (new.leader, new.leader_epoch) == (3, 5)


def test_the_preferred_replica_takes_the_lead_only_when_asked() -> None:
    old = partition(leader=2)
    assert after(old, PartitionTarget()) is None
    assert after(old, PartitionTarget(election=Election.PREFERRED)).leader == 1
    assert after(partition(leader=2, isr=(2, 3)), PartitionTarget(election=Election.PREFERRED)) is None


def test_the_elr_keeps_what_left_a_too_small_isr() -> None:
    new = after(partition(), PartitionTarget(isr=(1,)), min_isr=2)
    assert (new.isr, new.elr) == ((1,), (2, 3))
    grown = after(new, PartitionTarget(isr=(1, 2)), min_isr=2)
    assert (grown.isr, grown.elr) == ((1, 2), ())


def test_min_isr_counts_no_more_replicas_than_the_first_partition_has() -> None:
    rig = ControllerRig()
    rig.add_brokers(1, 2, 3)
    rig.create("t", assignments={0: [1, 2]}, configs={"min.insync.replicas": "3"})
    rules = election_rules(rig.image, rig.settings, rig.image.topics.topic("t"))
    assert rules.min_insync_replicas == 2


def test_a_replica_that_stopped_uncleanly_is_not_eligible() -> None:
    target = PartitionTarget(isr=(1,), uncleanly_stopped=(2,))
    assert after(partition(), target, min_isr=2).elr == (3,)


def test_a_removed_replica_is_not_eligible() -> None:
    old = partition(replicas=(1, 2, 3), isr=(1, 3), elr=(2,))
    assert after(old, PartitionTarget(replicas=(1, 2), isr=(1,)), min_isr=2).elr == (2,)
    assert after(old, PartitionTarget(replicas=(1, 3), isr=(1,)), min_isr=2).elr == (3,)


def test_an_eligible_replica_leads_cleanly_when_the_isr_is_empty() -> None:
    old = partition(isr=(), leader=-1, elr=(2, 3), last_known=(1,))
    new = after(old, PartitionTarget(), alive=(3,), min_isr=2)
    assert (new.leader, new.isr, new.elr) == (3, (3,), (2,))
    assert new.recovery_state is LeaderRecoveryState.RECOVERED


def test_the_last_known_leader_leads_uncleanly_if_no_replica_is_eligible() -> None:
    old = partition(isr=(), leader=-1, elr=(), last_known=(2,))
    assert after(old, PartitionTarget(), alive=(1, 3)) is None
    new = after(old, PartitionTarget(), alive=(1, 2, 3))
    assert (new.leader, new.isr, new.elr, new.last_known_elr) == (2, (2,), (), ())
    assert new.recovery_state is LeaderRecoveryState.RECOVERING


def test_losing_the_leader_remembers_it() -> None:
    new = after(partition(replicas=(1,)), PartitionTarget(isr=()), alive=())
    assert (new.leader, new.isr, new.elr, new.last_known_elr) == (-1, (), (1,), (1,))


def test_unclean_election_takes_any_live_replica() -> None:
    old = partition(isr=(1,), leader=-1)
    new = after(old, PartitionTarget(election=Election.UNCLEAN), alive=(3,), elr=False)
    assert (new.leader, new.isr) == (3, (3,))
    assert new.recovery_state is LeaderRecoveryState.RECOVERING


def test_without_elr_the_isr_never_becomes_empty() -> None:
    new = after(partition(isr=(1,)), PartitionTarget(isr=()), alive=(), elr=False)
    assert (new.leader, new.isr) == (-1, (1,))


def test_a_smaller_replica_set_begins_a_leader_epoch() -> None:
    new = after(partition(), PartitionTarget(replicas=(1, 2), isr=(1, 2)))
    assert (new.leader, new.leader_epoch, new.replicas) == (1, 5, (1, 2))


def test_a_leader_says_that_it_recovered() -> None:
    old = partition(recovery_state=LeaderRecoveryState.RECOVERING)
    new = after(old, PartitionTarget(recovery_state=LeaderRecoveryState.RECOVERED))
    assert (new.recovery_state, new.leader_epoch) == (LeaderRecoveryState.RECOVERED, 4)


A, B = uuid.UUID(int=500), uuid.UUID(int=600)
LAST_ONE_LEFT = partition(isr=(1,))
NO_ONE_LEFT = partition(isr=(), leader=-1, elr=(2, 3))
ELECT = PartitionTarget()
PREFER = PartitionTarget(election=Election.PREFERRED)
FORCE = PartitionTarget(election=Election.UNCLEAN)


@pytest.mark.parametrize(
    ("old", "target", "alive", "options", "leader", "isr", "elr", "last_known"),
    [
        # ELR on. The ISR may become empty: its last member joins the ELR, and the last leader is remembered.
        (LAST_ONE_LEFT, PartitionTarget(isr=()), (2, 3), {}, -1, (), (1,), (1,)),
        # Replicas that left earlier stay in the ELR, and one of them leads without any loss.
        (partition(isr=(1,), elr=(3,)), PartitionTarget(isr=()), (2, 3), {}, 3, (3,), (1,), ()),
        # The ELR is not cleared by such an election, even if one replica is enough.
        (NO_ONE_LEFT, ELECT, (3,), {"min_isr": 1}, 3, (3,), (2,), ()),
        # A large enough ISR clears ELR and last-known leader.
        (
            partition(isr=(1,), elr=(2,), last_known=(3,)),
            PartitionTarget(isr=(1, 2)),
            (1, 2, 3),
            {"min_isr": 2},
            1,
            (1, 2),
            (),
            (),
        ),
        # An unclean stop removes the replica from both lists. The last leader is remembered once.
        (LAST_ONE_LEFT, PartitionTarget(isr=(), uncleanly_stopped=(1,)), (2,), {}, -1, (), (), (1,)),
        (
            partition(isr=(), leader=-1, elr=(2,), last_known=(1,)),
            PartitionTarget(uncleanly_stopped=(2,)),
            (3,),
            {},
            -1,
            (),
            (),
            (1,),
        ),
        # The preferred election elects as the others do, but it is never unclean.
        (partition(leader=2), PREFER, (1, 2, 3), {}, 1, (1, 2, 3), (), ()),
        (partition(isr=(2, 3), leader=2), PREFER, (1, 3), {}, 3, (2, 3), (), ()),
        (partition(isr=(2,), leader=2), PREFER, (1, 3), {}, -1, (2,), (), ()),
        (partition(isr=(2,), leader=2), FORCE, (1, 3), {}, 1, (1,), (), ()),
        # ELR off: the last member of the ISR stays in it, and a left-over ELR is dropped.
        (LAST_ONE_LEFT, PartitionTarget(isr=()), (2, 3), {"elr": False}, -1, (1,), (), ()),
        (partition(elr=(2,), isr=(1, 3)), PartitionTarget(isr=(1,)), (1,), {"elr": False}, 1, (1,), (), ()),
    ],
)
def test_the_table_of_elections(
    old: PartitionImage,
    target: PartitionTarget,
    alive: tuple[int, ...],
    options: dict[str, Any],
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    last_known: tuple[int, ...],
) -> None:
    new = after(old, target, alive, **options)
    assert (new.leader, new.isr, new.elr, new.last_known_elr) == (leader, isr, elr, last_known)
    assert new.leader_epoch == old.leader_epoch + (leader != old.leader)
    is_unclean = leader >= 0 and leader not in (*old.isr, *old.elr)
    assert (new.recovery_state is LeaderRecoveryState.RECOVERING) == is_unclean


def test_an_eligible_replica_leads_only_while_the_isr_is_empty() -> None:
    assert after(partition(isr=(1,), elr=(2,)), PartitionTarget(isr=(1,)), alive=(2,), min_isr=2).leader == -1


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "isr", "ends_with"),
    [
        ((3, 1, 2), (3,), (1,), (1, 2, 3), ((3, 2), (2, 3))),
        # Every replica that stays must be in the ISR, and not only the added ones.
        ((3, 1, 2), (3,), (1,), (1, 3), None),
        ((3, 1, 2), (3,), (1, 2), (1, 3), ((3,), (3,))),
        ((1, 2), (), (2,), (2,), None),
        ((1, 2), (), (2,), (1, 2), ((1,), (1,))),
        ((1, 2, 3), (3,), (), (1, 3), None),
        ((1, 2, 3), (3,), (), (3, 1, 2), ((1, 2, 3), (3, 1, 2))),
        ((1, 2), (), (1, 2), (1, 2), None),
    ],
)
def test_the_table_of_reassignments_that_end(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    isr: tuple[int, ...],
    ends_with: tuple[Any, Any] | None,
) -> None:
    old = partition(replicas=replicas, isr=isr[:1], leader=isr[0], adding=adding, removing=removing)
    new = after(old, PartitionTarget(isr=isr))
    if ends_with is None:
        still = old if new is None else new
        assert (still.replicas, still.adding, still.removing) == (replicas, adding, removing)
        return
    assert (new.replicas, new.isr) == ends_with
    assert (new.adding, new.removing) == ((), ())
    assert new.leader_epoch == old.leader_epoch + bool(removing)
    assert len(new.directories) == len(new.replicas)


@pytest.mark.parametrize(("shrink_begins_epoch", "epoch"), [(True, 5), (False, 4)])
def test_a_smaller_isr_begins_an_epoch_only_before_3_6(shrink_begins_epoch: bool, epoch: int) -> None:
    shrunk = after(partition(), PartitionTarget(isr=(1, 2)), shrink_begins_epoch=shrink_begins_epoch)
    assert (shrunk.leader, shrunk.leader_epoch) == (1, epoch)
    grown = after(partition(isr=(1,)), PartitionTarget(isr=(1, 2)), shrink_begins_epoch=shrink_begins_epoch)
    assert grown.leader_epoch == 4


def test_directories_follow_their_replicas() -> None:
    old = replace(partition(), directories=(A, B, UNASSIGNED_DIRECTORY))
    rules: dict[str, Any] = {"new_directory": lambda broker: uuid.UUID(int=broker * 1000)}
    moved = after(old, PartitionTarget(replicas=(4, 2, 1, 3), adding=(4,)), **rules)
    assert moved.directories == (uuid.UUID(int=4000), B, A, UNASSIGNED_DIRECTORY)
    assert after(old, PartitionTarget(directories={3: B}), **rules).directories == (A, B, B)
    assert after(old, PartitionTarget(directories={2: B}), **rules) is None


@pytest.mark.parametrize(("level", "shrinks"), [(11, True), (12, False), (17, False)])
def test_the_rules_follow_the_metadata_version(level: int, shrinks: bool) -> None:
    rig = ControllerRig({"metadata.version": level})
    rig.add_brokers(1, 2)
    rig.create("t", assignments={0: [1, 2]})
    rules = election_rules(rig.image, rig.settings, rig.image.topics.topic("t"))
    assert rules.shrink_begins_epoch is shrinks
    has_directories = level >= 17
    assert (rules.new_directory is not None) is has_directories
    home = uuid.UUID(int=10_000) if has_directories else MIGRATING_DIRECTORY
    assert rig.partition("t").directory(1) == home
    assert rig.image.brokers[1].directories == ((home,) if has_directories else ())


def broker(**changes: Any) -> BrokerRegistration:
    fields = {
        "id": 1,
        "epoch": 5,
        "incarnation_id": uuid.UUID(int=9),
        "endpoints": {},
        "features": {},
        "fenced": False,
        "directories": (uuid.UUID(int=500),),
    }
    return BrokerRegistration(**{**fields, **changes})


def test_only_an_active_broker_with_its_directory_may_lead() -> None:
    home = uuid.UUID(int=500)
    assert may_lead({1: broker()})(1, home)
    assert not may_lead({1: broker()})(2, home)
    assert not may_lead({1: broker(fenced=True)})(1, home)
    assert not may_lead({1: broker(in_controlled_shutdown=True)})(1, home)
    assert not may_lead({1: broker()})(1, LOST_DIRECTORY)


def test_a_directory_is_online_if_the_broker_lists_it() -> None:
    assert directory_online(broker(), UNASSIGNED_DIRECTORY)
    assert directory_online(broker(), MIGRATING_DIRECTORY)
    assert not directory_online(broker(), uuid.UUID(int=501))
    assert directory_online(broker(directories=()), uuid.UUID(int=501))
