"""Every rule of the transaction coordinator as a story: tests/scenario/transaction_*.txt.

The form is that of the group scenarios: `> command`, then what the shard does about it; KCLI_REWRITE_SCENARIOS=1 writes
what really happened. A producer id that the shard asks for counts up from 1. Commands:

    config key=value …                       before anything else
    init TOKEN id=x [producer= epoch= timeout=]
    add TOKEN id=x producer= epoch= [tv=2] topic-partition …
    verify id=x producer= epoch= topic-partition …
    end TOKEN id=x producer= epoch= commit=yes|no [tv=2]
    marked id=x epoch= topic-partition …     these markers are in their logs
    spend id=x epoch=n                       the id's epoch as if it had been bumped so often, in the log
    describe x | list [state=] [producer=] [longer=] [pattern=]
    +ms                                      time passes, deadline by deadline
    hold | flush | fail CODE                 keep writes back; commit them; have the oldest fail
    restart                                  the shard is loaded again from its log
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_classic_group_scenarios import show

from kcli.coordinator.runtime import Ready
from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.records import TransactionRecord, decode, encode
from kcli.coordinator.transaction.shard import SendMarkers, TransactionReady, TransactionShard
from kcli.coordinator.transaction.state import Transaction
from kcli.errors import ErrorCode
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_transactions import ListTransactionsRequest

TopicPartition = tuple[str, int]


class World:
    def __init__(self) -> None:
        self._config = TransactionConfig()
        self._now_ms = 0
        self._fresh = 0
        self._log: list[tuple[bytes, bytes | None]] = []
        self._held: list[TransactionReady] = []
        self._holding = False
        self._out: list[str] = []
        self._shard = self._new_shard()

    def run(self, command: str) -> list[str]:
        self._out = []
        verb, *words = command.split()
        if verb.startswith("+"):
            self._pass_time(int(verb[1:]))
        else:
            getattr(self, f"_do_{verb}")(words)
        return self._out

    def _new_shard(self) -> TransactionShard:
        shard = TransactionShard(self._config)
        for key, value in self._log:
            record = decode(key, value)
            assert record is not None
            shard.replay(record)
        self._committed(shard.start(self._now_ms))
        return shard

    # Commands

    def _do_config(self, words: list[str]) -> None:
        given = {key: int(value) for key, value in _pairs(words).items()}
        self._config = dataclasses.replace(self._config, **given)
        self._shard = self._new_shard()

    def _do_init(self, words: list[str]) -> None:
        given = _pairs(words)
        request = InitProducerIdRequest(
            transactional_id=given["id"],
            transaction_timeout_ms=int(given.get("timeout", "60000")),
            producer_id=int(given.get("producer", "-1")),
            producer_epoch=int(given.get("epoch", "-1")),
        )
        fresh = self._fresh_id(self._shard.wants_producer_id_to_init(request))
        self._take(self._shard.init_producer_id(request, fresh, words[0], self._now_ms))

    def _fresh_id(self, is_wanted: bool) -> int | None:
        if not is_wanted:
            return None
        self._fresh += 1
        return self._fresh

    def _do_add(self, words: list[str]) -> None:
        given = _pairs(words)
        ready = self._shard.add_partitions(
            given["id"],
            int(given["producer"]),
            int(given["epoch"]),
            frozenset(_partitions(words[1:])),
            client_version=int(given.get("tv", "0")),
            token=words[0],
            now_ms=self._now_ms,
        )
        self._take(ready)

    def _do_verify(self, words: list[str]) -> None:
        given = _pairs(words)
        found = self._shard.verify_partitions(
            given["id"], int(given["producer"]), int(given["epoch"]), _partitions(words)
        )
        self._out.extend(f"{topic}-{number} {code.name}" for (topic, number), code in found.items())

    def _do_end(self, words: list[str]) -> None:
        given = _pairs(words)
        version = int(given.get("tv", "0"))
        request = EndTxnRequest(
            transactional_id=given["id"],
            producer_id=int(given["producer"]),
            producer_epoch=int(given["epoch"]),
            committed=given["commit"] == "yes",
        )
        fresh = self._fresh_id(self._shard.wants_producer_id_to_end(request, version))
        self._take(self._shard.end(request, version, fresh, words[0], self._now_ms))

    def _do_marked(self, words: list[str]) -> None:
        given = _pairs(words)
        partitions = _partitions(words)
        self._take(self._shard.markers_written(given["id"], int(given["epoch"]), partitions, self._now_ms))

    def _do_spend(self, words: list[str]) -> None:
        given = _pairs(words)
        record = decode(*[each for each in self._log if decode(*each).transactional_id == given["id"]][-1])
        assert record is not None and record.transaction is not None
        spent = dataclasses.replace(record.transaction, producer_epoch=int(given["epoch"]))
        self._committed(Ready((TransactionRecord(given["id"], spent),)))

    def _do_describe(self, words: list[str]) -> None:
        self._out.append(show(self._shard.describe(words[0])))

    def _do_list(self, words: list[str]) -> None:
        given = _pairs(words)
        request = ListTransactionsRequest(
            state_filters=tuple(filter(None, given.get("state", "").split(","))),
            producer_id_filters=tuple(int(each) for each in given.get("producer", "").split(",") if each),
            duration_filter=int(given.get("longer", "-1")),
        )
        pattern = re.compile(given["pattern"]) if "pattern" in given else None
        found = self._shard.list_transactions(request, pattern, self._now_ms)
        self._out.extend(show(each) for each in found)

    def _do_hold(self, _words: list[str]) -> None:
        self._holding = True

    def _do_flush(self, _words: list[str]) -> None:
        self._holding = False
        held, self._held = self._held, []
        for ready in held:
            self._committed(ready)

    def _do_fail(self, words: list[str]) -> None:
        ready = self._held.pop(0)
        code = ErrorCode[words[0]]
        assert ready.on_written is not None
        self._take(ready.on_written(code, self._now_ms))
        self._out.extend(f"{token} fails {code.name}" for token, _ in ready.replies)

    def _do_restart(self, _words: list[str]) -> None:
        self._shard = self._new_shard()

    # Time and the log

    def _pass_time(self, duration_ms: int) -> None:
        end_ms = self._now_ms + duration_ms
        while (deadline_ms := self._shard.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self._now_ms = max(self._now_ms, deadline_ms)
            before = len(self._out)
            for ready in self._shard.tick(self._now_ms):
                self._take(ready)
            self._out[before:] = [f"[{self._now_ms}] {line}" for line in self._out[before:]]
        self._now_ms = end_ms

    def _take(self, ready: TransactionReady) -> None:
        if ready.records and self._holding:
            self._held.append(ready)
            self._out.extend(f"held {show_record(record)}" for record in ready.records)
        else:
            self._committed(ready)

    def _committed(self, ready: TransactionReady) -> None:
        for record in ready.records:
            self._out.append(f"log {show_record(record)}")
            self._log.append(encode(record))
            self._shard.replay(record)
        if ready.on_written is not None:
            self._take(ready.on_written(ErrorCode.NONE, self._now_ms))
        self._out.extend(f"{token} <- {show(response)}" for token, response in ready.replies)
        for send in ready.sends:
            assert isinstance(send, SendMarkers)
            what = "commit" if send.committed else "abort"
            where = " ".join(f"{topic}-{number}" for topic, number in send.partitions)
            epoch = f"{send.producer_id}/{send.producer_epoch}"
            self._out.append(f"send {what} of {send.transactional_id} {epoch}: {where or 'nowhere'}")


def show_record(record: TransactionRecord) -> str:
    after = record.transaction
    if after is None:
        return f"{record.transactional_id}: deleted"
    return f"{record.transactional_id}: {show_transaction(after)}"


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


def _pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _partitions(words: list[str]) -> list[TopicPartition]:
    return [(word.rpartition("-")[0], int(word.rpartition("-")[2])) for word in words if "=" not in word]


def replayed(text: str) -> str:
    world = World()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines.append(line)
            lines.extend(f"  {said}" for said in world.run(line[1:].strip()))
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


FILES = sorted(Path(__file__).parent.glob("transaction_*.txt"))


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    actual = replayed(expected)
    if os.environ.get("KCLI_REWRITE_SCENARIOS") == "1":
        path.write_text(actual)
    assert actual == expected
