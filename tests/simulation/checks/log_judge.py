"""Checks a history of sends and polls for broken promises of Kafka, as Jepsen's test of Kafka does.

The check uses only what clients saw. Offsets come from the answers to producers and from polls. `Finding` lists the
kinds of findings. Findings that Kafka's design allows (`ALLOWED`) are counted separately. Every other finding is a
broken promise.

A committed value that no poll returned is *lost* if a poll returned a later offset, or if its partition was read to the
end. If neither is true, the value is only *unseen*.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from simulation.checks.dependencies import Cycles, cycles
from simulation.checks.operations import History, Operation, Outcome, Polled, Protocol, Sent

TEXTS_MAX = 20
"""The most descriptions that are kept for one kind of finding. All findings are counted."""


class Finding(Enum):
    LOST_WRITE = "lost write"
    UNSEEN = "unseen write"
    ABORTED_READ = "aborted read"
    EARLY_READ = "read before the commit was requested"
    TORN = "torn transaction"
    DUPLICATE = "duplicate"
    UNKNOWN_VALUE = "value that was never sent"
    INCONSISTENT_OFFSET = "inconsistent offset"
    POLL_BACK = "poll that goes back"
    POLL_SKIP = "poll that skips"
    INTERNAL_POLL_BACK = "poll that goes back in a transaction"
    INTERNAL_POLL_SKIP = "poll that skips in a transaction"
    SEND_BACK = "send that goes back"
    INTERNAL_SEND_BACK = "send that goes back in a transaction"
    TIME_ORDER = "order against time"
    READ_CYCLE = "read cycle"

    EPOCH_DUPLICATE = "duplicate in a later epoch of the producer"
    UNCOMMITTED_READ = "aborted value of a read_uncommitted consumer"
    TV1_LOST_WRITE = "lost write of TV1 (KAFKA-17754)"
    TV1_ABORTED_READ = "aborted read of TV1 (KAFKA-17754)"
    TV1_TORN = "torn transaction of TV1 (KAFKA-17754)"
    WRITE_CYCLE = "write cycle: sends of open transactions interleave"
    WRITE_READ_CYCLE = "write and read cycle: sends of open transactions interleave"
    LAG_CYCLE = "cycle with a poll that lags"


ALLOWED = frozenset(
    {
        Finding.EPOCH_DUPLICATE,
        Finding.UNCOMMITTED_READ,
        Finding.TV1_LOST_WRITE,
        Finding.TV1_ABORTED_READ,
        Finding.TV1_TORN,
        Finding.WRITE_CYCLE,
        Finding.WRITE_READ_CYCLE,
        Finding.LAG_CYCLE,
    }
)
_OF_TV1 = {
    Finding.LOST_WRITE: Finding.TV1_LOST_WRITE,
    Finding.ABORTED_READ: Finding.TV1_ABORTED_READ,
    Finding.TORN: Finding.TV1_TORN,
}


@dataclass(slots=True)
class Verdict:
    """The number of findings of each kind, and descriptions of the first findings."""

    counts: dict[Finding, int] = field(default_factory=dict)
    texts: dict[Finding, list[str]] = field(default_factory=dict)

    def add(self, finding: Finding, text: str) -> None:
        self.counts[finding] = self.counts.get(finding, 0) + 1
        texts = self.texts.setdefault(finding, [])
        if len(texts) < TEXTS_MAX:
            texts.append(text)

    @property
    def anomalies(self) -> dict[Finding, list[str]]:
        """The descriptions of all broken promises, by kind. Empty for a correct history."""
        return {each: texts for each, texts in self.texts.items() if each not in ALLOWED}

    def count(self, finding: Finding) -> int:
        return self.counts.get(finding, 0)


def judge(history: History) -> Verdict:
    verdict = Verdict()
    known = _Known(history)
    _check_places(history, known, verdict)
    _check_reads(history, known, verdict)
    _check_missing(history, known, verdict)
    _check_sends(history, known, verdict)
    _check_polls(history, known, verdict)
    _check_time(known, verdict)
    _check_cycles(history, known, verdict)
    return verdict


def duplicate_places(history: History) -> set[tuple[int, int]]:
    """The partitions and offsets of all values that are in the log more than once."""
    return {place for places in _Known(history).places.values() if len(places) > 1 for place in places}


class _Known:
    """Indexes the values and offsets that the history contains."""

    def __init__(self, history: History) -> None:
        self.writer: dict[str, Operation] = {}
        self.places: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self.values: dict[tuple[int, int], set[str]] = defaultdict(set)
        self.polled: set[str] = set()
        self.committed_reads: set[str] = set()
        """The values that a read_committed poll returned."""
        self.last_polled: dict[int, int] = {}
        for operation in history.operations:
            for sent in operation.sent:
                self.writer[sent.value] = operation
                if sent.offset is not None:
                    self._place(sent.value, sent.partition, sent.offset)
            for polled in operation.polled:
                self._take(operation, polled)

    def _take(self, operation: Operation, polled: Polled) -> None:
        for offset, value in polled.records:
            self._place(value, polled.partition, offset)
            self.polled.add(value)
            self.last_polled[polled.partition] = max(offset, self.last_polled.get(polled.partition, -1))
            if not operation.reads_uncommitted:
                self.committed_reads.add(value)

    def _place(self, value: str, partition: int, offset: int) -> None:
        self.places[value].add((partition, offset))
        self.values[partition, offset].add(value)

    def offset(self, value: str) -> int | None:
        """The offset of a value. None if the offset is not known, or if the value has several offsets."""
        places = self.places.get(value, ())
        return next(iter(places))[1] if len(places) == 1 else None

    def is_visible(self, value: str) -> bool:
        """Whether every read_committed consumer must return a value."""
        writer = self.writer.get(value)
        if writer is None or writer.outcome is Outcome.ABORTED:
            return False
        return writer.outcome is Outcome.COMMITTED or value in self.committed_reads

    def was_passed(self, sent: Sent, history: History) -> bool:
        """Whether a poll has returned a later offset, or the partition was read to the end, so that a poll should have
        returned the record.
        """
        if sent.partition in history.ends:
            return True
        offset = self.offset(sent.value)
        return offset is not None and offset < self.last_polled.get(sent.partition, -1)

    def versions(self) -> dict[int, list[tuple[int, str]]]:
        """The offsets and values of each partition in order. An offset or a value that is not unique is left out."""
        found: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for (partition, offset), values in sorted(self.values.items()):
            (value, *others) = values
            if not others and len(self.places[value]) == 1:
                found[partition].append((offset, value))
        return found


def _check_places(history: History, known: _Known, verdict: Verdict) -> None:
    for (partition, offset), values in known.values.items():
        if len(values) > 1:
            verdict.add(
                Finding.INCONSISTENT_OFFSET, f"partition {partition} has {sorted(values)} at offset {offset}"
            )
    for value, places in known.places.items():
        if len(places) > 1:
            verdict.add(
                _duplicate_finding(history, known.writer.get(value), places),
                f"{value} is at {sorted(places)}",
            )


def _duplicate_finding(history: History, writer: Operation | None, places: set[tuple[int, int]]) -> Finding:
    """The kind of finding for a value that is in the log more than once. If a producer without transactions begins a
    new epoch after an error, it sends its unanswered batches again. A broker cannot recognise a batch of another epoch
    as a duplicate, so such a copy is not an error of the broker."""
    if writer is None or writer.is_transaction:
        return Finding.DUPLICATE
    producers = [history.producers.get(place) for place in places]
    known = [each for each in producers if each is not None]
    one_id = len({each.id for each in known}) == 1
    each_its_epoch = len({each.epoch for each in known}) == len(places)
    return Finding.EPOCH_DUPLICATE if one_id and each_its_epoch else Finding.DUPLICATE


def _check_reads(history: History, known: _Known, verdict: Verdict) -> None:
    for reader in history.operations:
        for polled in reader.polled:
            for offset, value in polled.records:
                writer = known.writer.get(value)
                finding = _read_finding(reader, polled, writer)
                if finding is not None:
                    where = f"{value} at offset {offset} of partition {polled.partition}"
                    verdict.add(
                        finding, f"{where}, polled by {reader.process} at {polled.at:.3f}, of {writer}"
                    )


def _read_finding(reader: Operation, polled: Polled, writer: Operation | None) -> Finding | None:
    if writer is None:
        return Finding.UNKNOWN_VALUE
    if writer.outcome is Outcome.ABORTED:
        if reader.reads_uncommitted:
            return Finding.UNCOMMITTED_READ
        return _by_protocol(Finding.ABORTED_READ, writer)
    if writer.is_transaction and not reader.reads_uncommitted and polled.at < writer.asked:
        return Finding.EARLY_READ
    return None


def _check_missing(history: History, known: _Known, verdict: Verdict) -> None:
    for writer in history.operations:
        if writer.outcome is Outcome.ABORTED:
            continue
        missing = [sent for sent in writer.sent if sent.value not in known.polled]
        if writer.outcome is Outcome.COMMITTED:
            for sent in missing:
                passed = known.was_passed(sent, history)
                finding = _by_protocol(Finding.LOST_WRITE, writer) if passed else Finding.UNSEEN
                verdict.add(finding, f"{sent} of {writer}")
        elif writer.is_transaction and any(sent.value in known.committed_reads for sent in writer.sent):
            for sent in missing:
                if known.was_passed(sent, history):
                    verdict.add(_by_protocol(Finding.TORN, writer), f"{sent} of {writer} is missing")
                    break


def _by_protocol(finding: Finding, writer: Operation) -> Finding:
    return _OF_TV1[finding] if writer.protocol is Protocol.TV1 else finding


def _check_sends(history: History, known: _Known, verdict: Verdict) -> None:
    """Checks that the records of each process are in the log in the order in which the process sent them."""
    highest: dict[tuple[str, int], int] = {}
    for operation in history.operations:
        internal: dict[int, int] = {}
        for sent in operation.sent:
            offset = known.offset(sent.value)
            if offset is None:
                continue
            before = internal.get(sent.partition, -1)
            if offset < before:
                verdict.add(Finding.INTERNAL_SEND_BACK, f"{sent} has offset {offset} after {before}")
            internal[sent.partition] = max(offset, before)
            outer = highest.get((operation.process, sent.partition), -1)
            if offset < outer:
                verdict.add(Finding.SEND_BACK, f"{sent} of {operation} has offset {offset} after {outer}")
        for partition, offset in internal.items():
            place = (operation.process, partition)
            highest[place] = max(offset, highest.get(place, -1))


def _check_polls(history: History, known: _Known, verdict: Verdict) -> None:
    """Checks that the polls of each session return every record once, in the order of offsets."""
    visible, everything = _readable(known)
    positions: dict[tuple[str, int], tuple[int, int]] = {}
    for operation in history.operations:
        readable = everything if operation.reads_uncommitted else visible
        for polled, is_internal in _polls(operation):
            place = (operation.process, polled.partition)
            session, position = positions.get(place, (polled.session, -1))
            if session != polled.session:
                position = -1
            if polled.position is not None:
                position = max(position, polled.position)
            internal = is_internal
            for offset, _ in polled.records:
                finding = None
                if offset < position:
                    finding = Finding.INTERNAL_POLL_BACK if internal else Finding.POLL_BACK
                elif 0 <= position < offset and _any_between(readable[polled.partition], position, offset):
                    finding = Finding.INTERNAL_POLL_SKIP if internal else Finding.POLL_SKIP
                if finding is not None:
                    where = f"{operation.process}, partition {polled.partition}"
                    verdict.add(finding, f"{where}: {offset}, expected {position}")
                position, internal = offset + 1, True
            positions[place] = (polled.session, position)


def _polls(operation: Operation) -> Iterator[tuple[Polled, bool]]:
    """Yields the polls of an operation with a flag. The flag is True if the operation has polled the same partition
    before.
    """
    seen = set[int]()
    for polled in operation.polled:
        yield polled, polled.partition in seen
        seen.add(polled.partition)


def _readable(known: _Known) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The offsets that consumers must not skip in each partition. The first map is for read_committed, and the second
    for read_uncommitted.
    """
    visible: dict[int, list[int]] = defaultdict(list)
    everything: dict[int, list[int]] = defaultdict(list)
    for (partition, offset), values in sorted(known.values.items()):
        everything[partition].append(offset)
        if any(known.is_visible(value) for value in values):
            visible[partition].append(offset)
    return visible, everything


def _any_between(offsets: list[int], start: int, end: int) -> bool:
    return bisect.bisect_left(offsets, start) < bisect.bisect_left(offsets, end)


def _check_time(known: _Known, verdict: Verdict) -> None:
    """Checks the order in time: a record that was sent after the answer for another record must have a higher
    offset.
    """
    for partition, versions in known.versions().items():
        first: Operation | None = None
        for offset, value in reversed(versions):
            writer = known.writer.get(value)
            if writer is None or not known.is_visible(value):
                continue
            if first is not None and first.ended < writer.begun:
                verdict.add(
                    Finding.TIME_ORDER,
                    f"{value} at offset {offset} of partition {partition}, of {writer}, is before {first}",
                )
            if first is None or writer.ended < first.ended:
                first = writer


def _check_cycles(history: History, known: _Known, verdict: Verdict) -> None:
    versions = {
        partition: [(offset, known.writer[value]) for offset, value in values if known.is_visible(value)]
        for partition, values in known.versions().items()
    }
    found: Cycles = cycles(history.operations, versions, known.writer)
    for finding, groups in (
        (Finding.READ_CYCLE, found.reads),
        (Finding.WRITE_CYCLE, found.writes),
        (Finding.WRITE_READ_CYCLE, found.writes_and_reads),
        (Finding.LAG_CYCLE, found.lagging),
    ):
        for group in groups:
            verdict.add(finding, ", ".join(sorted(map(str, group))[:4]))


def span(history: History) -> float:
    """The time from the start of the first operation to the last known end of an operation."""
    begins = [each.begun for each in history.operations]
    ends = [each.ended for each in history.operations if each.ended < math.inf]
    return max(ends, default=0.0) - min(begins, default=0.0)
