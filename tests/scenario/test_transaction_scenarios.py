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
    answers id=x [rotated=producer/epoch]    the answer to every request of every producer, without its effects

`answers` prints a table. A row is a request. A column is a producer, named by its distance from the present epoch:
`same`, `previous` (one less), `older` (two less), `next` (one more), and `other`, which has another producer id. A cell
is a shortened error code, or the state that the request writes and the producer id and epoch that its response has.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
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

    # The table of answers

    def _do_answers(self, words: list[str]) -> None:
        given = pairs(words)
        known = self.shard.describe(given["id"])
        own, epoch = known.producer_id, known.producer_epoch
        producers = {
            "same": (own, epoch),
            "previous": (own, epoch - 1),
            "older": (own, epoch - 2),
            "next": (own, epoch + 1),
            "other": (own + 50, epoch),
        }
        if "rotated" in given:
            number, _, last = given["rotated"].partition("/")
            producers = {"rotated": (int(number), int(last))}
        self.out.append(_row(["", *producers]))
        if "rotated" not in given:
            self.out.append(_row(["init without id", self._cell(given["id"], "init", (-1, -1))]))
        for command in _ASKED:
            cells = [self._cell(given["id"], command, producer) for producer in producers.values()]
            self.out.append(_row([command, *cells]))

    def _cell(self, transactional_id: str, command: str, producer: tuple[int, int]) -> str:
        """The effects of a command on a copy of this world."""
        verb, *rest = command.split()
        token = [] if verb == "verify" else ["token"]
        asked = [
            verb,
            *token,
            f"id={transactional_id}",
            f"producer={producer[0]}",
            f"epoch={producer[1]}",
            *rest,
        ]
        twin = copy.deepcopy(self)
        return _cell(twin.run(" ".join(asked)))

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
    parts = [after.status.label, f"{after.producer_id}/{after.producer_epoch}"]
    parts += [f"{topic}-{number}" for topic, number in sorted(after.partitions)]
    defaults = Transaction(producer_id=0, producer_epoch=0, timeout_ms=60000, update_ms=0)
    hidden = ("producer_id", "producer_epoch", "status", "partitions", "update_ms")
    for field in dataclasses.fields(after):
        value = getattr(after, field.name)
        if field.name not in hidden and value != getattr(defaults, field.name):
            parts.append(f"{field.name}={value}")
    return " ".join(parts)


def _partitions(words: list[str]) -> list[TopicPartition]:
    return [partition(word) for word in words if "=" not in word]


_ASKED = (
    "init",
    "add t-0",
    "add t-9",
    "verify t-0",
    "end commit=yes",
    "end commit=no",
    "end commit=yes tv=2",
    "end commit=no tv=2",
)
_SHORT = {
    "CONCURRENT_TRANSACTIONS": "CONCURRENT",
    "INVALID_PRODUCER_ID_MAPPING": "ID_MAPPING",
    "INVALID_TXN_STATE": "TXN_STATE",
    "PRODUCER_FENCED": "FENCED",
    "TRANSACTION_ABORTABLE": "ABORTABLE",
}
_WIDTHS = (21, 25, 25, 25, 25, 25)


def _row(cells: list[str]) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)).rstrip()


def _cell(effects: list[str]) -> str:
    """One word for each effect: a state that is written, and the error code or the producer of a response."""
    return " ".join(_words(effects))


def _words(effects: list[str]) -> Iterator[str]:
    for effect in effects:
        if written := _WRITTEN.search(effect):
            yield written[1]
        elif code := _CODE.search(effect):
            yield _SHORT.get(code[1], code[1])
        elif answer := _ANSWER.search(effect):
            found = pairs(answer[1].split())
            yield f"-> {found['producer_id']}/{found.get('producer_epoch', '0')}" if found else "NONE"


_WRITTEN = re.compile(r"^(?:log|held) \w+: (\w+) ")
_CODE = re.compile(r"(?:error_code=|^\w+ <- |^t-\d )([A-Z_]+)(?:[ )]|$)")
_ANSWER = re.compile(r"Response\((.*)\)$")

FILES = files("transaction")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, TransactionWorld())
