"""The quota of replication: the rate of throttled traffic, and its dynamic limit."""

from __future__ import annotations

from kcli.server.partitions.replication_quota import LEADER_RATE, ReplicationQuota
from rigs.logs import ManualClock
from rigs.quorum import broker_config


def quota(limit: str | None = None, **keys: str) -> tuple[ReplicationQuota, ManualClock]:
    clock = ManualClock()
    config = broker_config()
    made = ReplicationQuota(LEADER_RATE, config.replaced(keys), clock)
    if limit is not None:
        made.reconfigure(config.replaced({LEADER_RATE: limit}))
    return made, clock


def test_without_a_limit_the_rate_is_measured_and_never_exceeded() -> None:
    free, _ = quota()
    free.record(1 << 40)
    assert not free.is_exceeded
    assert free.bytes_per_second > 0


def test_the_rate_is_the_average_over_the_windows() -> None:
    limited, clock = quota("1000")
    limited.record(10_000)
    assert limited.bytes_per_second == 1000  # ten of the eleven windows of a second have passed
    assert not limited.is_exceeded
    limited.record(1)
    assert limited.is_exceeded
    clock.ms += 2000
    assert limited.is_exceeded
    clock.ms += 9000
    assert not limited.is_exceeded


def test_the_number_of_windows_is_a_key() -> None:
    limited, clock = quota("1000", **{"replication.quota.window.num": "2"})
    limited.record(3000)
    assert limited.is_exceeded
    clock.ms += 2000
    assert not limited.is_exceeded


def test_a_changed_limit_counts_at_once() -> None:
    limited, _ = quota("1000")
    limited.record(20_000)
    assert limited.is_exceeded
    limited.reconfigure(broker_config().replaced({LEADER_RATE: "3000"}))
    assert not limited.is_exceeded
    limited.reconfigure(broker_config())
    limited.record(1 << 40)
    assert not limited.is_exceeded, "the key was deleted"


def test_the_list_of_a_topic_may_change() -> None:
    limited, _ = quota()
    assert not limited.throttles("t", 0, ())
    assert limited.throttles("t", 0, ("0:1",))
    assert not limited.throttles("t", 1, ("0:1",))
    assert limited.throttles("t", 1, ("0:1", "1:1"))
    assert not limited.throttles("t", 1, ("1:2",)), "the broker of this test has the id 1"
    assert not limited.throttles("t", 1, ())
