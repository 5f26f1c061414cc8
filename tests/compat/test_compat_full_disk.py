"""A disk that takes no more bytes: producers hear of it, and when there is space again nothing acknowledged is lost.

As in Kafka a log directory is offline after the first write that fails, and a broker halts with its last one; service
comes back with the next start.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcli.runtime.disk import SystemDisk
from kcli.testing.broker_process import BrokerProcess
from simulation.checks.dump_check import dump_complaints

pytestmark = pytest.mark.compat

FILE_SIZE_MAX_BYTES = 300_000
DISK_BYTES = 4 << 20
RECORD_BYTES = 10_000
PRODUCER = {"message.timeout.ms": 3000, "batch.num.messages": 1, "linger.ms": 0, "acks": "all"}


class Written:
    """What was acknowledged, by partition and offset, and the errors of what was not."""

    def __init__(self, broker: BrokerProcess, partitions: int) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", partitions, 1)])["t"].result(30)
        del admin
        self.partitions = partitions
        self.acked: dict[tuple[int, int], bytes] = {}
        self.failures: list[int] = []
        self.number = 0
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, **PRODUCER})

    def produce(self, count: int, *, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(count):
            if until():
                return
            self.number += 1
            self._producer.produce(
                "t",
                b"%06d" % self.number + bytes(RECORD_BYTES),
                partition=self.number % self.partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0.01)

    def flush(self) -> None:
        self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked[message.partition(), message.offset()] = message.value()
        else:
            self.failures.append(error.code())

    def check_all_there(self, broker: BrokerProcess) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "check.crcs": True})
        consumer.assign([TopicPartition("t", number, 0) for number in range(self.partitions)])
        stored: dict[tuple[int, int], bytes] = {}
        deadline = time.monotonic() + 60
        while not self.acked.keys() <= stored.keys():
            assert time.monotonic() < deadline, (
                f"{len(self.acked)} were acknowledged, {len(stored)} came back"
            )
            messages = consumer.consume(100, 0.5)
            stored.update({(each.partition(), each.offset()): each.value() for each in messages})
        consumer.close()
        assert {place: stored[place] for place in self.acked} == self.acked


def check_files(directory: Path) -> None:
    """Of a broker that was stopped."""
    for partition in directory.glob("*-[0-9]"):
        assert dump_complaints(SystemDisk(), str(partition)) == ""


def test_a_full_disk_halts_the_broker_and_loses_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        written = Written(broker, 1)
        assert broker.process is not None
        # A limit on the size of files: the kernel refuses the write (EFBIG) as it would on a full disk (ENOSPC).
        resource.prlimit(
            broker.process.pid, resource.RLIMIT_FSIZE, (FILE_SIZE_MAX_BYTES, FILE_SIZE_MAX_BYTES)
        )
        written.produce(FILE_SIZE_MAX_BYTES // RECORD_BYTES + 10)
        assert broker.wait(60) == 1, "the last log directory has failed"
        log = broker.log_path.read_text()
        assert "File too large" in log
        assert "Shutting down: " in log
        written.flush()
        assert written.failures
        broker.start()
        assert len(written.acked) > 5
        written.check_all_there(broker)
    check_files(tmp_path / "data")


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_the_only_disk_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(DISK_BYTES // 2))
        with BrokerProcess(tmp_path / "broker", {"log.dirs": str(disk / "data")}) as broker:
            written = Written(broker, 2)
            process = broker.process
            assert process is not None
            written.produce(DISK_BYTES // RECORD_BYTES, until=lambda: process.poll() is not None)
            assert broker.wait(60) == 1
            assert "No space left on device" in broker.log_path.read_text()
            filler.unlink()
            broker.start()
            written.flush()
            acked = len(written.acked)
            written.produce(20)
            written.flush()
            assert len(written.acked) == acked + 20, "service has resumed"
            written.check_all_there(broker)
            assert broker.stop() == 0
        check_files(disk / "data")


def test_one_of_two_disks_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(DISK_BYTES // 2))
        directories = [tmp_path / "large", disk / "data"]
        overrides = {"log.dirs": ",".join(map(str, directories))}
        with BrokerProcess(tmp_path / "broker", overrides) as broker:
            written = Written(broker, 4)
            on_small = {int(path.name[2:]) for path in directories[1].glob("t-*")}
            assert len(on_small) == 2, "partitions are spread over the directories"
            written.produce(4 * DISK_BYTES // RECORD_BYTES // 2, until=lambda: bool(written.failures))
            written.flush()
            assert written.failures
            assert broker.process is not None
            assert broker.process.poll() is None, "the other directory continues"
            acked = set(written.acked)
            written.produce(8)
            written.flush()
            assert {partition for partition, _ in set(written.acked) - acked} == {0, 1, 2, 3} - on_small
            assert "No space left on device" in broker.log_path.read_text()
            filler.unlink()
            assert broker.stop() == 0
            broker.start()
            acked = set(written.acked)
            written.produce(8)
            written.flush()
            assert {partition for partition, _ in set(written.acked) - acked} == {0, 1, 2, 3}
            written.check_all_there(broker)
            assert broker.stop() == 0
        for directory in directories:
            check_files(directory)
