"""The quota of one direction of replication traffic (KIP-73): the records that this broker sends as a leader, or
fetches as a follower.

Only the traffic of throttled replicas counts. The rate is checked before a fetch, and the bytes are counted after the
fetch. So one fetch may exceed the rate, and later fetches then wait.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.config.broker import UNLIMITED_RATE, BrokerConfig
from kcli.model.ids import BrokerId
from kcli.replica.throttled import ThrottledReplicas, throttled_replicas
from kcli.runtime.clock import Clock
from kcli.server.network.rates import SampledRate, Windows

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


_TOPICS_MAX = 1000
"""The most topics whose parsed list of throttled replicas is in the cache. A reassignment throttles only the topics
that it moves, which are fewer."""


class _Throttled(NamedTuple):
    """A parsed list of throttled replicas: `entries` is the list in the config of the topic, and `replicas` is the
    result.
    """

    entries: tuple[str, ...]
    replicas: ThrottledReplicas


class ReplicationQuota:
    """The rate of one direction. Its limit is the value of the key `rate_key`."""

    def __init__(self, rate_key: str, config: BrokerConfig, clock: Clock) -> None:
        self._rate_key = rate_key
        self._broker = BrokerId(config.node_id)
        self._clock = clock
        windows = Windows(
            config.integer("replication.quota.window.num"),
            config.integer("replication.quota.window.size.seconds"),
        )
        self._rate = SampledRate(windows)
        self._topics: dict[str, _Throttled] = {}
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Applies a change of the limit, which exists only as a dynamic config."""
        self._limit = config.throttle(self._rate_key)

    def throttles(self, topic: str, partition: int, entries: tuple[str, ...]) -> bool:
        """Whether the replica on this broker is throttled. `entries` is the list in the config of the topic."""
        if not entries:
            return False
        known = self._topics.get(topic)
        if known is None or known.entries != entries:
            if len(self._topics) >= _TOPICS_MAX:
                self._topics.clear()
            replicas = throttled_replicas(entries, self._broker)
            known = self._topics[topic] = _Throttled(entries, replicas)
        return partition in known.replicas

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit < UNLIMITED_RATE

    def seconds_over(self) -> float:
        """The time after which the rate has fallen to the limit, if nothing is recorded. 0 if the rate is lower."""
        return self._rate.seconds_over(max(self._limit, 1), self._clock.monotonic())

    @property
    def is_exceeded(self) -> bool:
        return self.bytes_per_second > self._limit

    def record(self, size_bytes: int) -> None:
        """Counts the traffic of throttled replicas."""
        self._rate.record(size_bytes, self._clock.monotonic())

    @property
    def bytes_per_second(self) -> float:
        return self._rate.per_second(self._clock.monotonic())
