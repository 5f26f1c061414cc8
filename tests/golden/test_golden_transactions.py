"""Transactions that Apache Kafka 4.1 left behind: its records come out as they went in, what it left open is ended."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.client.admin.transactions import TransactionListing
from kcli.coordinator.transaction.records import decode, encode
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, decode_control, encode_marker_batch
from kcli.protocol.batches.legacy import Record
from kcli.testing.broker_process import BrokerProcess

GOLDEN = Path(__file__).resolve().parents[2] / ".." / "shared" / "golden" / "logdir-clean"

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recordings of Kafka 4.1 are absent")


def records(directory: str) -> Iterator[Record]:
    for path in sorted((GOLDEN / directory).glob("*.log")):
        raw = path.read_bytes()
        for position, header in iter_batches(raw):
            if not header.is_control:
                yield from read_records(raw, position)


@pytest.mark.parametrize("partition", range(3))
def test_records_of_transaction_state_are_written_byte_for_byte(partition: int) -> None:
    compared = 0
    for record in records(f"__transaction_state-{partition}"):
        assert record.key is not None
        found = decode(record.key, record.value)
        assert found is not None
        topics = {topic for topic, _ in found.transaction.partitions} if found.transaction else set()
        if len(topics) < 2:  # the order of several is that of a Scala set
            assert encode(found) == (record.key, record.value)
            compared += 1
    assert compared


@pytest.mark.parametrize("directory", ["txn-a-0", "txn-b-0", "compact-txn-0", "__consumer_offsets-1"])
def test_markers_are_written_byte_for_byte(directory: str) -> None:
    compared = 0
    for path in sorted((GOLDEN / directory).glob("*.log")):
        raw = path.read_bytes()
        for position, header in iter_batches(raw):
            if not header.is_control or not header.records_count or header.has_delete_horizon:
                continue
            (record,) = read_records(raw, position)
            marker = decode_control(record.key, record.value)
            assert isinstance(marker, EndTransactionMarker)
            made = encode_marker_batch(
                marker,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                timestamp_ms=record.timestamp_ms,
                base_offset=header.base_offset,
                leader_epoch=header.partition_leader_epoch,
            )
            assert made == raw[position : position + header.size_bytes]
            compared += 1
    assert compared


@pytest.mark.compat
def test_a_transaction_that_kafka_left_open_is_aborted(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "data")
    overrides = {
        "log.retention.hours": "-1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
    }
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = broker_state(broker)
            if found == {"txn-id-3": "CompleteAbort"}:
                break
            time.sleep(0.2)
        assert found == {"txn-id-3": "CompleteAbort"}


def broker_state(broker: BrokerProcess) -> dict[str, str]:
    """The state of the transaction that was left open."""
    import asyncio

    from kcli.client.admin.admin import AdminClient
    from kcli.client.config import client_config

    async def ask() -> list[TransactionListing]:
        async with AdminClient(client_config({}, bootstrap_servers=broker.bootstrap)) as admin:
            return await admin.list_transactions(pattern="txn-id-3")

    return {each.transactional_id: each.state for each in asyncio.run(ask())}
