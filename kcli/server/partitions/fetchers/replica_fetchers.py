"""The fetchers of one broker. Assigns each followed partition to a fetcher, and finds the endpoints of the leaders.

There are num.replica.fetchers fetchers for each leader. The name of a partition decides which fetcher of its leader
fetches the partition. A partition whose leader has no endpoint waits for a change of the metadata.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.coordinator.hashing import MIN_INT32, java_hash
from kcli.metadata.image import BrokerRegistration, MetadataImage
from kcli.model.addresses import Address
from kcli.model.ids import BrokerId
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network
from kcli.server.network.links import Secure, plain_text
from kcli.server.partitions.fetchers.cut_syncs import CutSyncs
from kcli.server.partitions.fetchers.fetcher import FetchingBroker, ReplicaFetcher
from kcli.server.partitions.fetchers.following import Following
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.server.partitions.replication_quota import FOLLOWER_RATE, ReplicationQuota
from kcli.storage.directory import Background
from kcli.storage.log.log import PartitionLog

_log = logging.getLogger("kcli.server.ReplicaFetcherManager")

FETCHERS_KEY = "num.replica.fetchers"


class ReplicaFetchers:
    """Fetches the followed partitions of this broker from their leaders."""

    def __init__(
        self,
        *,
        node_id: BrokerId,
        network: Network,
        clock: Clock,
        dynamic_config: DynamicConfig,
        background: Background,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        sync_cuts: Callable[[Sequence[PartitionLog]], None],
        secure: Secure = plain_text,
    ) -> None:
        self.quota = ReplicationQuota(FOLLOWER_RATE, dynamic_config.current, clock)
        self._broker = FetchingBroker(
            node_id=node_id,
            network=network,
            clock=clock,
            config=dynamic_config,
            background=background,
            image=image,
            broker_epoch=broker_epoch,
            quota=self.quota,
            cuts=CutSyncs(sync_cuts, background),
            secure=secure,
        )
        self._listener = dynamic_config.static.inter_broker_listener_name
        self._count = dynamic_config.current.integer(FETCHERS_KEY)
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._followed: dict[TopicPartition, FollowedPartition] = {}
        self._waiting: dict[TopicPartition, None] = {}
        """The partitions whose leader has no endpoint."""
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._is_stopped = False
        self._ending: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[ReplicaFetcher]:
        return iter(list(self._fetchers.values()))

    def follow(self, partition: FollowedPartition) -> None:
        """Begins to fetch a partition from its leader. Does nothing after `stop`."""
        if self._is_stopped:
            return
        key = TopicPartition(partition.topic, partition.partition)
        assert key not in self._followed, f"{key} is fetched already"
        self._followed[key] = partition
        self._assign(key, partition)

    def forget(self, partition: FollowedPartition) -> None:
        """Stops fetching a partition. An answer for the partition that arrives later is ignored."""
        key = TopicPartition(partition.topic, partition.partition)
        if self._followed.get(key) is not partition:
            return
        del self._followed[key]
        if key in self._waiting:
            del self._waiting[key]
            return
        fetcher = self._fetchers[self._place(key, partition)]
        fetcher.remove(key)
        if not fetcher.followings:
            asyncio.get_running_loop().call_soon(self._end_if_idle, fetcher)

    def metadata_changed(self, image: MetadataImage) -> None:
        """Updates the endpoints of the leaders."""
        if image.brokers is self._brokers:
            return
        self._brokers = image.brokers
        for fetcher in self:
            address = self._address(image.brokers.get(fetcher.leader))
            if address is not None and address != fetcher.address:
                _log.info("%s The leader is now at %s", fetcher, address)
                fetcher.move_to(address)
        for key in list(self._waiting):
            del self._waiting[key]
            self._assign(key, self._followed[key])

    async def stop(self) -> None:
        """Ends all fetchers. Returns when no thread reads a log any more."""
        self._is_stopped = True
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        self._followed.clear()
        self._waiting.clear()
        await asyncio.gather(*(fetcher.stop() for fetcher in fetchers), *self._ending)

    # Which fetcher.

    def _assign(self, key: TopicPartition, partition: FollowedPartition) -> None:
        address = self._address(self._brokers.get(partition.leader))
        if address is None:
            self._waiting[key] = None
            return
        place = self._place(key, partition)
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = ReplicaFetcher(self._broker, *place, address)
        fetcher.add(Following(partition))

    def _place(self, key: TopicPartition, partition: FollowedPartition) -> tuple[BrokerId, int]:
        return partition.leader, fetcher_number(key, self._count)

    def _address(self, leader: BrokerRegistration | None) -> Address | None:
        endpoint = None if leader is None else leader.endpoints.get(self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    def _end_if_idle(self, fetcher: ReplicaFetcher) -> None:
        place = (fetcher.leader, fetcher.number)
        if not fetcher.followings and self._fetchers.get(place) is fetcher:
            del self._fetchers[place]
            self._end(fetcher)

    def _end(self, fetcher: ReplicaFetcher) -> None:
        task = asyncio.get_running_loop().create_task(fetcher.stop(), name="end of a fetcher")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def reconfigure(self, after: BrokerConfig) -> None:
        """Applies a changed rate and a changed number of fetchers."""
        self.quota.reconfigure(after)
        for fetcher in self:
            fetcher.wake()
        count = after.integer(FETCHERS_KEY)
        if count == self._count:
            return
        _log.info("%s changes from %d to %d", FETCHERS_KEY, self._count, count)
        self._count = count
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        for fetcher in fetchers:
            for key in list(fetcher.followings):
                fetcher.remove(key)
            self._end(fetcher)
        for key, partition in self._followed.items():
            if key not in self._waiting:
                self._assign(key, partition)


def fetcher_number(key: TopicPartition, count: int) -> int:
    """Returns the number of the fetcher that fetches a partition, as in Kafka."""
    value = (31 * java_hash(key.topic) + key.partition) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == MIN_INT32 else abs(signed)) % count
