"""The judge of histories against two models.

The first model has the definition of each finding, written as loops over all pairs. It gets random histories, most of
which no log could give. The second model is a log with transactions: whatever its clients do, the judge finds no
anomaly, and after one damage it finds one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from hypothesis import event, given
from hypothesis import strategies as st

from simulation.checks.log_judge import ALLOWED, Finding, judge
from simulation.checks.operations import Action, History, Operation, Outcome, Polled, Protocol, Sent

PARTITIONS = (0, 1)
VALUES = "abcdef"
CYCLES = {Finding.READ_CYCLE, Finding.WRITE_CYCLE, Finding.WRITE_READ_CYCLE, Finding.LAG_CYCLE}

# Random histories.


@st.composite
def histories(draw: st.DrawFn) -> History:
    values = list(draw(st.permutations(VALUES)))
    times = st.sampled_from((0.0, 1.0, 2.0, 3.0))
    offsets = st.integers(0, 4)
    partitions = st.sampled_from(PARTITIONS)
    records = st.lists(st.tuples(offsets, st.sampled_from((*VALUES, "z"))), max_size=3).map(tuple)
    polls = st.builds(
        Polled, partitions, records, st.integers(0, 1), times, st.none() | st.none() | st.integers(0, 2)
    )
    operations = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, min(3, len(values))))
        own, values = values[:count], values[count:]
        sent = [Sent(draw(partitions), value, draw(st.none() | offsets)) for value in own]
        actions: list[Action] = [*sent, *draw(st.lists(polls, max_size=2))]
        outcome, begun = draw(st.sampled_from(Outcome)), draw(times)
        operations.append(
            Operation(
                draw(st.sampled_from(("one", "two"))),
                begun,
                outcome,
                math.inf if outcome is Outcome.ABORTED else begun + 0.5,
                begun + draw(times) if outcome is Outcome.COMMITTED else math.inf,
                draw(st.sampled_from(Protocol)),
                draw(st.booleans()),
                draw(st.permutations(actions)),
            )
        )
    return History(tuple(operations), draw(st.dictionaries(partitions, st.just(9), max_size=2)))


@st.composite
def orderly_histories(draw: st.DrawFn) -> History:
    """Histories of committed transactions that have few anomalies, and so cycles of all kinds."""
    places = [(partition, offset) for partition in PARTITIONS for offset in range(4)]
    values = dict(zip(VALUES, draw(st.permutations(places)), strict=False))
    owners = {value: draw(st.integers(0, 2)) for value in values}
    operations = []
    for number in range(3):
        actions: list[Action] = [
            Sent(values[value][0], value, values[value][1]) for value in VALUES if owners[value] == number
        ]
        for partition in draw(st.lists(st.sampled_from(PARTITIONS), max_size=2, unique=True)):
            start, end = draw(st.integers(0, 2)), draw(st.integers(1, 4))
            records = sorted(
                (offset, value)
                for value, (where, offset) in values.items()
                if where == partition and start <= offset < end and owners[value] != number
            )
            actions.append(Polled(partition, tuple(records), at=9.0))
        operations.append(
            Operation(f"p{number}", number / 9, Outcome.COMMITTED, 1, 2, Protocol.TV2, actions=actions)
        )
    return History(tuple(operations))


class Definitions:
    """The findings of a history by their definitions. It is slow, and each definition stands alone."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.all = history.operations
        self.writer = {sent.value: one for one in self.all for sent in one.sent}
        self.reads = [
            (one, polled, offset, value)
            for one in self.all
            for polled in one.polled
            for offset, value in polled.records
        ]
        # Each known place of a value: (value, partition, offset).
        self.places = {(value, polled.partition, offset) for _, polled, offset, value in self.reads} | {
            (sent.value, sent.partition, sent.offset)
            for one in self.all
            for sent in one.sent
            if sent.offset is not None
        }

    def findings(self) -> set[Finding]:
        return {
            *self.of_places(),
            *self.of_reads(),
            *self.of_missing(),
            *self.of_sends(),
            *self.of_polls(),
            *self.of_time(),
            *self.of_cycles(),
        }

    def of_places(self) -> Iterator[Finding]:
        for (value, *place), (other, *other_place) in itertools.permutations(self.places, 2):
            if value == other and place != other_place:
                yield Finding.DUPLICATE
            if value != other and place == other_place:
                yield Finding.INCONSISTENT_OFFSET

    def of_reads(self) -> Iterator[Finding]:
        for reader, polled, _, value in self.reads:
            writer = self.writer.get(value)
            if writer is None:
                yield Finding.UNKNOWN_VALUE
            elif writer.outcome is Outcome.ABORTED and reader.reads_uncommitted:
                yield Finding.UNCOMMITTED_READ
            elif writer.outcome is Outcome.ABORTED:
                is_old = writer.protocol is Protocol.TV1
                yield Finding.TV1_ABORTED_READ if is_old else Finding.ABORTED_READ
            elif not reader.reads_uncommitted and writer.is_transaction and polled.at < writer.asked:
                yield Finding.EARLY_READ

    def of_missing(self) -> Iterator[Finding]:
        for writer in self.all:
            is_old = writer.protocol is Protocol.TV1
            missing = [sent for sent in writer.sent if not self.is_polled(sent.value)]
            passed = [sent for sent in missing if self.was_passed(sent)]
            if writer.outcome is Outcome.COMMITTED:
                if passed:
                    yield Finding.TV1_LOST_WRITE if is_old else Finding.LOST_WRITE
                if len(passed) < len(missing):
                    yield Finding.UNSEEN
            seen = any(self.is_polled(sent.value, committed=True) for sent in writer.sent)
            if writer.outcome is Outcome.UNKNOWN and writer.is_transaction and seen and passed:
                yield Finding.TV1_TORN if is_old else Finding.TORN

    def is_polled(self, value: str, *, committed: bool = False) -> bool:
        return any(
            read == value and not (committed and one.reads_uncommitted) for one, _, _, read in self.reads
        )

    def was_passed(self, sent: Sent) -> bool:
        if sent.partition in self.history.ends:
            return True
        offset = self.offset(sent.value)
        later = [at for _, polled, at, _ in self.reads if polled.partition == sent.partition]
        return offset is not None and any(at > offset for at in later)

    def offset(self, value: str) -> int | None:
        places = [(partition, offset) for each, partition, offset in self.places if each == value]
        return places[0][1] if len(places) == 1 else None

    def of_sends(self) -> Iterator[Finding]:
        sends = [(one, sent) for one in self.all for sent in one.sent]
        for (one, sent), (other, later) in itertools.combinations(sends, 2):
            first, second = self.offset(sent.value), self.offset(later.value)
            if sent.partition != later.partition or first is None or second is None or second >= first:
                continue
            if one is other:
                yield Finding.INTERNAL_SEND_BACK
            elif one.process == other.process:
                yield Finding.SEND_BACK

    def of_polls(self) -> Iterator[Finding]:
        processes = sorted({one.process for one in self.all})
        for process, partition in itertools.product(processes, PARTITIONS):
            polls = [
                (one, polled)
                for one in self.all
                if one.process == process
                for polled in one.polled
                if polled.partition == partition
            ]
            for at, (one, polled) in enumerate(polls):
                # The last poll of the same session without a poll of another session between.
                position, number = -1, at - 1
                start = at
                while start and polls[start - 1][1].session == polled.session:
                    start -= 1
                for _, earlier in polls[start:at]:
                    position = max(position, earlier.position if earlier.position is not None else -1)
                    if earlier.records:
                        position = earlier.records[-1][0] + 1
                position = max(position, polled.position if polled.position is not None else -1)
                inside = number >= 0 and polls[number][0] is one
                yield from self._of_poll(one, polled, position, inside=inside)

    def _of_poll(self, one: Operation, polled: Polled, position: int, *, inside: bool) -> Iterator[Finding]:
        for offset, _ in polled.records:
            if position >= 0 and offset < position:
                yield Finding.INTERNAL_POLL_BACK if inside else Finding.POLL_BACK
            elif position >= 0 and any(
                partition == polled.partition and position <= at < offset
                for value, partition, at in self.places
                if one.reads_uncommitted or self.is_visible(value)
            ):
                yield Finding.INTERNAL_POLL_SKIP if inside else Finding.POLL_SKIP
            position, inside = offset + 1, True

    def is_visible(self, value: str) -> bool:
        writer = self.writer.get(value)
        if writer is None:
            return False
        if writer.outcome is Outcome.UNKNOWN:
            return self.is_polled(value, committed=True)
        return writer.outcome is Outcome.COMMITTED

    def versions(self, partition: int) -> list[tuple[int, Operation]]:
        """The visible records whose place is certain."""
        return sorted(
            (
                (offset, self.writer[value])
                for value, where, offset in self.places
                if where == partition
                and self.is_visible(value)
                and self.offset(value) is not None
                and not any(
                    (at, other) == (where, offset) and each != value for each, at, other in self.places
                )
            ),
            key=lambda version: version[0],
        )

    def of_time(self) -> Iterator[Finding]:
        for partition in PARTITIONS:
            for (_, one), (_, other) in itertools.combinations(self.versions(partition), 2):
                if other.ended < one.begun:
                    yield Finding.TIME_ORDER

    def of_cycles(self) -> Iterator[Finding]:
        ww, wr, rw = set(), set(), set()
        number = {id(one): at for at, one in enumerate(self.all) if one.is_transaction}
        for partition in PARTITIONS:
            versions = self.versions(partition)
            transactions = [one for _, one in versions if one.is_transaction]
            ww |= {(number[id(one)], number[id(other)]) for one, other in itertools.pairwise(transactions)}
            for reader in self.all:
                last = max(
                    (
                        at
                        for one, polled, at, _ in self.reads
                        if one is reader and polled.partition == partition
                    ),
                    default=None,
                )
                for (offset, _), (_, after) in itertools.pairwise(versions):
                    if offset == last and id(reader) in number and id(after) in number:
                        rw.add((number[id(reader)], number[id(after)]))
        for reader, _, _, value in self.reads:
            writer = self.writer.get(value)
            if writer is not None and id(writer) in number and id(reader) in number:
                wr.add((number[id(writer)], number[id(reader)]))
        reads, writes = _components(wr), _components(ww)
        both = _components(ww | wr) - reads - writes
        lagging = _components(ww | wr | rw) - reads - writes - both
        for finding, groups in (
            (Finding.READ_CYCLE, reads),
            (Finding.WRITE_CYCLE, writes),
            (Finding.WRITE_READ_CYCLE, both),
            (Finding.LAG_CYCLE, lagging),
        ):
            if groups:
                yield finding


def _components(edges: set[tuple[int, int]]) -> set[frozenset[int]]:
    """The groups of nodes that reach each other, by the transitive closure."""
    reach = {(one, other) for one, other in edges if one != other}
    nodes = sorted({node for edge in reach for node in edge})
    for between in nodes:
        for one, other in itertools.product(nodes, nodes):
            if (one, between) in reach and (between, other) in reach:
                reach.add((one, other))
    return {
        frozenset({one, *(other for other in nodes if (one, other) in reach and (other, one) in reach)})
        for one in nodes
        if any((one, other) in reach and (other, one) in reach for other in nodes if other != one)
    }


@given(histories() | orderly_histories())
def test_the_judge_agrees_with_the_definitions(history: History) -> None:
    expected = Definitions(history).findings()
    for finding in expected:
        event(finding.value)
    assert set(judge(history).counts) == expected


# A log with transactions.


class ModelCluster:
    """A correct log of each partition, used by clients in turns, and their history."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.logs: dict[int, list[str | None]] = {each: [] for each in PARTITIONS}
        self.open: dict[str, Operation] = {}
        self.decided: dict[str, bool] = {}
        """Whether each value that has been decided is committed."""
        self.operations: list[Operation] = []
        self.positions: dict[tuple[str, int], int] = {}
        self._made = 0

    def run(self, steps: int) -> History:
        for _ in range(steps):
            self.now += 1
            process = self.rng.choice(("w1", "w2", "w3", "reader", "eager"))
            if process in ("reader", "eager"):
                self.operations.append(self._begin(process, Protocol.NONE))
                self._poll(self.operations[-1], eager=process == "eager")
                self.operations[-1].outcome, self.operations[-1].ended = Outcome.COMMITTED, self.now
            else:
                self._step(process)
        for process in list(self.open):
            self._end(process)
        final = self._begin("final", Protocol.NONE)
        for partition in PARTITIONS:
            final.actions.append(self._read("final", partition, len(self.logs[partition]), eager=False))
        self.operations.append(final)
        return History(tuple(self.operations), {each: len(log) for each, log in self.logs.items()})

    def _begin(self, process: str, protocol: Protocol) -> Operation:
        return Operation(process, self.now, protocol=protocol, reads_uncommitted=process == "eager")

    def _step(self, process: str) -> None:
        one = self.open.get(process)
        if one is None:
            one = self.open[process] = self._begin(process, self.rng.choice((Protocol.TV1, Protocol.TV2)))
            self.operations.append(one)
        match self.rng.randrange(4):
            case 0:
                self._end(process)
            case 1:
                self._poll(one, eager=False)
            case _:
                partition, value = self.rng.choice(PARTITIONS), f"v{self._made}"
                self._made += 1
                log = self.logs[partition]
                known = self.rng.random() < 0.8
                one.actions.append(Sent(partition, value, len(log) if known else None))
                log.append(value)

    def _end(self, process: str) -> None:
        one = self.open.pop(process)
        self.now += 1
        commits = self.rng.random() < 0.7
        if commits:
            one.asked = self.now
            one.outcome = Outcome.UNKNOWN
        if self.rng.random() < 0.8:
            one.outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
        elif commits:
            commits = self.rng.random() < 0.5
        self.now += 1
        for sent in one.sent:
            self.decided[sent.value] = commits
        for partition in {sent.partition for sent in one.sent}:
            self.logs[partition].append(None)
        if one.outcome is Outcome.COMMITTED:
            self.now += 1
            one.ended = self.now

    def _poll(self, one: Operation, *, eager: bool) -> None:
        partition = self.rng.choice(PARTITIONS)
        one.actions.append(self._read(one.process, partition, self.rng.randint(1, 5), eager=eager))

    def _read(self, process: str, partition: int, most: int, *, eager: bool) -> Polled:
        log = self.logs[partition]
        undecided = [at for at, value in enumerate(log) if value is not None and value not in self.decided]
        end = len(log) if eager or not undecided else undecided[0]
        start = self.positions.get((process, partition), 0)
        end = max(start, min(end, start + most))
        self.positions[process, partition] = end
        records = [(at, value) for at, value in enumerate(log[start:end], start) if value is not None]
        kept = tuple((at, value) for at, value in records if eager or self.decided[value])
        return Polled(partition, kept, 0, self.now, start)


@given(st.integers(0, 10**9), st.integers(1, 120))
def test_a_correct_cluster_has_no_anomaly(seed: int, steps: int) -> None:
    history = ModelCluster(random.Random(seed)).run(steps)
    assert set(judge(history).counts) <= ALLOWED - {
        Finding.TV1_LOST_WRITE,
        Finding.TV1_ABORTED_READ,
        Finding.TV1_TORN,
    }


@given(st.integers(0, 10**9), st.integers(20, 120))
def test_a_record_that_is_taken_out_is_noticed(seed: int, steps: int) -> None:
    history = ModelCluster(random.Random(seed)).run(steps)
    polled = [
        (one, at, each)
        for one in history.operations
        for at, each in enumerate(one.actions)
        if isinstance(each, Polled) and each.records
    ]
    if not polled:
        return
    victim = random.Random(seed).choice([value for _, _, each in polled for _, value in each.records])
    for one, at, each in polled:
        kept = tuple(pair for pair in each.records if pair[1] != victim)
        one.actions[at] = Polled(each.partition, kept, each.session, each.at, each.position)
    committed = any(
        sent.value == victim and one.outcome is Outcome.COMMITTED
        for one in history.operations
        for sent in one.sent
    )
    lost = {Finding.LOST_WRITE, Finding.TV1_LOST_WRITE}
    assert bool(lost & set(judge(history).counts)) == committed
