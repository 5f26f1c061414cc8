"""Checks a copier that copies each record of an input partition exactly once, in transactions.

A transaction has copies of some input records in several partitions, and the position of the copier in the input. The
ledger knows how far each transaction has come. So it can check each answer and each copy while the cluster works. At
the end, `check_end` compares all copies with the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.model.ids import Offset
from kcli.model.topic_partition import TopicPartition
from simulation.checks.history import Outcome, Transaction, anomalies

COPIER = "copier"


@dataclass(slots=True)
class Copy(Transaction):
    """A transaction with copies of the input records from `first` to `end`.

    The outcome is ABORTED until the copier asks for the commit, because until then nothing may be visible. It is
    UNKNOWN until the copier knows whether the transaction is committed.
    """

    first: int = 0
    end: int = 0


class CopyLedger:
    """All transactions of a copier, in the order of their begin."""

    def __init__(self) -> None:
        self.copies: list[Copy] = []
        self.position = 0
        """The position in the input that is known to be committed."""
        self.committed = 0
        """The number of transactions that are known to be committed."""
        self.aborted = 0
        """The number of answered requests for an abort."""

    # What the copier does.

    def begin(self, first: int, end: int, now: float) -> Copy:
        copy = Copy(COPIER, len(self.copies), now, first=first, end=end)
        self.copies.append(copy)
        return copy

    def writes(self, copy: Copy, partition: TopicPartition, offset: Offset, value: bytes) -> bytes:
        """Adds a copy of an input record to a transaction. Returns the value of the copy."""
        content = b"%d %d " % (copy.number, offset) + value
        copy.writes.append((partition, _place(partition, content)))
        return content

    def asks_for_commit(self, copy: Copy) -> None:
        copy.outcome = Outcome.UNKNOWN

    def acknowledged(self, copy: Copy, now: float, *, commits: bool) -> None:
        """Takes the answer to an EndTxn request."""
        if not commits:
            assert copy.outcome is Outcome.ABORTED, f"{copy} is committed, but its abort was acknowledged"
            self.aborted += 1
        elif copy.outcome is Outcome.UNKNOWN:
            self._commit(copy)
        else:
            assert copy.outcome is Outcome.COMMITTED, (
                f"the commit of {copy} is acknowledged, but it was aborted before"
            )
        copy.ended = min(copy.ended, now)

    def decided(self, position: int, now: float) -> None:
        """Takes the committed position of the group after InitProducerId, which ends all earlier transactions. So this
        position shows which transactions are committed."""
        unknown = [copy for copy in self.copies if copy.outcome is Outcome.UNKNOWN]
        possible = {self.position, *(copy.end for copy in unknown)}
        assert position in possible, (
            f"the committed position is {position}, possible are {sorted(possible)}: the last transactions are "
            f"{[f'{each}: {each.first} to {each.end}' for each in self.copies[-5:]]}"
        )
        for copy in unknown:
            if copy.end <= position:
                self._commit(copy)
            else:
                copy.outcome = Outcome.ABORTED
            copy.ended = min(copy.ended, now)

    def _commit(self, copy: Copy) -> None:
        copy.outcome = Outcome.COMMITTED
        assert copy.first == self.position, (
            f"{copy} copies from {copy.first} to {copy.end}, but {self.position} was committed before"
        )
        self.position = copy.end
        self.committed += 1

    # What others see.

    def read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Checks a copy that a consumer with isolation.level=read_committed has read."""
        copy = self.copies[_parts(value)[0]]
        assert copy.outcome is not Outcome.ABORTED, (
            f"{partition}: {value[:40]!r} is read at {offset}, but {copy} is open or aborted"
        )

    def fetched(self, position: int) -> None:
        """Checks a committed position of the group that any client has got."""
        assert position == 0 or any(
            copy.end == position and copy.outcome is not Outcome.ABORTED for copy in self.copies
        ), (
            f"the committed position {position} belongs to no committed transaction, {self.position} is committed"
        )

    # At the end.

    def check_end(
        self, source: Sequence[bytes], read: Mapping[TopicPartition, Sequence[bytes]], position: int
    ) -> None:
        """Compares the input and all committed copies. `position` is the committed position of the group."""
        assert position == self.position, f"{position} is committed, expected was {self.position}"
        log = {
            partition: [_place(partition, value) for value in values] for partition, values in read.items()
        }
        found = anomalies(self.copies, log)
        assert not found, "\n".join(found[:5])
        copied: dict[int, set[int]] = {}
        for partition, values in read.items():
            last = -1
            for value in values:
                number, offset, content = _parts(value)
                assert offset > last, f"{partition} has a copy of {offset} after a copy of {last}"
                assert content == source[offset], f"{partition}: {value[:40]!r} is no copy of {offset}"
                copied.setdefault(offset, set()).add(number)
                last = offset
        assert sorted(copied) == list(range(position)), (
            f"{position} records should be copied; missing: {sorted(set(range(position)) - set(copied))[:5]}, "
            f"too many: {sorted(set(copied) - set(range(position)))[:5]}"
        )
        twice = {offset: numbers for offset, numbers in copied.items() if len(numbers) > 1}
        assert not twice, f"input records are copied by several transactions: {twice}"


def _place(partition: TopicPartition, value: bytes) -> tuple[TopicPartition, int, int]:
    """Identifies a copy: a transaction may copy the same record to several partitions."""
    number, offset, _ = _parts(value)
    return partition, number, offset


def _parts(value: bytes) -> tuple[int, int, bytes]:
    """The number of the transaction, the offset of the input record, and its value."""
    number, offset, content = value.split(b" ", 2)
    return int(number), int(offset), content
