"""Ends a consumer with an error at a batch that cannot be read.

If the records of a batch are invalid, librdkafka returns neither a record nor an error. It fetches the batch again and
again, and the consumer waits without end. Java's consumer reports such a batch. So kcli's consumers look at the
partitions that make no progress, and read their next batch without librdkafka.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kcli.cli.coroutines import run_coroutine
from kcli.cli.syntax.options import CommandError
from kcli.cli.unreachable import Unreachable
from kcli.model.topic_partition import TopicPartition
from kcli.rdkafka.objects import Consumer, Message, PartitionOffset

if TYPE_CHECKING:
    from kcli.client.unreadable import UnreadableBatch

LOOK_S = 1.0
"""The time between two looks at the positions. A partition that did not move in this time may be stopped."""

CHECK_AGAIN_S = 10.0
"""The time after which a valid batch at an unchanged position is checked again."""

CHECKED_PARTITIONS = 10
"""The most partitions of one check."""

CHECK_TIMEOUT_S = 5.0


class UnreadableRecords:
    """Watches the positions of a consumer. `starts` are the first positions of the partitions, if they are known."""

    def __init__(self, config: Mapping[str, object]) -> None:
        explainer = config.get("error_cb")
        self._properties = explainer.properties if isinstance(explainer, Unreachable) else None
        self._starts: dict[TopicPartition, int] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._valid: dict[TopicPartition, tuple[int, float]] = {}
        self._looked = time.monotonic()

    def begin_at(self, partitions: Iterable[PartitionOffset]) -> None:
        """Notes the first position of partitions."""
        for partition in partitions:
            self._starts[TopicPartition(partition.topic, partition.partition)] = partition.offset

    def check(self, consumer: Consumer, *, at_end: bool = False) -> None:
        """Raises CommandError if a partition does not move because its next batch is invalid. Looks at most once a
        second, except at the end of the program."""
        now = time.monotonic()
        if self._properties is None or (now - self._looked < LOOK_S and not at_end):
            return
        self._looked = now
        behind = self._behind(consumer)
        before, self._positions = self._positions, behind
        suspects = [
            (place, offset)
            for place, offset in behind.items()
            if (at_end or before.get(place) == offset) and not self._is_valid(place, offset, now)
        ][:CHECKED_PARTITIONS]
        if not suspects:
            return
        batch = run_coroutine(_first_unreadable(self._properties, suspects))
        if batch is not None:
            raise CommandError(f"Error processing message, terminating consumer process: {batch}")
        self._valid.update({place: (offset, now) for place, offset in suspects})

    def _behind(self, consumer: Consumer) -> dict[TopicPartition, int]:
        """The positions of the partitions that are not at their end."""
        assigned = consumer.assignment()
        behind = {}
        for partition in consumer.position(assigned) if assigned else ():
            place = TopicPartition(partition.topic, partition.partition)
            offset = partition.offset if partition.offset >= 0 else self._starts.get(place)
            if (
                offset is not None
                and not 0 <= consumer.get_watermark_offsets(partition, cached=True)[1] <= offset
            ):
                behind[place] = offset
        return behind

    def _is_valid(self, place: TopicPartition, offset: int, now: float) -> bool:
        known, checked = self._valid.get(place, (None, 0.0))
        return known == offset and now - checked < CHECK_AGAIN_S


def refuse_undecodable(message: Message) -> None:
    """Raises CommandError if librdkafka reports that it cannot decompress a batch."""
    error = message.error()
    if error is not None and error.code() == error._BAD_COMPRESSION:
        raise CommandError(
            "Error processing message, terminating consumer process: The batch of topic "
            f"{message.topic()}, partition {message.partition()} at offset {message.offset()} cannot be read: "
            f"{error.str()}"
        )


async def _first_unreadable(
    properties: Mapping[str, str], suspects: list[tuple[TopicPartition, int]]
) -> UnreadableBatch | None:
    # Imported late, because most consumers are never stopped.
    from kcli.client.admin.admin import AdminClient
    from kcli.client.config import ClientConfigError, client_config
    from kcli.client.unreadable import unreadable_batch
    from kcli.errors import KafkaError

    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S), AdminClient(client_config(properties)) as client:
            for place, offset in suspects:
                try:
                    batch = await unreadable_batch(client, place, offset)
                except KafkaError:
                    continue  # librdkafka reports the errors of brokers itself
                if batch is not None:
                    return batch
    except (ClientConfigError, TimeoutError):
        return None  # librdkafka accepts some settings that our client refuses
    return None
