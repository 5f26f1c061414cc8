"""The leader of one partition as stories: tests/scenario/replica_*.txt.

The world is what the broker keeps of a partition that it leads: the log's end, the high watermark, one state per
follower and the requests that wait. A record has ten bytes. Node 1 leads. Commands:

    lead replicas=1,2 isr=1,2 [min=1 epoch=1]   a term begins; the log and the high watermark stay
    produce TOKEN records=n [acks=all|1|0]
    fetched node=2 end=n                        a follower asks for records from `end` on
    isr 1,2                                     the controller has changed the ISR
    min n                                       min.insync.replicas is another
    fetch TOKEN min=bytes [from=offset]         a consumer; records beyond the high watermark do not count
    late TOKEN                                  the request's time is over
    resign
    show
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.model.ids import BrokerId
from kcli.model.request_values import ACKS_ALL
from kcli.replica.leader import FollowerState, LeaderState, begin_term
from kcli.replica.waiting import CommitQueue, FetchWait
from rigs.scenarios import Commands, check, files, pairs

RECORD_BYTES = 10


class ReplicaWorld(Commands):
    def __init__(self) -> None:
        super().__init__()
        self._state: LeaderState | None = None
        self._followers: dict[BrokerId, FollowerState] = {}
        self._log_end = 0
        self._high_watermark = 0
        self._commits: CommitQueue[str] = CommitQueue()
        self._produces: dict[str, int] = {}
        """Token and the offset that its produce waits for."""
        self._fetches: dict[str, tuple[FetchWait, int]] = {}
        """Token, its wait and the offset it reads from."""

    @property
    def state(self) -> LeaderState:
        assert self._state is not None, "lead first"
        return self._state

    # Commands

    def _do_lead(self, words: list[str]) -> None:
        given = pairs(words)
        self._state = begin_term(
            node_id=1,
            leader_epoch=int(given.get("epoch", "1")),
            partition_epoch=0,
            start_offset=self._log_end,
            replicas=_nodes(given["replicas"]),
            isr=_nodes(given["isr"]),
            min_insync_replicas=int(given.get("min", "1")),
        )
        self._followers = self.state.new_followers(0)
        self._advance(0)

    def _do_produce(self, words: list[str]) -> None:
        token, given = words[0], pairs(words)
        acks = ACKS_ALL if given.get("acks", "all") == "all" else int(given["acks"])
        if not self.state.accepts(acks):
            isr = self.state.isr
            self.out.append(f"{token} <- NOT_ENOUGH_REPLICAS: {len(isr.members)} of {isr.required} in sync")
            return
        count = int(given["records"])
        self._log_end += count
        self.out.append(f"append {self._log_end - count}..{self._log_end - 1}")
        self._advance(count * RECORD_BYTES)
        if acks != ACKS_ALL:
            self.out.append(f"{token} <- NONE, not waited for")
        elif self._high_watermark >= self._log_end:
            self._answer(token, self._log_end)
        else:
            self._produces[token] = self._log_end
            self._commits.wait_for(self._log_end, token)
            self.out.append(f"{token} waits for offset {self._log_end}")

    def _do_fetched(self, words: list[str]) -> None:
        given = pairs(words)
        self._followers[BrokerId(int(given["node"]))] = FollowerState(0, int(given["end"]))
        self._advance(0)

    def _do_isr(self, words: list[str]) -> None:
        self._state = self.state.with_partition(
            replicas=self.state.replicas,
            isr=_nodes(words[0]),
            partition_epoch=self.state.partition_epoch + 1,
        )
        self._advance(0)

    def _do_min(self, words: list[str]) -> None:
        self._state = self.state.with_min_insync_replicas(int(words[0]))
        self._advance(0)

    def _do_fetch(self, words: list[str]) -> None:
        token, given = words[0], pairs(words)
        start = int(given.get("from", "0"))
        wait = FetchWait(int(given["min"]), self._readable(start))
        if self._readable(start) >= wait.min_bytes:
            self.out.append(f"{token} <- {self._readable(start)} bytes")
        else:
            self._fetches[token] = wait, start
            self.out.append(f"{token} waits for {wait.min_bytes} bytes, {self._readable(start)} are there")

    def _do_late(self, words: list[str]) -> None:
        token = words[0]
        if token in self._produces:
            self._answer(token, self._produces.pop(token))
        else:
            _, start = self._fetches.pop(token)
            self.out.append(f"{token} <- {self._readable(start)} bytes")

    def _do_resign(self, _words: list[str]) -> None:
        for token in self._commits.end():
            if self._produces.pop(token, None) is not None:
                self.out.append(f"{token} <- NOT_LEADER_OR_FOLLOWER")
        self._state = None

    def _do_show(self, _words: list[str]) -> None:
        isr = self.state.isr
        self.out.append(f"epoch {self.state.leader_epoch}, ISR {_text(isr.members)}, {isr.required} required")
        self.out.append(f"log end {self._log_end}, high watermark {self._high_watermark}")
        for node, follower in self._followers.items():
            self.out.append(f"follower {node} at {follower.log_end_offset}")

    # The shell's part

    def _advance(self, size_bytes: int) -> None:
        after = self.state.high_watermark(self._high_watermark, self._log_end, self._followers)
        assert after >= self._high_watermark, "the high watermark never goes back"
        assert after <= self._log_end, "only what is in the log is committed"
        moves = after != self._high_watermark
        if moves:
            self._high_watermark = after
            self.out.append(f"high watermark {after}")
            for token in self._commits.due(after):
                if token in self._produces:
                    self._answer(token, self._produces.pop(token))
        for token, (wait, start) in list(self._fetches.items()):
            if not wait.appended(size_bytes) and (size_bytes or not moves):
                continue
            readable = self._readable(start)
            if wait.measured(readable):
                del self._fetches[token]
                self.out.append(f"{token} <- {readable} bytes")
            else:
                self.out.append(f"{token} looks: {readable} bytes")

    def _answer(self, token: str, offset: int) -> None:
        outcome = self.state.produce_outcome(offset, self._high_watermark)
        assert isinstance(outcome, ErrorCode)
        self.out.append(f"{token} <- {outcome.name}")

    def _readable(self, start: int) -> int:
        return max(self._high_watermark - start, 0) * RECORD_BYTES


def _nodes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _text(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))


FILES = files("replica")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, ReplicaWorld())
