"""Transactions under stress: producers that crash, stall and come back as new incarnations, coordinators that crash at
every step, writes that lag or fail, markers that are late, lost or written twice. Everything is drawn from one seed.

The coordinator is the real shard with a log in memory; the partitions are the real producer state over a list of
batches. Held at every moment: the last stable offset never goes back, a read-committed reader has never seen half a
transaction, and nothing of a fenced incarnation is seen. In the end, once the trouble stops: no transaction is open,
what was said to be committed is there, what was said to be aborted is not.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from kcli.coordinator.runtime import Ready
from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.records import decode, encode
from kcli.coordinator.transaction.shard import SendMarkers, TransactionShard
from kcli.coordinator.transaction.state import TransactionStatus
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode, KafkaError
from kcli.model.ids import Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.storage.log.markers import read_marker
from kcli.storage.log.producer_state import ProducerState, Verification
from rigs.answers import answers

PARTITIONS = tuple(("t", number) for number in range(4))
TIMEOUT_MS = 3_000
TROUBLE_MS, CALM_MS = 12_000, 16_000
RETRY_MS = 50
SEEDS = int(os.environ.get("KCLI_SIM_SEEDS", "20"))
AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)


class Partition:
    """A log as far as transactions are concerned: data, markers, and where committed readers stop."""

    def __init__(self, key: tuple[str, int]) -> None:
        self.key = key
        self.state = ProducerState(f"{key[0]}-{key[1]}", expiration_ms=1 << 60)
        self.data = []  # (offset, producer id, epoch, transaction) or None for a marker
        self.decided = {}  # offset of the first record of a transaction -> committed
        self.open = {}  # producer id -> offsets
        self.stable = 0

    def append(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        transaction: tuple[str, int],
        verification: Verification,
        now: int,
    ) -> None:
        records = (Record(-1, now, b"", b""),)
        header = read_header(
            encode_batch(
                records,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        if self.state.duplicate_of(header) is not None:
            return
        self.state.check_verified(header, verification)
        self.state.check(header)
        offset = len(self.data)
        self.state.update(header, offset)
        self.data.append(transaction)
        self.open.setdefault(producer_id, []).append(offset)
        self.wrote()

    def mark(
        self, send: SendMarkers, coordinator_epoch: int, now: int, told_aborted: set[tuple[str, int]]
    ) -> None:
        batch = encode_marker_batch(
            EndTransactionMarker(committed=send.committed, coordinator_epoch=coordinator_epoch),
            producer_id=send.producer_id,
            producer_epoch=send.producer_epoch,
            timestamp_ms=now,
        )
        header, marker = read_header(batch), read_marker(batch)
        self.state.check_marker(header, marker, send.transaction_version)
        self.state.update_marker(header, len(self.data), marker)
        self.data.append(None)
        for offset in self.open.pop(send.producer_id, ()):
            assert not (send.committed and self.data[offset] in told_aborted), (
                "an aborted transaction appears"
            )
            self.decided[offset] = send.committed
        self.wrote()

    def wrote(self) -> None:
        self.state.end_offset = Offset(len(self.data))
        self.state.on_high_watermark(len(self.data))
        unstable = self.state.first_unstable_offset
        stable = len(self.data) if unstable is None else unstable
        assert stable >= self.stable, f"the last stable offset of {self.key} went back"
        self.stable = stable

    def committed(self) -> set[tuple[str, int]]:
        """The transactions that a committed reader has seen here."""
        return {
            transaction
            for offset, transaction in enumerate(self.data[: self.stable])
            if transaction is not None and self.decided.get(offset)
        }


class Coordinator:
    """The shard, its log, and the shell's duties, all of which may be interrupted."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.config = TransactionConfig(
            abort_timed_out_interval_ms=500, id_expiration_ms=1 << 60, remove_expired_interval_ms=1 << 50
        )
        self.log = []
        self.epoch = -1
        self.fresh = 0
        self.start()

    def start(self) -> None:
        self.epoch += 1
        self.in_flight = deque()
        self.late = []
        self.shard = TransactionShard(self.config, lambda: self.sim.level)
        for key, value in self.log:
            self.shard.replay(decode(key, value))
        self.settle(self.shard.start(self.sim.now))
        self.wake(self.shard)

    def crash(self) -> None:
        """Writes in flight may or may not have reached the log; no request is answered."""
        for ready in self.late:
            if self.sim.random.random() < 0.5:
                self.log.extend(encode(record) for record in ready.records)
        for ready, _ in self.in_flight:
            if self.sim.random.random() < 0.5:
                self.log.extend(encode(record) for record in ready.records)
            else:
                break
        self.start()

    def fresh_id(self, wanted: bool) -> int | None:
        if not wanted:
            return None
        self.fresh += 1
        return self.fresh

    def call(self, step: Callable[..., Any], answer: Callable[..., Any]) -> None:
        shard = self.shard
        self.take(step(shard), lambda code, response: answer(code, response))
        self.wake(shard)

    def take(self, ready: Ready, answer: Callable[..., Any] | None = None) -> None:
        if not ready.records:
            self.settle(ready, answer)
            return
        self.in_flight.append((ready, answer))
        shard = self.shard
        self.sim.after(self.sim.random.choice((0, 0, 1, 20)), lambda: self.commit_next(shard))

    def commit_next(self, shard: TransactionShard) -> None:
        if shard is not self.shard:
            return
        ready, answer = self.in_flight.popleft()
        if self.sim.trouble and self.sim.random.random() < 0.05:
            self.commit_late(shard, ready, answer)
            return
        failed = self.sim.trouble and self.sim.random.random() < 0.05
        code = ErrorCode.NOT_ENOUGH_REPLICAS if failed else ErrorCode.NONE
        if not failed:
            for record in ready.records:
                self.log.append(encode(record))
                shard.replay(record)
        if ready.continuations:
            self.take(ready.written(code, self.sim.now))
        if failed:
            if answer is not None:
                answer(write_error(code), None)
        else:
            self.settle(ready, answer)
        self.wake(shard)

    def commit_late(self, shard: TransactionShard, ready: Ready, answer: Callable[..., Any] | None) -> None:
        """The client got REQUEST_TIMED_OUT; then the write is committed after all."""
        self.late.append(ready)
        assert ready.continuations
        self.take(ready.written(ErrorCode.REQUEST_TIMED_OUT, self.sim.now))
        if answer is not None:
            answer(write_error(ErrorCode.REQUEST_TIMED_OUT), None)
        self.wake(shard)

        def arrive() -> None:
            if shard is self.shard:
                self.late.remove(ready)
                for record in ready.records:
                    self.log.append(encode(record))
                    shard.replay(record)
                self.wake(shard)

        self.sim.after(self.sim.random.randrange(10, 3000), arrive)

    def settle(self, ready: Ready, answer: Callable[..., Any] | None = None) -> None:
        for _, response in answers(ready):
            lost = self.sim.trouble and self.sim.random.random() < 0.05
            answer(ErrorCode.REQUEST_TIMED_OUT if lost else ErrorCode.NONE, response)
        sends: tuple[Any, ...] = ready.sends
        for send in sends:
            self.send(self.shard, self.epoch, send, send.partitions)

    def send(
        self, shard: TransactionShard, epoch: int, send: SendMarkers, left: list[Any] | tuple[Any, ...]
    ) -> None:
        """One round of markers; what fails is sent again."""
        if shard is not self.shard and self.sim.random.random() < 0.5:
            return  # the old coordinator's markers may come late, or never
        written, failed = [], []
        for key in left:
            if self.sim.trouble and self.sim.random.random() < 0.2:
                failed.append(key)
                continue
            try:
                self.sim.partitions[key].mark(send, epoch, self.sim.now, self.sim.told_aborted)
            except KafkaError as error:
                assert shard is not self.shard or epoch < self.epoch, f"{error.message}: {send}"
                return
            if self.sim.trouble and self.sim.random.random() < 0.05:
                failed.append(key)  # it was written, but the answer is lost
            else:
                written.append(key)
        if shard is self.shard:
            self.take(
                shard.markers_written(send.transactional_id, send.producer_epoch, written, self.sim.now)
            )
        if failed:
            self.sim.after(RETRY_MS, lambda: self.send(shard, epoch, send, failed))

    def wake(self, shard: TransactionShard) -> None:
        deadline = shard.next_deadline_ms
        if deadline is not None:
            self.sim.at(max(deadline, self.sim.now), lambda: self.tick(shard))

    def tick(self, shard: TransactionShard) -> None:
        if shard is not self.shard:
            return
        while (ready := shard.tick(self.sim.now)) is not None:
            self.take(ready)
        self.wake(shard)


class Producer:
    """A client of either protocol; each incarnation is a separate object, and old ones continue for a while."""

    def __init__(self, sim: Simulation, name: str, version: int) -> None:
        self.sim = sim
        self.name = name
        self.version = version
        self.gone = False
        self.init()

    def again(self, step: Callable[..., Any], delay: int = RETRY_MS) -> None:
        if not self.gone:
            self.sim.after(delay + self.sim.random.randrange(5), step)

    def init(self) -> None:
        if self.gone:
            return
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS, producer_id=-1, producer_epoch=-1
        )

        def step(shard: TransactionShard) -> Ready:
            fresh = self.sim.coordinator.fresh_id(shard.wants_producer_id_to_init(request))
            return shard.init_producer_id(request, fresh, "init", self.sim.now)

        def answer(code: ErrorCode, response: InitProducerIdResponse | None) -> None:
            if code is not ErrorCode.NONE or response.error_code is not ErrorCode.NONE:
                assert code in AGAIN or response.error_code in AGAIN, (code, response)
                self.again(self.init)
                return
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences = dict.fromkeys(PARTITIONS, 0)
            self.again(self.begin)

        self.sim.coordinator.call(step, answer)

    def begin(self) -> None:
        if self.gone or self.sim.is_over:
            return
        self.transaction = (self.name, self.sim.number())
        self.wanted = self.sim.random.sample(PARTITIONS, self.sim.random.randrange(1, 4))
        self.sim.began[self.transaction] = frozenset(self.wanted)
        self.add()

    def add(self) -> None:
        if self.gone:
            return
        wanted = frozenset(self.wanted)

        def answer(code: ErrorCode, response: ErrorCode | None) -> None:
            code = code if code is not ErrorCode.NONE else response
            if code in AGAIN:
                self.again(self.add)
            elif code is not ErrorCode.NONE:
                self.fenced()
            else:
                self.left = list(self.wanted) * self.sim.random.randrange(1, 3)
                self.write()

        self.sim.coordinator.call(
            lambda shard: shard.add_partitions(
                self.name,
                self.producer_id,
                self.epoch,
                wanted,
                client_version=self.version,
                token="add",
                now_ms=self.sim.now,
            ),
            answer,
        )

    def write(self) -> None:
        """One batch: the leader verifies, and appends a moment later."""
        if self.gone:
            return
        if not self.left:
            stalls = self.sim.trouble and self.sim.random.random() < 0.1
            self.again(self.end, 2 * TIMEOUT_MS if stalls else 0)
            return
        key = TopicPartition(*self.left[0])
        partition = self.sim.partitions[key]
        verification = partition.state.verification(
            self.producer_id,
            self.epoch,
            self.sequences[key],
            from_zero=self.version == 2,
            now_ms=self.sim.now,
        )
        code = self.sim.coordinator.shard.verify_partitions(self.name, self.producer_id, self.epoch, (key,))[
            key
        ]
        if code in AGAIN:
            self.again(self.write)
            return
        if code is not ErrorCode.NONE:
            self.fenced()
            return
        producer_id, epoch, sequence, transaction = (
            self.producer_id,
            self.epoch,
            self.sequences[key],
            self.transaction,
        )

        def straggle() -> None:
            with contextlib.suppress(KafkaError):
                partition.append(producer_id, epoch, sequence, transaction, verification, self.sim.now)

        def append() -> None:
            try:
                partition.append(producer_id, epoch, sequence, transaction, verification, self.sim.now)
            except KafkaError:
                self.fenced()
                return
            self.sequences[key] += 1
            self.left.pop(0)
            self.write()

        if self.sim.trouble and self.sim.random.random() < 0.05:
            # The request is lost somewhere: the client gives the transaction up, and then the batch arrives (KIP-890).
            self.sim.after(self.sim.random.randrange(300), straggle)
            self.commits = False
            self.end_again()
        else:
            self.sim.after(self.sim.random.choice((0, 1, 30)), append)

    def end(self) -> None:
        if self.gone:
            return
        self.commits = self.sim.random.random() < 0.7
        self.end_again()

    def end_again(self) -> None:
        if self.gone:
            return
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=self.commits,
        )

        def step(shard: TransactionShard) -> Ready:
            fresh = self.sim.coordinator.fresh_id(shard.wants_producer_id_to_end(request, self.version))
            return shard.end(request, self.version, fresh, "end", self.sim.now)

        def answer(code: ErrorCode, response: EndTxnResponse | None) -> None:
            if code in AGAIN or (response is not None and response.error_code in AGAIN):
                self.again(self.end_again)
            elif response is None or response.error_code is not ErrorCode.NONE:
                self.fenced()
            else:
                self.ended(response)

        self.sim.coordinator.call(step, answer)

    def ended(self, response: EndTxnResponse) -> None:
        told = self.sim.told_committed if self.commits else self.sim.told_aborted
        told.add(self.transaction)
        if self.version == 2:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences = dict.fromkeys(PARTITIONS, 0)
        # After an abort it is unknown which batches arrived, so the epoch grows.
        self.again(self.begin if self.commits or self.version == 2 else self.init, 0)

    def fenced(self) -> None:
        """A newer incarnation has it, or the time was over: a new one is made, unless that has happened."""
        self.gone = True
        self.sim.replace(self)


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.events = []
        self.sequence = 0
        self.numbers = 0
        self.level = self.random.choice((0, 2))
        self.began, self.told_committed, self.told_aborted = {}, set(), set()
        self.partitions = {key: Partition(key) for key in PARTITIONS}
        self.coordinator = Coordinator(self)
        self.producers = [Producer(self, f"p{n}", (0, 2)[n % 2]) for n in range(4)]

    @property
    def trouble(self) -> bool:
        return self.now < TROUBLE_MS

    @property
    def is_over(self) -> bool:
        return self.now > TROUBLE_MS + CALM_MS // 2

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def at(self, when: int, action: Callable[..., Any]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (when, self.sequence, action))

    def after(self, delay: int, action: Callable[..., Any]) -> None:
        self.at(self.now + delay, action)

    def replace(self, old: Producer) -> None:
        if old in self.producers:
            self.producers.remove(old)
            self.after(
                self.random.randrange(200),
                lambda: self.producers.append(Producer(self, old.name, old.version)),
            )

    def disturb(self) -> None:
        if not self.trouble:
            return
        if self.random.random() < 0.5:
            self.coordinator.crash()
        elif self.producers:
            old = self.random.choice(self.producers)
            self.replace(old)  # and the old one does not know
            if self.random.random() < 0.5:
                old.gone = True
        self.after(self.random.randrange(1, 700), self.disturb)

    def run(self) -> None:
        self.after(50, self.disturb)
        while self.events and self.events[0][0] <= TROUBLE_MS + CALM_MS:
            self.now, _, action = heapq.heappop(self.events)
            action()

    def check_end(self) -> None:
        for partition in self.partitions.values():
            assert not partition.open, f"{partition.key} has an open transaction for ever"
            assert partition.stable == len(partition.data)
        outcomes = {}
        for partition in self.partitions.values():
            for offset, transaction in enumerate(partition.data):
                if transaction is not None:
                    outcomes.setdefault(transaction, set()).add(partition.decided[offset])
        torn = {transaction for transaction, seen in outcomes.items() if len(seen) > 1}
        assert not torn, f"half committed: {torn}"
        for transaction in self.told_committed:
            for key in self.began[transaction]:
                assert transaction in self.partitions[key].committed(), f"{transaction} is missing in {key}"
        for transaction in self.told_aborted:
            assert outcomes.get(transaction, {False}) == {False}
        assert self.told_committed, "somebody must have got through"
        statuses = {name: known.status for name, known in self.coordinator.shard._transactions.items()}
        unfinished = (
            TransactionStatus.ONGOING,
            TransactionStatus.PREPARE_COMMIT,
            TransactionStatus.PREPARE_ABORT,
        )
        assert not [name for name, status in statuses.items() if status in unfinished], statuses


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_or_nothing(seed: int) -> None:
    """To run one seed: pytest 'tests/sim/test_sim_transactions.py::test_all_or_nothing[SEED]'"""
    simulation = Simulation(seed)
    simulation.run()
    simulation.check_end()
