"""Every rule of the transaction coordinator as a story: tests/scenario/transaction_*.txt.

A producer id that the shard asks for counts up from 1. Commands beside those of every world (stories.py):

    init TOKEN id=x [producer= epoch= timeout=]
    add TOKEN id=x producer= epoch= [tv=2] topic-partition …
    verify id=x producer= epoch= topic-partition …
    end TOKEN id=x producer= epoch= commit=yes|no [tv=2]
    marked id=x epoch= topic-partition …     these markers are in their logs
    spend id=x epoch=n                       the id's epoch as if it had been bumped so often, in the log
    level n                                  transaction.version is finalized at n from now on; 2 before that
    late | arrive                            the oldest write held back times out; it is committed after all
    describe x | list [state=] [producer=] [longer=] [pattern=]
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kcli.coordinator.runtime import Ready
from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.questions import Filter
from kcli.coordinator.transaction.records import TransactionRecord, decode, encode
from kcli.coordinator.transaction.shard import SendMarkers, TransactionShard
from kcli.coordinator.transaction.state import Transaction
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from rigs.answers import answers
from rigs.scenarios import World, check, files, pairs, partition, show


class TransactionWorld(World):
    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def __init__(self) -> None:
        self._fresh = 0
        self._level = 2
        self._late: list[Ready[TransactionRecord]] = []
        super().__init__(TransactionConfig())

    def load(self) -> TransactionShard:
        return TransactionShard(self.config, lambda: self._level)

    # Commands

    def _do_init(self, words: list[str]) -> None:
        given = pairs(words)
        request = InitProducerIdRequest(
            transactional_id=given["id"],
            transaction_timeout_ms=int(given.get("timeout", "60000")),
            producer_id=int(given.get("producer", "-1")),
            producer_epoch=int(given.get("epoch", "-1")),
        )
        fresh = self._fresh_id(self.shard.wants_producer_id_to_init(request))
        self.take(self.shard.init_producer_id(request, fresh, words[0], self.now_ms))

    def _fresh_id(self, is_wanted: bool) -> int | None:
        if not is_wanted:
            return None
        self._fresh += 1
        return self._fresh

    def _do_add(self, words: list[str]) -> None:
        given = pairs(words)
        ready = self.shard.add_partitions(
            given["id"],
            int(given["producer"]),
            int(given["epoch"]),
            frozenset(_partitions(words[1:])),
            client_version=int(given.get("tv", "0")),
            token=words[0],
            now_ms=self.now_ms,
        )
        self.take(ready)

    def _do_verify(self, words: list[str]) -> None:
        given = pairs(words)
        found = self.shard.verify_partitions(
            given["id"], int(given["producer"]), int(given["epoch"]), _partitions(words)
        )
        self.out.extend(f"{topic}-{number} {code.name}" for (topic, number), code in found.items())

    def _do_end(self, words: list[str]) -> None:
        given = pairs(words)
        version = int(given.get("tv", "0"))
        request = EndTxnRequest(
            transactional_id=given["id"],
            producer_id=int(given["producer"]),
            producer_epoch=int(given["epoch"]),
            committed=given["commit"] == "yes",
        )
        fresh = self._fresh_id(self.shard.wants_producer_id_to_end(request, version))
        self.take(self.shard.end(request, version, fresh, words[0], self.now_ms))

    def _do_marked(self, words: list[str]) -> None:
        given = pairs(words)
        partitions = _partitions(words)
        self.take(self.shard.markers_written(given["id"], int(given["epoch"]), partitions, self.now_ms))

    def _do_spend(self, words: list[str]) -> None:
        given = pairs(words)
        record = self.values_of(lambda record: record.transactional_id == given["id"])[-1]
        assert record.transaction is not None
        spent = dataclasses.replace(record.transaction, producer_epoch=int(given["epoch"]))
        self.take(Ready((TransactionRecord(given["id"], spent),)))

    def _do_level(self, words: list[str]) -> None:
        self._level = int(words[0])

    def _do_late(self, _words: list[str]) -> None:
        """The client of the oldest write gets REQUEST_TIMED_OUT; the write is committed nevertheless."""
        ready = self._held.pop(0)
        assert ready.continuations
        self.take(ready.written(ErrorCode.REQUEST_TIMED_OUT, self.now_ms))
        self.out.extend(f"{token} timed out" for token, _ in answers(ready))
        self._late.append(ready)

    def _do_arrive(self, _words: list[str]) -> None:
        self._committed(Ready(self._late.pop(0).records))

    def _do_describe(self, words: list[str]) -> None:
        self.out.append(show(self.shard.describe(words[0])))

    def _do_list(self, words: list[str]) -> None:
        given = pairs(words)
        wanted = Filter(
            producer_ids={int(each) for each in given["producer"].split(",")}
            if "producer" in given
            else None,
            states=given["state"].split(",") if "state" in given else None,
            duration_ms=int(given.get("longer", "-1")),
        )
        found = self.shard.list_transactions(wanted, self.now_ms)
        self.out.extend(show(each) for each in found if each is not None)

    # How things are shown

    def show_record(self, record: TransactionRecord) -> str:
        after = record.transaction
        said = "deleted" if after is None else show_transaction(after)
        return f"{record.transactional_id}: {said}"

    def show_send(self, send: object) -> str:
        assert isinstance(send, SendMarkers)
        what = "commit" if send.committed else "abort"
        where = " ".join(f"{topic}-{number}" for topic, number in send.partitions)
        epoch = f"{send.producer_id}/{send.producer_epoch}"
        return f"send {what} of {send.transactional_id} {epoch}: {where or 'nowhere'}"


def show_transaction(after: Transaction) -> str:
    parts = [after.state.label, f"{after.producer_id}/{after.producer_epoch}"]
    parts += [f"{topic}-{number}" for topic, number in sorted(after.partitions)]
    defaults = Transaction(producer_id=0, producer_epoch=0, timeout_ms=60000, update_ms=0)
    hidden = ("producer_id", "producer_epoch", "state", "partitions", "update_ms")
    for field in dataclasses.fields(after):
        value = getattr(after, field.name)
        if field.name not in hidden and value != getattr(defaults, field.name):
            parts.append(f"{field.name}={value}")
    return " ".join(parts)


def _partitions(words: list[str]) -> list[TopicPartition]:
    return [partition(word) for word in words if "=" not in word]


FILES = files("transaction")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, TransactionWorld())
