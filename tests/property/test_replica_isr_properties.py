"""Any history of a leader, its followers and the controller.

The controller keeps the ISR, and the leader learns of a change late: by the answer, by the metadata, or by both in any
order. Followers copy the log late. After every step, each broker that the controller could elect has every record below
the high watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.model.ids import BrokerId
from kcli.replica.isr import IsrChange
from kcli.replica.leader import FollowerState, begin_term
from rigs.examples import examples

LAG_MS = 10
FOLLOWERS = (BrokerId(2), BrokerId(3))
LEADER = BrokerId(1)

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS)),
    st.tuples(st.just("copy"), st.sampled_from(FOLLOWERS), st.integers(1, 4)),
    st.tuples(st.just("wait"), st.integers(1, LAG_MS)),
    st.tuples(st.just("shrink")),
    st.tuples(st.just("decide")),
    st.tuples(st.just("answer")),
    st.tuples(st.just("metadata")),
    st.tuples(st.just("fence"), st.sampled_from(FOLLOWERS)),
    st.tuples(st.just("min"), st.integers(1, 3)),
)


@dataclass
class World:
    """The leader is broker 1. `ends` are the true log end offsets of the followers."""

    end: int = 0
    high_watermark: int = 0
    now_ms: int = 0
    ends: dict[BrokerId, int] = field(default_factory=lambda: dict.fromkeys(FOLLOWERS, 0))
    isr: tuple[BrokerId, ...] = (LEADER, *FOLLOWERS)
    partition_epoch: int = 0
    sent: tuple[IsrChange, int] | None = None
    """The change on the way to the controller, with the partition epoch of the leader."""
    answered: tuple[IsrChange, tuple[BrokerId, ...], int] | None = None
    history: list[tuple[tuple[BrokerId, ...], int]] = field(default_factory=list)
    """The states that the controller committed and that the leader has not read in the metadata."""

    def __post_init__(self) -> None:
        self.state = begin_term(
            node_id=LEADER,
            replicas=(LEADER, *FOLLOWERS),
            isr=self.isr,
            leader_epoch=0,
            partition_epoch=0,
            start_offset=0,
            min_insync_replicas=1,
        )
        self.followers = self.state.new_followers(0)

    def advance(self) -> None:
        state = self.state
        joining = state.joining(self.followers, lambda _id, each: each.has_fetched, self.now_ms, LAG_MS)
        after = state.high_watermark(self.high_watermark, self.end, self.followers, joining)
        assert self.high_watermark <= after <= self.end
        if after != self.high_watermark:
            assert state.isr.is_sufficient
            assert all(
                each == LEADER or self.followers[each].log_end_offset >= after for each in state.maximal_isr
            )
        self.high_watermark = after

    def propose(self) -> None:
        assert self.state.change is not None
        self.sent = self.state.change, self.state.partition_epoch

    def commit(self, isr: tuple[BrokerId, ...]) -> None:
        self.isr, self.partition_epoch = isr, self.partition_epoch + 1
        self.history.append((isr, self.partition_epoch))

    def learn(self, isr: tuple[BrokerId, ...], partition_epoch: int) -> None:
        self.state = self.state.with_partition(
            replicas=(LEADER, *FOLLOWERS), isr=isr, partition_epoch=partition_epoch
        )

    # Steps.

    def do_append(self, count: int) -> None:
        self.end += count

    def do_copy(self, replica: BrokerId, count: int) -> None:
        self.ends[replica] = min(self.ends[replica] + count, self.end)

    def do_fetch(self, replica: BrokerId) -> None:
        follower: FollowerState = self.followers[replica].fetched(
            log_start_offset=0,
            log_end_offset=self.ends[replica],
            broker_epoch=-1,
            leader_end_offset=self.end,
            now_ms=self.now_ms,
        )
        self.followers[replica] = follower
        if self.state.may_join(replica, follower, self.high_watermark):
            self.state = self.state.expanded(replica)
            self.propose()

    def do_wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    def do_shrink(self) -> None:
        laggards = self.state.laggards(self.followers, self.end, self.now_ms, LAG_MS)
        if laggards:
            self.state = self.state.reduced(laggards)
            self.propose()

    def do_decide(self) -> None:
        """The controller decides on the change that it got."""
        if self.sent is not None:
            change, partition_epoch = self.sent
            self.sent = None
            if partition_epoch == self.partition_epoch:
                self.commit(change.members)
                self.answered = change, self.isr, self.partition_epoch

    def do_answer(self) -> None:
        if self.answered is not None:
            change, isr, partition_epoch = self.answered
            self.answered = None
            if self.state.change is change and partition_epoch >= self.state.partition_epoch:
                self.learn(isr, partition_epoch)

    def do_metadata(self) -> None:
        if self.history:
            isr, partition_epoch = self.history.pop(0)
            if partition_epoch > self.state.partition_epoch:
                self.learn(isr, partition_epoch)

    def do_fence(self, replica: BrokerId) -> None:
        if replica in self.isr:
            self.commit(tuple(each for each in self.isr if each != replica))

    def do_min(self, count: int) -> None:
        self.state = self.state.with_min_insync_replicas(count)

    def check(self) -> None:
        electable = [each for each in self.isr if each != LEADER]
        assert all(self.ends[each] >= self.high_watermark for each in electable), self
        if self.partition_epoch == self.state.partition_epoch:
            assert set(self.isr) <= set(self.state.maximal_isr)


@settings(max_examples=examples(300))
@given(st.lists(STEPS, max_size=60))
def test_every_electable_broker_has_what_is_committed(steps: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, f"do_{name}")(*arguments)
        world.advance()
        world.check()


@settings(max_examples=examples(100))
@given(st.lists(STEPS, max_size=40))
def test_after_a_quiet_time_all_are_in_sync_and_everything_is_committed(steps: list[tuple[str, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, f"do_{name}")(*arguments)
        world.advance()
    world.do_min(1)
    for _ in range(8):
        for replica in FOLLOWERS:
            world.do_copy(replica, world.end)
            world.do_fetch(replica)
            world.do_decide()
            world.do_answer()
            while world.history:
                world.do_metadata()
            world.advance()
    assert world.high_watermark == world.end
    assert sorted(world.isr) == sorted(world.state.isr.members) == [1, 2, 3]
