"""Lag that is seen from outside, without the times of commits."""

from __future__ import annotations

from kcli.client.admin.groups import GroupDescription, GroupMember
from kcli.client.client import Node
from kcli.client.lag_watch import FIRST_PATIENCE_MS, LagWatch, is_known
from kcli.lag.burrow import Status
from kcli.lag.group_lag import GroupLag
from kcli.model.pace import at_once, no_pause
from kcli.model.topic_partition import TopicPartition

PARTITION = TopicPartition("orders", 3)


def group(*members: GroupMember) -> GroupDescription:
    return GroupDescription(
        group_id="g",
        type="Classic",
        state="Stable",
        protocol="consumer",
        assignor="range",
        coordinator=Node(1, "h", 9092),
        members=members,
    )


def member(member_id: str, client_id: str, *assignment: TopicPartition) -> GroupMember:
    return GroupMember(
        member_id=member_id, instance_id=None, client_id=client_id, host="/h", assignment=assignment
    )


def looked(
    watch: LagWatch,
    described: GroupDescription,
    committed: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    ages_s: dict[TopicPartition, float],
    now_ms: int,
) -> GroupLag:
    return at_once(watch.look(described, committed, ends, ages_s, no_pause, now_ms=now_ms))


class Story:
    """A group with one partition that is looked at each 2 s."""

    def __init__(self) -> None:
        self.watch = LagWatch()
        self.now_ms = 5_000_000

    def look(self, offset: int, end: int, age_s: float = 0.0) -> GroupLag:
        self.now_ms += 2000
        described = group(member("c-2-7f", "c-2", PARTITION))
        ages = {PARTITION: age_s} if end > offset else {}
        return looked(self.watch, described, {PARTITION: offset}, {PARTITION: end}, ages, self.now_ms)


def test_the_first_look_knows_no_state_of_a_group_with_lag() -> None:
    found = Story().look(10, 50, age_s=9000).partitions[PARTITION]
    assert (found.lag, found.lag_seconds) == (40, 9000)
    assert not is_known(found)


def test_a_group_without_lag_is_known_at_once() -> None:
    assert is_known(Story().look(50, 50).partitions[PARTITION])


def test_a_member_that_commits_nothing_is_found_and_named() -> None:
    story = Story()
    for offset in range(0, 50, 5):
        found = story.look(offset, offset + 30, age_s=3)
    assert found.status is Status.OK
    for step in range(240 // 2):
        found = story.look(45, 80 + step, age_s=20 + 2 * step)
    assert found.status is Status.STOP
    assert found.sentence(PARTITION) == "member c-2 on host h has committed nothing for 4 min on orders-3"
    assert found.explanation() == found.sentence(PARTITION)


def test_a_group_that_never_commits_is_found_after_a_minute() -> None:
    story = Story()
    steps = FIRST_PATIENCE_MS // 2000
    states = [story.look(0, 10, age_s=3600 + 2 * step).status for step in range(steps + 5)]
    assert set(states[: steps + 1]) == {Status.OK}
    assert set(states[steps + 2 :]) == {Status.STOP}


def test_a_group_that_falls_behind_has_no_time_to_catch_up() -> None:
    story = Story()
    for step in range(12):
        found = story.look(10 * step, 100 + 30 * step, age_s=60 + step)
    partition = found.partitions[PARTITION]
    assert (partition.status, partition.catch_up_seconds) == (Status.WARN, None)


def test_a_group_that_gains_has_a_time_to_catch_up() -> None:
    story = Story()
    for step in range(12):
        found = story.look(20 * step, 1000 + 10 * step, age_s=60)
    seconds = found.partitions[PARTITION].catch_up_seconds
    assert found.partitions[PARTITION].lag == 890
    assert seconds is not None and 150 < seconds < 210, "890 records at 5 records a second"


def test_members_with_the_same_client_id_have_their_member_ids() -> None:
    other = TopicPartition("orders", 4)
    described = group(member("a-1", "a", PARTITION), member("a-2", "a", other), member("b-1", "b"))
    found = looked(LagWatch(), described, {PARTITION: 1, other: 1}, {}, {}, 0)
    assert {each: reader.name for each, reader in found.readers.items()} == {PARTITION: "a-1", other: "a-2"}
    assert (found.members, found.idle_members) == (3, 1)
    assert (found.topics["orders"].members, found.topics["orders"].assigned_partitions) == (2, 2)


def test_a_forgotten_group_begins_again() -> None:
    story = Story()
    story.look(0, 10)
    story.look(5, 10)
    story.watch.forget(["g"])
    assert story.look(5, 10).partitions[PARTITION].commits == 1


def test_a_lag_is_unknown_as_soon_as_the_end_of_the_partition_is_unknown() -> None:
    story = Story()
    story.look(10, 50)
    described = group(member("c-2-7f", "c-2", PARTITION))
    found = looked(story.watch, described, {PARTITION: 10}, {}, {}, story.now_ms + 2000)
    assert found.partitions[PARTITION].lag is None
    assert (found.is_unknown, found.unknown_partitions) == (True, 1)
