"""The transaction coordinator of this broker: the shards of `__transaction_state`, and the writing of transaction
markers.

A shard decides the end of a transaction, and the `MarkerSender` writes the markers. If the shard moves to another
broker, this broker stops writing. The next coordinator writes all markers of the transaction again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kcli.config.broker import BrokerConfig
from kcli.config.features import TRANSACTION_VERSION
from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.records import (
    FLEXIBLE_VERSION,
    OLD_VERSION,
    TransactionRecord,
    decode,
    encode,
)
from kcli.coordinator.transaction.shard import SendMarkers, TransactionReady, TransactionShard
from kcli.coordinator.transaction.state import TV2
from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.runtime import log_text
from kcli.runtime.clock import Clock
from kcli.server.coordinators.internal_topics import TRANSACTION_TOPIC
from kcli.server.coordinators.marker_sender import MarkerSender, Overtaken
from kcli.server.coordinators.shard_log import RunnerSettings
from kcli.server.coordinators.shard_runner import ShardRunner
from kcli.server.coordinators.shards import CoordinatorShards, ShardKind
from kcli.server.coordinators.transaction_markers import TransactionEnd
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.quorum.producer_ids import ProducerIds

_log = logging.getLogger("kcli.server.TransactionCoordinator")

TransactionRunner = ShardRunner[TransactionRecord, SendMarkers, TransactionShard]


class TransactionCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        *,
        metadata: Callable[[], MetadataImage],
        producer_ids: ProducerIds,
        markers: MarkerSender,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._producer_ids = producer_ids
        self.markers = markers
        settings = transaction_config(config)
        kind: ShardKind[TransactionRecord, SendMarkers, TransactionShard] = ShardKind(
            topic=TRANSACTION_TOPIC.name,
            load_buffer_bytes=config.integer("transaction.state.log.load.buffer.size"),
            create=lambda: TransactionShard(settings, self._version),
            encode=lambda record: encode(record, FLEXIBLE_VERSION if self._version() >= 1 else OLD_VERSION),
            decode=decode,
            settings=self._settings,
            logger=_log,
            send=self._send,
        )
        self.shards: CoordinatorShards[TransactionRecord, SendMarkers, TransactionShard] = CoordinatorShards(
            kind, config.integer("transaction.state.log.num.partitions"), clock
        )
        self.leadership_changed = self.shards.leadership_changed
        self.load = self.shards.load

    def _version(self) -> int:
        return self._metadata().features.get(TRANSACTION_VERSION, 0)

    def _settings(self, leader: LeaderPartition) -> RunnerSettings:
        return RunnerSettings(
            linger_ms=0,
            commit_timeout_ms=self._config.integer("request.timeout.ms"),
            max_batch_bytes=leader.log.config.max_message_bytes,
            base_sequence=-1,
        )

    def apply(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a change of metadata. Call this method after the replicas have applied the change."""
        self.load(image)

    async def stop_sending(self) -> None:
        """Stops writing markers. The next coordinator writes the missing markers."""
        for runner in self.shards.loaded():
            runner.cancel_tasks()
        await self.markers.stop()

    async def stop(self) -> None:
        await self.shards.stop()

    # --- requests of clients

    async def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        transactional_id = request.transactional_id
        assert transactional_id is not None
        needs_id = self.shards.runner(transactional_id).ask(
            lambda shard, _: shard.wants_producer_id_to_init(request)
        )
        fresh = await self._producer_ids.next_id() if needs_id else None
        return await self.shards.runner(transactional_id).call(
            lambda shard, token, now_ms: shard.init_producer_id(request, fresh, token, now_ms),
        )

    async def end(self, request: EndTxnRequest, client_version: int) -> EndTxnResponse:
        transactional_id = request.transactional_id
        needs_id = self.shards.runner(transactional_id).ask(
            lambda shard, _: shard.wants_producer_id_to_end(request, client_version)
        )
        fresh = await self._producer_ids.next_id() if needs_id else None
        return await self.shards.runner(transactional_id).call(
            lambda shard, token, now_ms: shard.end(request, client_version, fresh, token, now_ms),
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
    ) -> asyncio.Future[ErrorCode]:
        """Adds partitions to a transaction. Returns one error code for all partitions. Raises KafkaError if this broker
        does not coordinate the transaction."""
        added = frozenset(partitions)
        return self.shards.runner(transactional_id).call(
            lambda shard, token, now_ms: shard.add_partitions(
                transactional_id,
                producer_id,
                producer_epoch,
                added,
                client_version=client_version,
                token=token,
                now_ms=now_ms,
            ),
        )

    async def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Verifies that partitions belong to a transaction, for the leader of these partitions (KIP-890). If `add` is
        True (TV2), adds the partitions."""
        keys = tuple(partitions)
        try:
            if not add:
                return self.shards.runner(transactional_id).ask(
                    lambda shard, _: shard.verify_partitions(
                        transactional_id, producer_id, producer_epoch, keys
                    )
                )
            code = await self.add_partitions(transactional_id, producer_id, producer_epoch, keys, TV2)
        except KafkaError as error:
            code = error.code
        return dict.fromkeys(keys, code)

    # --- markers

    def _send(self, runner: TransactionRunner, send: SendMarkers) -> None:
        runner.spawn(self._finish(runner, send), name=f"markers of {send.transactional_id}")

    async def _finish(self, runner: TransactionRunner, send: SendMarkers) -> None:
        """Returns when every partition has its marker, or when another coordinator has taken over."""
        end = TransactionEnd(
            producer_id=send.producer_id,
            producer_epoch=send.producer_epoch,
            committed=send.committed,
            coordinator_epoch=runner.partition.leader_epoch,
            transaction_version=send.transaction_version,
        )
        try:
            await self.markers.write_all(
                end, send.partitions, lambda written: runner.run(partial(_markers_written, send, written))
            )
        except Overtaken as error:
            _log.warning(
                "The transaction of '%s' belongs to a newer coordinator or producer: %s",
                log_text.name(send.transactional_id),
                error,
            )


def _markers_written(
    send: SendMarkers, partitions: Sequence[TopicPartition], shard: TransactionShard, now_ms: int
) -> TransactionReady:
    return shard.markers_written(send.transactional_id, send.producer_epoch, partitions, now_ms)


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        abort_timed_out_interval_ms=config.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        remove_expired_interval_ms=config.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
    )
