"""The life of a lone voter as stories: tests/scenario/raft_*.txt.

The world is the disk of node 1, whose directory is #1: the quorum-state file, the log and what of it is flushed. It
carries out each `Ready` in order and shows the duties. Commands:

    voters 1/#1 … | static 1 … | none   the voters that `format` or the configuration names
    start                               the node starts from what is on the disk
    append value …                      the active controller appends one batch
    flush [offset]                      a flush is reported: up to the end of the log, or only to `offset`
    resign
    crash-at persist|append|flush [n]   the power fails before the n-th such duty of the next command
    crash                               the power fails now: the node and what is not flushed are gone
    lose-file                           the quorum-state file is deleted
    show                                the node's state, and the disk
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER
from kcli.protocol.batches.control import VotersRecord
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import (
    Append,
    Batch,
    ControlBatch,
    EpochStart,
    Flushed,
    Message,
    Ready,
    Resign,
    Start,
    VotersAt,
)
from kcli.raft.node import RaftNode
from kcli.raft.states import Leader, State
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from rigs.scenarios import Commands, check, files

KEY = ReplicaKey(1, uuid.UUID(int=1))
NOW = 0.0


class PowerFailure(Exception):
    """The rest of the duties is not carried out."""


class WatchedNode(RaftNode):
    """Notes each move from state to state."""

    def __init__(self) -> None:
        super().__init__(KEY)
        self.moves: list[str] = []

    def _move(self, state: State) -> None:
        if type(state) is not type(self.state) or state.epoch != self.state.epoch:
            self.moves = [*(self.moves or [_name(self.state)]), _name(state)]
        super()._move(state)


class RaftWorld(Commands):
    def __init__(self) -> None:
        super().__init__()
        self._voters = VoterSet((Voter(KEY, {"CONTROLLER": Address("h", 9093)}),))
        self._kraft_version = 1
        self._file: ElectionState | None = None
        self._log: list[tuple[int, Batch]] = []
        """(base offset, batch)"""
        self._flushed = 0
        self._node = WatchedNode()
        self._fails_at: tuple[str, int] | None = None

    # Commands

    def _do_voters(self, words: list[str]) -> None:
        self._kraft_version = 0 if words[0] == "static" else 1
        named = [word for word in words if word[0].isdigit()]
        self._voters = VoterSet(tuple(Voter(_key(word), {}) for word in named)) if named else NO_VOTERS

    def _do_start(self, _words: list[str]) -> None:
        self._node = WatchedNode()
        in_log = any(
            isinstance(record, VotersRecord)
            for _, batch in self._log
            if isinstance(batch, ControlBatch)
            for record in batch.records
        )
        self._step(
            Start(
                stored=self._file,
                log_start=0,
                log_end_offset=self._end,
                epochs=tuple(EpochStart(batch.epoch, offset) for offset, batch in self._log),
                voters=self._voters,
                kraft_version=self._kraft_version,
                voter_history=(VotersAt(0, self._kraft_version, self._voters),) if in_log else (),
            )
        )

    def _do_append(self, words: list[str]) -> None:
        self._step(Append(tuple(word.encode() for word in words)))

    def _do_flush(self, words: list[str]) -> None:
        end_offset = int(words[0]) if words else self._end
        assert end_offset in (self._end, *(offset for offset, _ in self._log)), "a batch is flushed whole"
        self._flushed = max(self._flushed, end_offset)
        self._step(Flushed(end_offset))

    def _do_resign(self, _words: list[str]) -> None:
        self._step(Resign())

    def _do_crash_at(self, words: list[str]) -> None:
        self._fails_at = (words[0], int(words[1]) if len(words) > 1 else 1)

    def _do_crash(self, _words: list[str]) -> None:
        self._node = WatchedNode()
        self._log = [(offset, batch) for offset, batch in self._log if offset < self._flushed]

    def _do_lose_file(self, _words: list[str]) -> None:
        self._file = None

    def _do_show(self, _words: list[str]) -> None:
        state = self._node.state
        self.out.append(f"{_name(state)}, leader {self._node.leader_id}")
        if isinstance(state, Leader):
            self.out.append(
                f"epoch starts at {state.epoch_start_offset}, high watermark {state.high_watermark}"
            )
        stored = "no quorum-state" if self._file is None else f"quorum-state {_show(self._file)}"
        self.out.append(f"disk: {stored}; log ends at {self._end}, flushed to {self._flushed}")

    # The duties

    @property
    def _end(self) -> int:
        return self._log[-1][0] + _size(self._log[-1][1]) if self._log else 0

    def _step(self, message: Message) -> None:
        self._node.moves = []
        try:
            ready = self._node.step(message, NOW)
        finally:
            if self._node.moves:
                self.out.append(" -> ".join(self._node.moves))
        try:
            self._obey(ready)
        except PowerFailure:
            self.out.append("the power fails")
            self._do_crash([])

    def _obey(self, ready: Ready) -> None:
        for state in ready.persist:
            self._on("persist")
            self._file = state
            self.out.append(f"persist {_show(state)}")
        assert ready.truncate is None
        for batch in ready.append:
            self._on("append")
            self.out.append(f"append {self._end}: epoch {batch.epoch} {_content(batch)}")
            self._log.append((self._end, batch))
        if ready.flush:
            self._on("flush")
            self.out.append("flush")
        assert not ready.send
        if ready.apply is not None:
            self.out.append(f"apply up to {ready.apply}")

    def _on(self, duty: str) -> None:
        if self._fails_at is None or self._fails_at[0] != duty:
            return
        left = self._fails_at[1] - 1
        self._fails_at = (duty, left) if left else None
        if not left:
            raise PowerFailure


def _key(text: str) -> ReplicaKey:
    number, slash, directory = text.partition("/")
    return ReplicaKey(int(number), uuid.UUID(directory)) if slash else ReplicaKey(int(number))


def _name(state: State) -> str:
    return f"{type(state).__name__} {state.epoch}"


def _show(state: ElectionState) -> str:
    parts = [f"epoch {state.epoch}"]
    if state.leader_id != NO_LEADER:
        parts.append(f"leader {state.leader_id}")
    if state.voted is not None:
        parts.append(f"voted {state.voted.id}/{state.voted.directory_id}")
    if state.static_voters is not None:
        parts.append(f"static voters {' '.join(map(str, state.static_voters))}")
    return " ".join(parts)


def _size(batch: Batch) -> int:
    return len(batch.records if isinstance(batch, ControlBatch) else batch.values)


def _content(batch: Batch) -> str:
    if isinstance(batch, ControlBatch):
        names = (type(record).__name__ for record in batch.records)
        return " ".join(name.removesuffix("Record").removesuffix("Message") for name in names)
    return " ".join(value.decode() for value in batch.values)


FILES = files("raft")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 9


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, RaftWorld())
