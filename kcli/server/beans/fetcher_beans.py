"""The beans of the fetchers, which copy records from the leaders on other brokers to the followers on this broker."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.replica.follower import Phase
from kcli.server.beans.bean import Bean, gauge, meter
from kcli.server.beans.sources import BrokerSources

SERVER = "kafka.server"
_REPLICA = "Replica"
"""The client id in the beans with figures of all fetchers together."""


def fetcher_beans(broker: BrokerSources) -> Iterator[Bean]:
    """Yields the beans of all fetchers together, then the beans of each fetcher and of each partition that it
    fetches.
    """
    now = broker.clock.monotonic()
    fetchers = list(broker.fetchers)
    followings = [following for fetcher in fetchers for following in fetcher.followings.values()]
    for fetcher in fetchers:
        fetcher.requests.tick(now)
        fetcher.bytes_in.tick(now)
    rates = [fetcher.requests.one_minute_rate for fetcher in fetchers]
    for name, value in (
        ("MaxLag", max((following.state.lag or 0 for following in followings), default=0)),
        ("MinFetchRate", min(rates, default=0.0)),
        (
            "FailedPartitionsCount",
            sum(following.state.phase is Phase.FAILED for following in followings),
        ),
        ("DeadThreadCount", sum(fetcher.is_dead for fetcher in fetchers)),
    ):
        yield gauge(SERVER, "ReplicaFetcherManager", name, value, clientId=_REPLICA)
    for fetcher in fetchers:
        client_id = f"ReplicaFetcherThread-{fetcher.number}-{fetcher.leader}"
        tags = {
            "clientId": client_id,
            "brokerHost": fetcher.address.host,
            "brokerPort": str(fetcher.address.port),
        }
        for name, counted, event_type in (
            ("RequestsPerSec", fetcher.requests, "requests"),
            ("BytesPerSec", fetcher.bytes_in, "bytes"),
        ):
            yield meter(SERVER, "FetcherStats", name, counted.attributes(event_type, now), **tags)
        for key, following in list(fetcher.followings.items()):
            lag = following.state.lag
            yield gauge(
                SERVER,
                "FetcherLagMetrics",
                "ConsumerLag",
                -1 if lag is None else lag,
                clientId=client_id,
                topic=key.topic,
                partition=str(key.partition),
            )
