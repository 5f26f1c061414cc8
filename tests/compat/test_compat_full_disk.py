"""A disk that takes no more bytes: the broker says so, halts, and has everything it acknowledged when it comes back."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

FILE_SIZE_MAX_BYTES = 300_000
RECORD_BYTES = 10_000


def test_a_full_disk_halts_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    acked: dict[int, bytes] = {}
    failures: set[int] = set()

    def delivered(error: KafkaError | None, message) -> None:
        if error is None:
            acked[message.offset()] = message.value()
        else:
            failures.add(error.code())

    settings = {"message.timeout.ms": 3000, "batch.num.messages": 1, "linger.ms": 0, "acks": "all"}
    with BrokerProcess(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
        del admin
        producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
        assert broker.process is not None
        # A limit on the size of files: the kernel refuses the write (EFBIG) as it would on a full disk (ENOSPC).
        resource.prlimit(
            broker.process.pid, resource.RLIMIT_FSIZE, (FILE_SIZE_MAX_BYTES, FILE_SIZE_MAX_BYTES)
        )
        for number in range(FILE_SIZE_MAX_BYTES // RECORD_BYTES + 10):
            producer.produce("t", b"%06d" % number + bytes(RECORD_BYTES), on_delivery=delivered)
            producer.poll(0.01)
        assert broker.wait(20) == 1, "the last log directory has failed"
        producer.flush(5)
        producer.purge()
        log = broker.log_path.read_text()
        assert "File too large" in log
        assert "Shutting down: " in log

        broker.start()
        assert failures
        assert len(acked) > 5
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "check.crcs": True})
        consumer.assign([TopicPartition("t", 0, 0)])
        stored: dict[int, bytes] = {}
        while len(stored) < len(acked):
            messages = consumer.consume(100, 5)
            assert messages, f"{len(acked)} were acknowledged, {len(stored)} came back"
            stored.update({message.offset(): message.value() for message in messages})
        consumer.close()
        assert {offset: stored.get(offset) for offset in acked} == acked
