"""The throttle of followers (KIP-73): the rate at which this broker fetches partitions that are listed as throttled.

The rate counts only the bytes of records in listed partitions. It is checked before a request and recorded after it,
so it exceeds the limit by one answer at most. A replica that has caught up is not throttled.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.dynamic import DynamicConfig
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigResourceType
from kcli.model.ids import BrokerId
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.server.network.rates import SampledRate, Windows

RATE_KEY = "follower.replication.throttled.rate"
REPLICAS_KEY = "follower.replication.throttled.replicas"
UNLIMITED = (1 << 63) - 1

WAIT_MAX_MS = 1000
"""The longest wait until the rate is checked again, so that a changed limit soon takes effect."""


class FollowerThrottle:
    """The rate of throttled fetches, and the partitions that are throttled."""

    def __init__(self, node_id: BrokerId, config: DynamicConfig, clock: Clock) -> None:
        self._node_id = node_id
        self._config = config
        self._clock = clock
        self._rate = SampledRate(
            Windows(
                config.static.integer("replication.quota.window.num"),
                config.static.integer("replication.quota.window.size.seconds"),
            )
        )
        self._configs: object = None
        self._topics: dict[str, frozenset[int] | None] = {}
        """The throttled partitions of each topic that has any. None: all partitions."""

    @property
    def is_used(self) -> bool:
        """Whether a partition may be throttled."""
        return bool(self._topics)

    def covers(self, key: TopicPartition) -> bool:
        """Whether the partition is listed as throttled."""
        if key.topic not in self._topics:
            return False
        listed = self._topics[key.topic]
        return listed is None or key.partition in listed

    def received(self, size_bytes: int) -> None:
        """Counts the records of a throttled partition."""
        self._rate.record(size_bytes, self._clock.monotonic())

    def wait_ms(self) -> int:
        """The time after which throttled partitions may be fetched again. 0: now."""
        limit = int(self._config.layers.merged().get(RATE_KEY, UNLIMITED))
        over_s = self._rate.seconds_over(max(limit, 1), self._clock.monotonic())
        return min(int(over_s * 1000) + 1, WAIT_MAX_MS) if over_s > 0 else 0

    def metadata_changed(self, image: MetadataImage) -> bool:
        """Reads the lists of throttled partitions. Returns whether they may have changed."""
        if image.configs is self._configs:
            return False
        self._configs = image.configs
        self._topics = {
            resource.name: _partitions(configs, self._node_id)
            for resource, configs in image.configs.items()
            if resource.type is ConfigResourceType.TOPIC and configs.get(REPLICAS_KEY)
        }
        return True


def _partitions(configs: Mapping[str, str], node_id: BrokerId) -> frozenset[int] | None:
    """The partitions of `*` or of pairs `partition:broker` with this broker. None: all partitions."""
    text = configs[REPLICAS_KEY].strip()
    if text == "*":
        return None
    pairs = (pair.strip().partition(":") for pair in text.split(","))
    return frozenset(int(partition) for partition, _, broker in pairs if broker == str(node_id))
