"""The beans of quotas: of clients (KIP-13, KIP-124, KIP-599) and of replication (KIP-73)."""

from __future__ import annotations

import heapq
from typing import TypeVar
from urllib.parse import quote

from kcli.server.beans.bean import Bean, Kind, bean
from kcli.server.beans.sources import SERVER, Beans, BeanSources
from kcli.server.metrics.meters import Attributes
from kcli.server.network.rates import SampledRate, TokenBucket
from kcli.server.requests.quotas import Client, Limits, Metered

M = TypeVar("M", SampledRate, TokenBucket)

CLIENTS_MAX = 1_000
"""The most clients with a bean of their own for each quota type. These are the clients whose last requests are the
newest. With a quota for all client ids, a client can make any number of client ids."""


def quota_beans(sources: BeanSources) -> Beans:
    yield from _replication(sources)
    quotas = sources.quotas
    for type_, name, limits in (
        ("Produce", "byte-rate", quotas.produced),
        ("Fetch", "byte-rate", quotas.fetched),
        ("Request", "request-time", quotas.time),
    ):
        yield _queue(sources, type_, limits)
        yield from _of_rates(sources, type_, name, limits)
    yield _queue(sources, "ControllerMutation", quotas.mutations)
    yield from _of_buckets(sources, quotas.mutations)


def _queue(sources: BeanSources, type_: str, limits: Limits[SampledRate] | Limits[TokenBucket]) -> Bean:
    """The number of clients that are throttled now by a limit of this type. A client that exceeds several limits counts
    for the limit with the longest delay.
    """
    return bean(SERVER, type_, {"queue-size": limits.delays.count(sources.now)})


def _replication(sources: BeanSources) -> Beans:
    broker = sources.broker
    if broker is not None:
        for type_, quota in (
            ("LeaderReplication", broker.leader_quota),
            ("FollowerReplication", broker.fetchers.quota),
        ):
            yield bean(SERVER, type_, {"byte-rate": quota.bytes_per_second})


def _of_rates(sources: BeanSources, type_: str, name: str, limits: Limits[SampledRate]) -> Beans:
    now = sources.now
    for client, metered in _newest(limits, now):
        attributes: Attributes = {name: metered.meter.per_second(now)}
        yield _of_client(sources, type_, client, attributes, metered)


def _of_buckets(sources: BeanSources, limits: Limits[TokenBucket]) -> Beans:
    now = sources.now
    for client, metered in _newest(limits, now):
        attributes: Attributes = {
            "mutation-rate": metered.meter.per_second(now),
            "tokens": metered.meter.tokens(metered.limit, now),
        }
        yield _of_client(sources, "ControllerMutation", client, attributes, metered)


def _newest(limits: Limits[M], now: float) -> list[tuple[Client, Metered[M]]]:
    return heapq.nlargest(CLIENTS_MAX, limits.used(now), key=lambda entry: entry[1].used_at)


def _of_client(
    sources: BeanSources,
    type_: str,
    client: Client,
    attributes: Attributes,
    metered: Metered[SampledRate] | Metered[TokenBucket],
) -> Bean:
    """The bean of the clients that share a limit. Its tags are `user`, `client-id` or both, as in the limit."""
    throttled = sources.metrics.watches.values(metered.throttled_ms, sources.now)
    user, client_id = map(sanitized, client)
    tags = {"user": user, "client-id": client_id}
    return bean(SERVER, type_, attributes | {"throttle-time": throttled.average}, kind=Kind.SENSORS, **tags)


def sanitized(text: str) -> str:
    """A user or client id in an object name: URL-encoded, as in Kafka."""
    return quote(text, safe="").replace("~", "%7E")
