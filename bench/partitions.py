"""Measures a node with many partitions: create, write, stop, start, start after a kill, delete.

    python bench/partitions.py [--partitions 20000] [--per-topic 20] [--records 1] [--directory /mnt/disk]

Each partition gets a few small records, so the first stop must flush each log. At the second stop, no log has changed.
The time of a start ends when clients are served. The time of a stop ends when the process has ended. Directly after the
deletion of the topics, the broker gets SIGTERM. `left behind` counts the directories of deleted topics that the next
start has not deleted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measure import Figure, print_json, resident_mb

from kcli.testing.broker_process import BrokerProcess

TOPICS_PER_REQUEST = 100
DELETED_TOPICS = 500


class Bench:
    """One broker, its topics, and what was measured on it."""

    def __init__(self, broker: BrokerProcess, topics: int, per_topic: int, records: int) -> None:
        self.broker = broker
        self.topics = [f"topic-{nth}" for nth in range(topics)]
        self.per_topic = per_topic
        self.records = records
        self.figures: list[Figure] = []

    def add(self, name: str, value: float, unit: str, goal: str = "") -> None:
        self.figures.append(Figure(name, value, unit, goal))
        print(f"{name:<44}{value:>12,.2f} {unit:<6}{goal}", flush=True)

    def timed(self, name: str, work: Callable[[], object], goal: str = "") -> None:
        began = time.monotonic()
        work()
        self.add(name, time.monotonic() - began, "s", goal)

    def run(self) -> None:
        count = len(self.topics) * self.per_topic
        self.timed("start of an empty node", self.broker.start)
        self.timed(f"create {count} partitions", self.create)
        self.timed("until their names are on the device", self.wait_settled)
        self.timed(f"write {self.records} to each", self.write)
        self.timed("stop, every log written to", self.broker.stop, "<= 5")
        self.timed("start after a clean stop", self.broker.start, "<= 4")
        assert self.broker.process is not None
        self.add("memory after that", resident_mb(self.broker.process.pid), "MB")
        self.timed("stop, nothing written", self.broker.stop, "<= 5")
        self.broker.start()
        self.write()
        self.broker.kill()
        self.timed("start after kill -9, every log written to", self.broker.start, "<= 15")
        self.broker.kill()
        self.timed("start after kill -9, nothing written", self.broker.start, "<= 15")
        self.timed(f"delete {DELETED_TOPICS} topics, and stop", self.delete_and_stop)
        self.timed("start after that", self.broker.start)
        self.add("left behind", self.left_behind(), "dirs", "0")

    def create(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for nth in range(0, len(self.topics), TOPICS_PER_REQUEST):
            wanted = [
                NewTopic(name, self.per_topic, 1) for name in self.topics[nth : nth + TOPICS_PER_REQUEST]
            ]
            for created in admin.create_topics(wanted, request_timeout=60).values():
                created.result(120)

    def wait_settled(self) -> None:
        """Returns when every partition of the last topic to settle has its topic id on the device."""
        missing = [self.data / f"{name}-{nth}" for name in self.topics for nth in range(self.per_topic)]
        while missing:
            missing = [path for path in missing if not (path / "partition.metadata").exists()]
            time.sleep(0.05)

    def write(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        for topic in self.topics:
            for nth in range(self.per_topic):
                for _ in range(self.records):
                    producer.produce(topic, b"x" * 100, partition=nth)
            producer.poll(0)
        assert producer.flush(600) == 0, "records were not delivered"

    def delete_and_stop(self) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        gone, self.topics = self.topics[:DELETED_TOPICS], self.topics[DELETED_TOPICS:]
        for deleted in admin.delete_topics(gone, request_timeout=60).values():
            deleted.result(120)
        self.broker.stop()

    def left_behind(self) -> int:
        """The directories of deleted topics that no deletion waits for."""
        kept = {f"{name}-{nth}" for name in self.topics for nth in range(self.per_topic)}
        return sum(
            path.is_dir() and path.name.startswith("topic-") and path.name not in kept
            for path in self.data.iterdir()
            if not path.name.endswith("-delete")
        )

    @property
    def data(self) -> Path:
        return self.broker.directory / "data"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--per-topic", type=int, default=20)
    parser.add_argument("--records", type=int, default=1)
    parser.add_argument("--directory", help="where the data goes (default: a temporary directory)")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that kcli has byte code, as an installed program has
    with tempfile.TemporaryDirectory(prefix="kcli-bench-", dir=options.directory) as name:
        broker = BrokerProcess(name)
        bench = Bench(broker, options.partitions // options.per_topic, options.per_topic, options.records)
        try:
            bench.run()
        finally:
            if broker.process is not None:
                broker.kill()
    print_json(bench.figures)


if __name__ == "__main__":
    main()
