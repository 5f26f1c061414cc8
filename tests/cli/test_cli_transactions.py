"""kafka-transactions on a real broker: what it lists, and transactions that it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.cli.main import run
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tool(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs the tool; (exit code, stdout, stderr)."""

    def call(words: str) -> tuple[int, str, str]:
        code = run(["transactions", "--bootstrap-server", broker.bootstrap, *words.split()])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def left_open(broker: BrokerProcess) -> Iterator[Producer]:
    """A producer in the middle of a transaction in tx-topic-0, with id `cli-tx`."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "cli-tx"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("tx-topic", b"x", partition=0)
    producer.flush(60)
    yield producer


def rows(out: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("\t")] for line in out.splitlines()][1:]


def test_a_transaction_is_shown_and_force_terminated(tool: Tool, left_open: Producer) -> None:
    code, out, _ = tool("list --transactional-id-pattern cli-.*")
    assert code == 0
    assert [(row[0], row[3]) for row in rows(out)] == [("cli-tx", "Ongoing")]
    _, out, _ = tool("describe --transactional-id cli-tx")
    (row,) = rows(out)
    assert (row[1], row[4], row[8]) == ("cli-tx", "Ongoing", "tx-topic-0")
    _, out, _ = tool("find-hanging --topic tx-topic --max-transaction-timeout 0")
    assert rows(out) == []  # its coordinator knows of it
    assert tool("forceTerminateTransaction --transactionalId cli-tx")[0] == 0
    _, out, _ = tool("list")
    assert ("cli-tx", "Empty") in [(row[0], row[3]) for row in rows(out)]


def test_a_transaction_is_aborted_in_one_partition(tool: Tool, left_open: Producer) -> None:
    _, out, _ = tool("describe-producers --topic tx-topic --partition 0")
    (start,) = [row[5] for row in rows(out) if row[5] != "None"]
    code, out, err = tool("abort --topic tx-topic --partition 0 --start-offset 12345")
    assert (code, out) == (1, "")
    assert err == "Could not find any open transactions starting at offset 12345 on partition tx-topic-0\n"
    assert tool(f"abort --topic tx-topic --partition 0 --start-offset {start}")[0] == 0
    _, out, _ = tool("describe-producers --topic tx-topic --partition 0")
    assert {row[5] for row in rows(out)} == {"None"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("abort --topic t --partition 0", "The transaction to abort must be identified either with"),
        ("abort --topic t --partition 0 --producer-id 1", "Missing required argument --producer-epoch\n"),
        (
            "abort --topic t --partition 0 --producer-id 1 --producer-epoch 1",
            "Missing required argument --coordinator-epoch\n",
        ),
        ("find-hanging", "The `find-hanging` command requires either --topic or --broker-id"),
        (
            "find-hanging --broker-id 1 --partition 3",
            "The --partition argument requires --topic to be provided",
        ),
        (
            "abort --topic t --partition 0 --producer-id 1 --producer-epoch 40000 --coordinator-epoch 0",
            "usage: ",
        ),
        ("list --transactional-id-pattern [", "Failed to list transactions: ListTransactions request sent"),
        ("describe --transactional-id nobody", "Failed to describe transaction state of transactional-id"),
    ],
)
def test_invalid_command_lines_are_named(tool: Tool, left_open: Producer, words: str, message: str) -> None:
    code, out, err = tool(words)
    assert (code, out) == (1, "")
    assert err.startswith(message)


def test_a_hanging_transaction_is_found_and_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log has records of a transaction that no coordinator knows, so no coordinator will ever end it."""
    with BrokerProcess(tmp_path) as broker:

        def tool(words: str) -> tuple[int, str, str]:
            code = run(["transactions", "--bootstrap-server", broker.bootstrap, *words.split()])
            return (code, *capsys.readouterr())

        create = ["topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t"]
        assert run(create) == 0
        broker.kill()
        twenty_minutes_ago = int(time.time() * 1000) - 20 * 60_000
        written = encode_batch(
            [Record(-1, twenty_minutes_ago, None, b"hangs")],
            producer_id=4242,
            producer_epoch=3,
            base_sequence=0,
            transactional=True,
        )
        (tmp_path / "data" / "t-0" / f"{0:020}.log").write_bytes(written)
        broker.start()
        capsys.readouterr()

        assert rows(tool("find-hanging --broker-id 1 --max-transaction-timeout 21")[1]) == []
        for scope in ("--broker-id 1", "--topic t", "--topic t --partition 0"):
            (row,) = rows(tool(f"find-hanging {scope}")[1])
            expected = ["t", "0", "4242", "3", "-1", "0", str(twenty_minutes_ago), "20"]
            assert row[: len(expected)] == expected
        code, out, err = tool(
            "abort --topic t --partition 0 --producer-id 4242 --producer-epoch 2 --coordinator-epoch -1"
        )
        assert (code, out) == (1, "")
        assert err.startswith(
            "Failed to abort transaction AbortTransactionSpec(topicPartition=t-0, producerId=4242, "
            "producerEpoch=2, coordinatorEpoch=0): "
        )
        assert len(rows(tool("find-hanging --topic t")[1])) == 1
        words = "abort --topic t --partition 0 --producer-id 4242 --producer-epoch 3 --coordinator-epoch -1"
        assert tool(words) == (0, "", "")
        assert rows(tool("find-hanging --topic t")[1]) == []
        (row,) = rows(tool("describe-producers --topic t --partition 0")[1])
        assert row[:3] + row[5:6] == ["4242", "3", "0", "None"]


def test_the_performance_test_commits_as_often_as_asked(broker: BrokerProcess) -> None:
    words = (
        "--topic tx-perf --num-records 600 --throughput 1000 --record-size 10 --transaction-duration-ms 50"
    )
    assert run(["producer-perf-test", "--bootstrap-server", broker.bootstrap, *words.split()]) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "tx-perf"})
    _, end = consumer.get_watermark_offsets(TopicPartition("tx-perf", 0), 20)
    consumer.close()
    # 0.6 s at that pace; each commit left one marker. A slow machine may take longer for each, but not for all of it.
    assert 3 <= end - 600 <= 12
