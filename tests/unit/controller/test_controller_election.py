"""Leader election and the eligible leader replicas, rule by rule (KIP-966)."""

from __future__ import annotations

import uuid
from typing import Any

from kcli.controller.election import (
    Election,
    ElectionRules,
    PartitionTarget,
    directory_online,
    may_lead,
    partition_change,
)
from kcli.metadata.delta import merge_partition_change
from kcli.metadata.image import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    LeaderRecoveryState,
    PartitionImage,
)

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
    unclean: bool = False,
) -> PartitionImage:
    rules = ElectionRules(
        acceptable=lambda broker, _directory: broker in alive,
        elr_enabled=elr,
        min_insync_replicas=min_isr,
        unclean_allowed=unclean,
    )
    record = partition_change(TOPIC_ID, 0, old, target, rules)
    return None if record is None else merge_partition_change(old, record)


def test_what_changes_nothing_writes_nothing() -> None:
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


def test_min_isr_counts_no_more_replicas_than_there_are() -> None:
    assert after(partition(replicas=(1,)), PartitionTarget(isr=(1,)), min_isr=2) is None


def test_a_replica_that_stopped_uncleanly_is_not_eligible() -> None:
    target = PartitionTarget(isr=(1,), uncleanly_stopped=(2,))
    assert after(partition(), target, min_isr=2).elr == (3,)


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


def test_who_may_lead() -> None:
    home = uuid.UUID(int=500)
    assert may_lead({1: broker()})(1, home)
    assert not may_lead({1: broker()})(2, home)
    assert not may_lead({1: broker(fenced=True)})(1, home)
    assert not may_lead({1: broker(in_controlled_shutdown=True)})(1, home)
    assert not may_lead({1: broker()})(1, LOST_DIRECTORY)


def test_directories_online() -> None:
    assert directory_online(broker(), UNASSIGNED_DIRECTORY)
    assert directory_online(broker(), MIGRATING_DIRECTORY)
    assert not directory_online(broker(), uuid.UUID(int=501))
    assert directory_online(broker(directories=()), uuid.UUID(int=501))
