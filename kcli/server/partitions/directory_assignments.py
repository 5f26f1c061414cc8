"""Reports to the controller which log directory holds each replica (KIP-858).

A broker with several directories chooses one when it creates a log, and then reports the directory to the controller.
If the directory fails later, the controller knows which replicas are lost. If the directory fails before the report,
the controller does not know which replicas are lost, and does not elect other leaders.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping

from kcli.controller.api import ASSIGN_REPLICAS_TO_DIRS
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage, PartitionImage
from kcli.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader
from kcli.storage.store.store import LogStore

_log = logging.getLogger(__name__)

# Kafka's limit for one request. The records of so many assignments are far smaller than the largest batch of the
# metadata log.
MAX_ASSIGNMENTS_PER_REQUEST = 2_250
RETRY_INTERVAL_S = 1.0
# When the broker starts, it considers this many partitions in one iteration of the event loop. A turn takes about a
# millisecond.
PARTITIONS_PER_TURN = 250


class DirectoryAssignments:
    """Reports directories to the controller. Call `load` when the broker is registered, and `apply` after the replicas
    have applied a change of the metadata."""

    def __init__(
        self,
        node_id: int,
        channel: ControllerChannel,
        loader: MetadataLoader,
        logs: LogStore,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._loader = loader
        self._logs = logs
        self._broker_epoch = broker_epoch
        # (topic id, partition) -> directory, in the order of their creation.
        self._pending: dict[tuple[uuid.UUID, int], uuid.UUID] = {}
        # Directories to which replicas are about to move: (topic id, partition) -> directory.
        self._promised: dict[tuple[uuid.UUID, int], uuid.UUID] = {}
        self._sender: asyncio.Task[None] | None = None

    async def load(self, image: MetadataImage) -> None:
        """Reports the directories of all partitions, some partitions at a time. A partition that changes meanwhile may
        be reported twice, which has no effect.
        """
        count = 0
        for topic in image.topics:
            for number, partition in topic.partitions.items():
                count += 1
                if count % PARTITIONS_PER_TURN == 0:
                    await asyncio.sleep(0)
                self._consider(topic.name, topic.topic_id, number, partition)
        self._send_soon()

    def apply(self, delta: MetadataDelta) -> None:
        for diff in delta.partitions_changed():
            if diff.after is None:
                self._pending.pop((diff.topic_id, diff.partition), None)
            else:
                self._consider(diff.topic, diff.topic_id, diff.partition, diff.after)
        self._send_soon()

    def replica_hosted(self, name: str, number: int) -> None:
        """Reports the directory of a new log. A large change of the metadata is applied in several parts, so a log may
        be created after `apply` was called for this change.
        """
        topic = self._loader.image.topics.topic(name)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is not None and partition is not None:
            self._consider(name, topic.topic_id, number, partition)
            self._send_soon()

    async def promise(self, topic_id: uuid.UUID, number: int, directory: uuid.UUID) -> None:
        """Reports the directory to which a replica is about to move.

        The directory is reported before the copy replaces the log. So after a crash between these two steps, the broker
        knows that the copy is complete. Raises KafkaError if the controller refuses the report or cannot be reached.
        """
        key = (topic_id, number)
        self._promised[key] = directory
        self._pending.pop(key, None)
        response = await self._channel.send(ASSIGN_REPLICAS_TO_DIRS, self._request({key: directory}))
        for answer in response.directories[0].topics[0].partitions:
            if answer.error_code is not ErrorCode.NONE:
                raise error_for(answer.error_code)

    def move_ended(self, topic: str, topic_id: uuid.UUID, number: int, partition: PartitionImage) -> None:
        """Reports the present directory of the replica, because a move was completed or cancelled."""
        self._promised.pop((topic_id, number), None)
        self._consider(topic, topic_id, number, partition)
        self._send_soon()

    @property
    def waiting_count(self) -> int:
        """The number of replicas whose directory the controller has not confirmed yet."""
        return len(self._pending)

    async def stop(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    def _consider(self, topic: str, topic_id: uuid.UUID, number: int, partition: PartitionImage) -> None:
        log = self._logs.get(topic, number)
        if log is None or self._node_id not in partition.replicas or log.directory.id is None:
            return
        key = (topic_id, number)
        if key in self._promised:
            return
        if partition.directory(self._node_id) == log.directory.id:
            self._pending.pop(key, None)
        else:
            self._pending[key] = log.directory.id

    def _send_soon(self) -> None:
        # Nothing is sent before the broker is registered. `load` is called after the registration.
        if self._pending and self._broker_epoch() >= 0 and (self._sender is None or self._sender.done()):
            self._sender = asyncio.get_running_loop().create_task(self._send(), name="assign-directories")

    async def _send(self) -> None:
        while self._pending:
            chosen = dict(list(self._pending.items())[:MAX_ASSIGNMENTS_PER_REQUEST])
            try:
                await self._channel.send(ASSIGN_REPLICAS_TO_DIRS, self._request(chosen))
            except KafkaError as error:
                _log.warning("Log directories could not be reported to the controller: %s", error.message)
                await asyncio.sleep(RETRY_INTERVAL_S)
                continue
            # A refused entry is not sent again, because its topic was deleted, for example.
            for key, directory in chosen.items():
                if self._pending.get(key) == directory:
                    del self._pending[key]

    def _request(self, places: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> AssignReplicasToDirsRequest:
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=_by_directory(places.items()),
        )


def _by_directory(
    assignments: Iterable[tuple[tuple[uuid.UUID, int], uuid.UUID]],
) -> tuple[RequestDirectoryData, ...]:
    directories: dict[uuid.UUID, dict[uuid.UUID, list[int]]] = {}
    for (topic_id, number), directory in assignments:
        directories.setdefault(directory, {}).setdefault(topic_id, []).append(number)
    return tuple(
        RequestDirectoryData(
            id_=directory,
            topics=tuple(
                RequestTopicData(
                    topic_id=topic_id,
                    partitions=tuple(RequestPartitionData(partition_index=number) for number in numbers),
                )
                for topic_id, numbers in topics.items()
            ),
        )
        for directory, topics in directories.items()
    )
