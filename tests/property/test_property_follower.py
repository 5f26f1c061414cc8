"""Followers of a model cluster: after any elections, appends and deletions, each log becomes the leader's log.

The model has three replicas. Any replica may become the leader, also one that lacks committed records (unclean).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kcli.errors import ErrorCode
from kcli.replica.follower import (
    Action,
    Answer,
    Append,
    AskEnd,
    AskStart,
    BackOff,
    Cut,
    Fail,
    FollowedState,
    Ignore,
    OwnLog,
    Restart,
    begin,
    on_answer,
    on_leader_end,
    on_leader_start,
)
from rigs.examples import examples

REPLICAS = 3
ROUNDS_MAX = 60
"""More fetches than any follower needs: each round appends a record, or drops an epoch."""


@dataclass
class ModelLog:
    """Records with their epochs, and the epochs with their start offsets. `records[n]` has the offset `start + n`."""

    start: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def begin_epoch(self, epoch: int, offset: int) -> None:
        if not self.epochs or self.epochs[-1][0] != epoch:
            kept = [each for each in self.epochs if each[0] < epoch and each[1] < offset]
            self.epochs = [*kept, (epoch, offset)]

    def append(self, record: tuple[int, int]) -> None:
        self.begin_epoch(record[0], self.end)
        self.records.append(record)

    def cut(self, offset: int) -> None:
        if offset < self.start:
            self.restart(offset)
            return
        del self.records[offset - self.start :]
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.high_watermark = min(self.high_watermark, offset)

    def restart(self, offset: int) -> None:
        self.start, self.records, self.epochs, self.high_watermark = offset, [], [], offset

    def raise_start(self, offset: int) -> None:
        if offset <= self.start:
            return
        del self.records[: offset - self.start]
        self.start = offset
        gone = [each for each in self.epochs if each[1] <= offset]
        if gone:
            self.epochs = [(gone[-1][0], offset), *self.epochs[len(gone) :]]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch < 0 or not self.epochs or epoch > self.epochs[-1][0]:
            return -1, -1
        following = [each[1] for each in self.epochs if each[0] > epoch]
        known = [each[0] for each in self.epochs if each[0] <= epoch]
        return (known[-1] if known else epoch), (following[0] if following else self.end)

    def own(self) -> OwnLog:
        latest = self.epochs[-1][0] if self.epochs else -1
        return OwnLog(self.start, self.end, self.high_watermark, latest, self.end_of_epoch)


class Cluster:
    def __init__(self) -> None:
        self.logs = [ModelLog() for _ in range(REPLICAS)]
        self.leader = 0
        self.epoch = 0
        self.values = 0
        self.states: list[FollowedState] = []
        self.elect(0)

    def elect(self, replica: int) -> None:
        self.leader, self.epoch = replica, self.epoch + 1
        log = self.logs[replica]
        log.begin_epoch(self.epoch, log.end)
        self.states = []
        for follower in self.logs:
            state, cut = begin(self.epoch, follower.own())
            if cut is not None:
                follower.cut(cut.offset)
                state = state.after(follower.own())
            self.states.append(state)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.values += 1
            self.logs[self.leader].append((self.epoch, self.values))

    def commit(self) -> None:
        """Moves the leader's high watermark to its end, as if all followers had left the ISR."""
        log = self.logs[self.leader]
        log.high_watermark = max(log.high_watermark, log.end)

    def delete(self, offset: int) -> None:
        log = self.logs[self.leader]
        log.raise_start(min(offset, log.high_watermark))

    def fetch(self, replica: int, count: int) -> bool:
        """One fetch. Returns whether the follower learned anything."""
        if replica == self.leader:
            return False
        state, log, leader = self.states[replica], self.logs[replica], self.logs[self.leader]
        before = (log.end, log.start, log.epochs)
        answer, records = self.answer(state, count)
        self.act(replica, on_answer(state, state, answer, log.own()), records)
        self.states[replica] = self.states[replica].after(
            log.own(), leader_high_watermark=answer.high_watermark
        )
        assert log.high_watermark <= log.end
        return before != (log.end, log.start, log.epochs) or log.high_watermark < min(
            leader.high_watermark, log.end
        )

    def answer(self, state: FollowedState, count: int) -> tuple[Answer, list[tuple[int, int]]]:
        leader = self.logs[self.leader]
        asked: Any = state.fetch_offset
        facts: Any = {"high_watermark": leader.high_watermark, "log_start_offset": leader.start}
        if not leader.start <= asked <= leader.end:
            return Answer(ErrorCode.OFFSET_OUT_OF_RANGE), []
        if state.last_fetched_epoch >= 0:
            epoch, end = leader.end_of_epoch(state.last_fetched_epoch)
            if epoch < 0:
                return Answer(ErrorCode.OFFSET_OUT_OF_RANGE), []
            if epoch < state.last_fetched_epoch or end < asked:
                diverging: Any = {"diverging_epoch": epoch, "diverging_end_offset": end}
                return Answer(**facts, **diverging), []
        records = leader.records[asked - leader.start :][:count]
        return Answer(**facts, has_records=bool(records)), records

    def act(self, replica: int, action: Action, records: list[tuple[int, int]]) -> None:
        log, leader = self.logs[replica], self.logs[self.leader]
        match action:
            case Append(high_watermark, log_start_offset):
                for record in records:
                    log.append(record)
                log.high_watermark = max(log.high_watermark, min(high_watermark, log.end))
                log.raise_start(min(log_start_offset, log.high_watermark))
            case Cut(offset, below_high_watermark):
                assert offset <= log.end
                assert offset >= min(self.common_end(log), log.end), "no common record is dropped"
                assert below_high_watermark == (offset < log.high_watermark)
                log.cut(offset)
            case Restart(offset):
                assert offset == leader.start
                log.restart(offset)
            case AskEnd():
                self.act(replica, on_leader_end(leader.end, log.own()), [])
            case AskStart():
                self.act(replica, on_leader_start(leader.start, log.own()), [])
            case BackOff():
                pass
            case Ignore() | Fail():
                raise AssertionError(f"{action} after a valid answer")

    def common_end(self, log: ModelLog) -> int:
        """The offset up to which a follower's log equals the leader's log. −1 if they have no record in common."""
        leader = self.logs[self.leader]
        start = offset = max(log.start, leader.start)
        while (
            offset < min(log.end, leader.end)
            and log.records[offset - log.start] == leader.records[offset - leader.start]
        ):
            offset += 1
        return offset if offset > start else -1


OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("elect"), st.integers(0, REPLICAS - 1)),
    st.tuples(st.just("fetch"), st.integers(0, REPLICAS - 1), st.integers(0, 5)),
    st.tuples(st.just("fetch"), st.integers(0, REPLICAS - 1), st.integers(0, 5)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("delete"), st.integers(0, 20)),
)


@settings(max_examples=examples(400))
@example([("elect", 1), ("append", 1), ("commit",), ("delete", 1), ("elect", 0), ("append", 1)])
@example([("append", 1), ("commit",), ("append", 1), ("delete", 1), ("elect", 1), ("append", 2)])
@given(st.lists(OPERATIONS, max_size=40))
def test_every_follower_ends_with_the_leaders_log(operations: list[tuple[Any, ...]]) -> None:
    cluster = Cluster()
    for name, *arguments in operations:
        getattr(cluster, name)(*arguments)
    leader = cluster.logs[cluster.leader]
    for replica, log in enumerate(cluster.logs):
        rounds = 0
        while cluster.fetch(replica, 3) and rounds < ROUNDS_MAX:
            rounds += 1
        assert rounds < ROUNDS_MAX, "the follower catches up"
        offset = max(log.start, leader.start)
        assert log.end == leader.end
        assert log.records[offset - log.start :] == leader.records[offset - leader.start :]
