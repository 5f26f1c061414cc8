"""Properties of lag: Burrow's verdict is kept except for idle groups and groups with rare commits, and these groups do
not change their state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.lag.burrow import Status, judge
from kcli.lag.patience import owed_ms, patience_ms, withheld
from kcli.lag.tracker import LagTracker
from kcli.lag.window import Commit
from kcli.model.topic_partition import TopicPartition
from rigs.examples import examples

PARTITION = TopicPartition("orders", 0)
SAMPLE_MS = 10_000
FIRST_PATIENCE_MS = 300_000

numbers = st.integers(0, 30)
commit_lists = st.lists(
    st.tuples(st.integers(0, 20_000), numbers, st.none() | numbers, st.none() | st.integers(0, 40_000)),
    max_size=10,
).map(lambda rows: _commits(rows))


def _commits(rows: list[tuple[int, int, int | None, int | None]]) -> list[Commit]:
    time_ms, made = 0, []
    for step_ms, offset, lag, pause_ms in rows:
        time_ms += step_ms
        made.append(Commit(time_ms, offset, lag, pause_ms))
    return made


def burrow_by_the_book(commits: list[Commit], now_ms: int, lag: int, ends: list[int]) -> Status:
    """Burrow's rules again, written as its description says."""
    if not commits or lag <= 0:
        return Status.OK
    offsets = [commit.offset for commit in commits]
    lags = [commit.lag for commit in commits if commit.lag is not None]
    silence_ms = now_ms - commits[-1].time_ms
    if silence_ms > commits[-1].time_ms - commits[0].time_ms and not [
        end for end in ends if end <= offsets[-1]
    ]:
        return Status.STOP
    for at in range(1, len(offsets)):
        if offsets[at] < offsets[at - 1] and max(offsets[at:]) < offsets[at - 1]:
            return Status.REWIND
    if 0 in lags:
        return Status.OK
    if len(set(offsets)) == 1:
        return Status.STALL
    return Status.WARN if lags == sorted(lags) else Status.OK


@given(commit_lists, st.integers(0, 300_000), numbers, st.lists(st.integers(0, 60), max_size=10))
def test_the_rules_are_those_of_burrow(
    commits: list[Commit], silence_ms: int, lag: int, ends: list[int]
) -> None:
    now_ms = (commits[-1].time_ms if commits else 0) + silence_ms
    found = judge(commits, now_ms, current_lag=lag, recent_ends=ends)
    assert found is burrow_by_the_book(commits, now_ms, lag, ends)


@given(
    commit_lists.filter(bool),
    st.integers(0, 300_000),
    st.sampled_from(Status),
    st.none() | st.integers(0, 200_000),
)
def test_a_verdict_is_kept_or_becomes_ok(
    commits: list[Commit], silence_ms: int, verdict: Status, arrival_ms: int | None
) -> None:
    """A verdict becomes OK only if the commit is not late yet."""
    now_ms = commits[-1].time_ms + silence_ms
    found = withheld(verdict, commits, now_ms, arrival_ms=arrival_ms, first_patience_ms=60_000)
    is_late = owed_ms(verdict, commits, now_ms, arrival_ms) > patience_ms(commits, 60_000)
    if verdict in (Status.OK, Status.REWIND) or is_late:
        assert found is verdict
    else:
        assert found is Status.OK


class World:
    """A partition and a group, sampled as a broker does it."""

    def __init__(self) -> None:
        self.tracker = LagTracker(first_patience_ms=FIRST_PATIENCE_MS)
        self.end = 0
        self.committed = (0, 0)
        self.statuses: list[Status] = []

    def sample(self, now_ms: int) -> None:
        self.tracker.see_end(PARTITION, now_ms, self.end)
        self.tracker.see_commit("g", PARTITION, *self.committed)
        found = self.tracker.lag_of("g", PARTITION, now_ms)
        assert found is not None
        self.statuses.append(found.status)


@given(
    st.lists(st.tuples(st.integers(20, 200), st.integers(1, 50)), min_size=1, max_size=8),
    st.integers(1, 9),
)
def test_an_idle_group_stays_ok(bursts: list[tuple[int, int]], delay_s: int) -> None:
    """Records come after pauses of seconds to hours, and each burst is committed seconds later."""
    world, now_s = World(), 0
    for steps, records in bursts:
        for _ in range(steps):
            world.sample(now_s * 1000)
            now_s += 10
        world.end += records
        world.sample(now_s * 1000 + delay_s * 500)
        world.committed = (now_s * 1000 + delay_s * 1000, world.end)
        now_s += 10
    world.sample(now_s * 1000)
    assert set(world.statuses) == {Status.OK}


@given(
    st.integers(60, 1800),
    st.integers(1, 20),
    st.lists(st.floats(0.75, 1.25), min_size=4, max_size=6),
    st.integers(0, 50),
)
def test_a_group_with_rare_commits_stays_ok(
    pause_s: int, per_second: int, jitter: list[float], behind: int
) -> None:
    """A batch job commits once in minutes to an hour, up to the end at its start, while records arrive evenly. After
    the first two commits its state is OK all the time."""
    world, now_s = World(), 0
    world.sample(0)
    for run, share in enumerate(jitter):
        until_s = now_s + int(pause_s * share)
        while now_s < until_s:
            now_s += 10
            world.end += 10 * per_second
            world.sample(now_s * 1000)
        world.committed = (now_s * 1000, max(world.end - behind * run % 7, world.committed[1]))
        if run == 1:
            world.statuses.clear()
    assert set(world.statuses) <= {Status.OK}


@given(st.integers(1, 20), st.integers(20, 60), st.integers(1, 100))
def test_a_dead_member_is_found_and_stays_found(commit_s: int, commits: int, per_second: int) -> None:
    """Records arrive evenly. A member commits for some time and then no more."""
    world = World()
    death_s = commit_s * commits
    for now_s in range(0, death_s + 1800, 10):
        world.end = now_s * per_second
        alive_s = min(now_s, death_s) // commit_s * commit_s
        world.committed = (alive_s * 1000, alive_s * per_second)
        world.sample(now_s * 1000)
    first = world.statuses.index(Status.STOP)
    assert set(world.statuses[:first]) <= {Status.OK}
    assert set(world.statuses[first:]) == {Status.STOP}
    assert first * SAMPLE_MS - death_s * 1000 <= 12 * max(commit_s * 1000, SAMPLE_MS) + FIRST_PATIENCE_MS


@settings(max_examples=examples(20))
@given(st.lists(st.tuples(st.integers(200, 1000), st.integers(1, 9)), min_size=2, max_size=9))
def test_the_death_of_a_member_of_an_idle_group_is_found_soon(bursts: list[tuple[int, int]]) -> None:
    """A record comes after each long time and is committed seconds later. Then the member dies, and records come."""
    world, now_s = World(), 0
    for steps, delay_s in bursts:
        for _ in range(steps):
            now_s += 10
            world.sample(now_s * 1000)
        world.end += 1
        world.committed = (now_s * 1000 + delay_s * 1000, world.end)
    for _ in range(100):
        now_s += 10
        world.sample(now_s * 1000)
    assert set(world.statuses) == {Status.OK}
    world.statuses.clear()
    for _ in range(60):
        now_s += 10
        world.end += 1
        world.sample(now_s * 1000)
    assert world.statuses.index(Status.STOP) * SAMPLE_MS <= FIRST_PATIENCE_MS + SAMPLE_MS


@given(st.integers(1, 100), st.integers(20, 100))
def test_a_member_that_falls_behind_is_found(per_second: int, samples: int) -> None:
    """A member commits each 10 s, but reads only half of the records."""
    world = World()
    for step in range(samples):
        world.end = step * 20 * per_second
        world.committed = (step * SAMPLE_MS, step * 10 * per_second)
        world.sample(step * SAMPLE_MS)
    assert world.statuses[-1] is Status.WARN


@settings(max_examples=examples(20))
@given(st.integers(360, 1000), st.integers(12, 40))
def test_a_second_death_after_an_outage_is_found_as_soon_as_the_first(outage: int, alive: int) -> None:
    """A member commits each 10 s, is dead for some time, commits again at least a window of commits, and dies."""
    world, step, committed_step = World(), 0, 0
    for samples, commits in ((40, True), (outage, False), (alive, True), (60, False)):
        world.statuses.clear()
        for _ in range(samples):
            step += 1
            world.end = step * 10
            committed_step = step if commits else committed_step
            world.committed = (committed_step * SAMPLE_MS, committed_step * 10)
            world.sample(step * SAMPLE_MS)
    assert world.statuses.index(Status.STOP) * SAMPLE_MS <= FIRST_PATIENCE_MS


@given(st.lists(st.integers(0, 10_000_000), max_size=10), st.integers(0, 600_000))
def test_a_single_long_pause_does_not_make_the_patience_long(pauses: list[int], first_ms: int) -> None:
    found = patience_ms([Commit(0, 0, None, pause) for pause in pauses], first_ms)
    if len(pauses) < 2:
        assert found == (2 * pauses[0] if pauses else first_ms)
        return
    assert found <= 2 * max(pauses)
    assert found <= max(2 * sorted(pauses)[-2], first_ms)
    assert found >= 2 * sorted(pauses)[-2]
