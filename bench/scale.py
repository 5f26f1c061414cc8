"""Measures the metadata of a large cluster in one process: memory, snapshot, start, fail-over, requests of followers.

    python bench/scale.py [--brokers 100] [--partitions 100000] [--replicas 3] [--per-topic 50]

No broker runs. The bench builds the image of such a cluster from records, as a node does at its start, and calls the
functions that a controller and a follower call. Times are CPU times of this process, without the waits for disks,
networks and commits.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from measure import Figure, print_json, resident_mb

from kcli.client.records.fetch import FetchLimits
from kcli.client.records.fetch_plan import FetchPlan, FetchPosition
from kcli.config.features import supported_ranges
from kcli.controller.bootstrap import encode_records
from kcli.controller.brokers import fence_expired
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision
from kcli.controller.settings import ControllerSettings
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import image_records
from kcli.metadata.snapshot_file import decode_snapshot, encode_snapshot
from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.records.metadata import (
    BrokerEndpoint,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_metadata_record,
)
from kcli.runtime.rng import SystemRng
from kcli.server.partitions.fetchers.wire import Sender, encode_fetch

T = TypeVar("T")

METADATA_VERSION = 27
RECORDS_PER_BATCH = 10_000
BUSY_PARTITIONS = 10
"""The partitions of one leader whose offsets change between two fetches of a follower, in the request of a session."""


class Scale:
    def __init__(self, brokers: int, partitions: int, replicas: int, per_topic: int) -> None:
        self.brokers = brokers
        self.partitions = partitions
        self.replicas = replicas
        self.per_topic = per_topic
        self.figures: list[Figure] = []

    def add(self, name: str, value: float, unit: str) -> None:
        self.figures.append(Figure(name, value, unit))
        print(f"{name:<64}{value:>12,.2f} {unit}", flush=True)

    def cpu(self, name: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        result = work()
        self.add(name, time.process_time() - began, "s")
        return result

    def run(self) -> None:
        before = resident_mb(os.getpid())
        replayer = self.cpu("replay all records", self.build)
        gc.collect()
        self.add("memory of the image", resident_mb(os.getpid()) - before, "MB")
        image = replayer.image
        values = self.cpu(
            "encode the records of a snapshot",
            lambda: encode_records(image_records(image), METADATA_VERSION),
        )
        content = self.cpu(
            "write the batches of the snapshot",
            lambda: b"".join(
                encode_snapshot(values, epoch=LeaderEpoch(1), last_contained_log_timestamp_ms=0, now_ms=0)
            ),
        )
        self.add("size of the snapshot", len(content) / 1e6, "MB")
        self.cpu("start: read the snapshot into an image", lambda: self.read(content))
        controller = self.cpu(
            "fail-over: index the partitions in the new active controller",
            lambda: Controller(replayer, settings(), SystemRng(1), 0),
        )
        self.fence(controller)
        self.follower(image)

    def build(self) -> ImageReplayer:
        replayer = ImageReplayer(MetadataImage())
        offset, records = -1, self.records()
        while batch := tuple(islice(records, RECORDS_PER_BATCH)):
            offset += len(batch)
            replayer.replay(batch, last_offset=Offset(offset), epoch=LeaderEpoch(1), timestamp_ms=0)
        return replayer

    def records(self) -> Iterator[MetadataRecord]:
        rng = random.Random(1)
        yield FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION)
        ids = list(range(self.brokers))
        directories = {broker: uuid.UUID(int=rng.getrandbits(128)) for broker in ids}
        for broker in ids:
            yield RegisterBrokerRecord(
                broker_id=broker,
                broker_epoch=broker + 1,
                incarnation_id=uuid.UUID(int=rng.getrandbits(128)),
                end_points=(BrokerEndpoint(name="PLAINTEXT", host=f"broker-{broker}", port=9092),),
                rack=f"rack-{broker % 3}",
                fenced=False,
                log_dirs=(directories[broker],),
            )
        for topic in range(self.partitions // self.per_topic):
            topic_id = uuid.UUID(int=rng.getrandbits(128))
            yield TopicRecord(name=f"topic-{topic}", topic_id=topic_id)
            for number in range(self.per_topic):
                chosen = rng.sample(ids, self.replicas)
                yield PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=tuple(chosen),
                    isr=tuple(chosen),  # a second object, as in a record that was read
                    leader=chosen[0],
                    directories=tuple(directories[each] for each in chosen),
                )

    def read(self, content: bytes) -> MetadataImage:
        snapshot = decode_snapshot(content, "snapshot")
        replayer = ImageReplayer(MetadataImage())
        offset = -1
        for batch in snapshot.batches:
            offset += len(batch)
            decoded = [decode_metadata_record(value)[0] for value in batch]
            replayer.replay(decoded, last_offset=Offset(offset), epoch=LeaderEpoch(1), timestamp_ms=0)
        return replayer.image

    def fence(self, controller: Controller) -> None:
        """One broker dies: the partitions that it leads get other leaders."""
        decision = fence_expired(controller, 1 << 40)
        began, longest, changed = time.process_time(), 0.0, 0
        assert not isinstance(decision, Decision)
        while True:
            step_began = time.process_time()
            try:
                records = next(decision)
                is_last = False
            except StopIteration as stop:
                records, is_last = stop.value.records, True
            if records:
                encode_records(records, METADATA_VERSION)
                end = Offset(controller.next_offset + len(records) - 1)
                controller.replay(records, last_offset=end, epoch=LeaderEpoch(1), timestamp_ms=0)
            changed += len(records)
            longest = max(longest, time.process_time() - step_began)
            if is_last:
                break
        self.add("a broker dies: partitions that change", changed, "records")
        self.add("a broker dies: decide, encode and replay all", time.process_time() - began, "s")
        self.add("a broker dies: the longest step", longest * 1000, "ms")

    def follower(self, image: MetadataImage) -> None:
        """The Fetch requests of one follower to one leader."""
        plan = FetchPlan()
        mine, leader = BrokerId(0), BrokerId(1)
        shared = [
            (TopicPartition(topic.name, number), topic.topic_id)
            for topic in image.topics
            for number, partition in topic.partitions.items()
            if partition.leader == leader and mine in partition.replicas
        ]
        for key, topic_id in shared:
            plan.want(key, FetchPosition(topic_id, 1 << 40, 5, 5, 0))
        limits = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=10 << 20, partition_max_bytes=1 << 20)
        sender = Sender(mine, 1, "broker-0-fetcher-0", 17)
        self.add("a follower shares with one leader", len(shared), "partitions")
        self.add("its first Fetch", len(encode_fetch(plan.next(), limits, sender, 1)) / 1000, "kB")
        plan.answered(7)
        for key, topic_id in islice(shared, BUSY_PARTITIONS):
            plan.want(key, FetchPosition(topic_id, 2 << 40, 5, 5, 0))
        later = encode_fetch(plan.next(), limits, sender, 2)
        self.add(f"a later Fetch, {BUSY_PARTITIONS} partitions with records", len(later) / 1000, "kB")


def settings() -> ControllerSettings:
    return ControllerSettings(node_id=1000, supported_features=supported_ranges())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--per-topic", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scale = Scale(options.brokers, options.partitions, options.replicas, options.per_topic)
    scale.run()
    if options.json:
        print_json(scale.figures)


if __name__ == "__main__":
    main()
