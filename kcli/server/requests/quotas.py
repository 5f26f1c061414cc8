"""Client quotas: limits, meters, and the throttling of clients (KIP-13, KIP-124, KIP-219, KIP-599, KIP-612).

Each quota key has limits by entity (such as a user), and one meter for all clients that share a limit. If any client
has a quota, each request gets a `RequestThrottle`. The handlers and the dispatch charge bytes, time and partitions to
this throttle. The response is sent without a delay, and contains the throttle time. The broker does not read from the
connection until this time is over. If no client has a quota, `is_active` is False, and the rest of this module is not
used.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar, overload

from kcli.config.broker import BrokerConfig
from kcli.errors import ThrottlingQuotaExceededException
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import CLIENT_ID, IP, USER, MetadataImage, QuotaEntity
from kcli.model.observations import Observations
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import Clock
from kcli.security.principal import Principal
from kcli.server.network.connection_quota import ConnectionQuota
from kcli.server.network.rates import METERS_MAX, SampledRate, TokenBucket, Windows
from kcli.server.requests.apis import Api

PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

CLIENT_ID_MAX_CHARS = 255
"""The characters of a client id that distinguish clients. A client id may have 32,767 bytes, and each quota key
keeps up to METERS_MAX of them."""

# The largest values of int32 fields.
_FETCH_BYTES_MAX = _THROTTLE_MAX_MS = 2**31 - 1

T = TypeVar("T")


class Meter(Protocol):
    def seconds_over(self, limit: float, now: float) -> float: ...
    def is_idle(self, now: float) -> bool: ...


M = TypeVar("M", bound=Meter)


@dataclass(slots=True)
class Metered(Generic[M]):
    """A meter and its limit. `throttled_ms` are the throttle times of requests, and `used_at` is the time of the last
    request."""

    meter: M
    limit: float
    throttled_ms: Observations = field(default_factory=Observations)
    used_at: float = 0.0


IDLE_SECONDS = 3600.0
"""The time after which the metrics of a client without requests disappear, as in Kafka."""

Client = tuple[str, str]
"""A user and a client id. If all users share one meter, the user is empty. If all client ids share one meter, the
client id is empty."""


class Delays:
    """The times at which delays end. A connection has at most one delay at a time, so the number of delays is limited
    by the number of connections.
    """

    def __init__(self) -> None:
        self._ends: list[float] = []

    def add(self, seconds: float, now: float) -> None:
        self.count(now)
        heapq.heappush(self._ends, now + seconds)

    def count(self, now: float) -> int:
        """Returns the number of delays that have not ended."""
        while self._ends and self._ends[0] <= now:
            heapq.heappop(self._ends)
        return len(self._ends)


class Limits(Generic[M]):
    """The limits of one quota key by entity, and the meters of the clients that have a limit. `delays` has the delays
    of clients that have exceeded their limit.
    """

    def __init__(self, key: str, new_meter: Callable[[], M]) -> None:
        self.by_entity: dict[QuotaEntity, float] = {}
        self.delays = Delays()
        self._key = key
        self._new_meter = new_meter
        self._by_client: dict[Client, Metered[M] | None] = {}
        self._meters: dict[Client, Metered[M]] = {}
        self._meters_max = METERS_MAX

    def set(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        limit = quotas.get(self._key)
        if limit is None:
            self.by_entity.pop(entity, None)
        else:
            self.by_entity[entity] = limit
        self._by_client.clear()
        if not self.by_entity:
            self._meters.clear()

    def of(self, client: Client, now: float) -> Metered[M] | None:
        """Returns the limit of a client, and the meter that this client shares with all other clients under the same
        limit.
        """
        if not self.by_entity:
            return None
        if client in self._by_client:
            metered = self._by_client[client]
        else:
            self._keep_bounded(now)
            metered = self._by_client[client] = self._find(client)
        if metered is not None:
            metered.used_at = now
        return metered

    def used(self, now: float) -> Iterator[tuple[Client, Metered[M]]]:
        """The meters of clients whose last request is not older than IDLE_SECONDS."""
        for client, metered in list(self._meters.items()):
            if now - metered.used_at < IDLE_SECONDS:
                yield client, metered

    def _find(self, client: Client) -> Metered[M] | None:
        user, client_id = client
        for entity, sharing in _PRECEDENCE:
            names = {USER: user, CLIENT_ID: client_id}
            limit = self.by_entity.get(
                tuple((kind, names[kind] if named else None) for kind, named in entity)
            )
            if limit is not None:
                key = (user if USER in sharing else "", client_id if CLIENT_ID in sharing else "")
                metered = self._meters.get(key)
                if metered is None:
                    metered = self._meters[key] = Metered(self._new_meter(), limit)
                metered.limit = limit
                return metered
        return None

    def _keep_bounded(self, now: float) -> None:
        if len(self._by_client) < self._meters_max:
            return
        self._by_client.clear()
        self._meters = {
            key: metered for key, metered in self._meters.items() if not metered.meter.is_idle(now)
        }
        self._meters_max = max(METERS_MAX, 2 * len(self._meters))


# Quota precedence, most specific first. A row has the types of the entity, and for each type whether it is a named
# entity or the default. It also has the types that clients must have in common to share a meter. A default limits each
# client separately.
_PRECEDENCE = (
    (((CLIENT_ID, True), (USER, True)), (USER, CLIENT_ID)),
    (((CLIENT_ID, False), (USER, True)), (USER, CLIENT_ID)),
    (((USER, True),), (USER,)),
    (((CLIENT_ID, True), (USER, False)), (USER, CLIENT_ID)),
    (((CLIENT_ID, False), (USER, False)), (USER, CLIENT_ID)),
    (((USER, False),), (USER,)),
    (((CLIENT_ID, True),), (CLIENT_ID,)),
    (((CLIENT_ID, False),), (CLIENT_ID,)),
)


class ClientQuotas:
    """The quotas of one broker. Call `load` with the first image, then `apply` with each change."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self.clock = clock
        self.windows = Windows(
            config.integer("quota.window.num"), config.integer("quota.window.size.seconds")
        )
        mutations = Windows(
            config.integer("controller.quota.window.num"),
            config.integer("controller.quota.window.size.seconds"),
        )
        self.is_active = False
        self.produced = Limits(PRODUCER_BYTE_RATE, self._new_rate)
        self.fetched = Limits(CONSUMER_BYTE_RATE, self._new_rate)
        self.time = Limits(REQUEST_PERCENTAGE, self._new_rate)
        self.mutations = Limits(CONTROLLER_MUTATION_RATE, lambda: TokenBucket(mutations))
        self.connections = ConnectionQuota(self.windows, clock)

    def _new_rate(self) -> SampledRate:
        return SampledRate(self.windows)

    def load(self, image: MetadataImage) -> None:
        for entity, quotas in image.client_quotas.items():
            self._set(entity, quotas)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for entity in delta.client_quotas_changed:
            self._set(entity, image.client_quotas.get(entity, {}))

    def _set(self, entity: QuotaEntity, quotas: Mapping[str, float]) -> None:
        if entity and entity[0][0] == IP:
            self.connections.set(entity[0][1], quotas.get(CONNECTION_CREATION_RATE))
            return
        of_clients = (self.produced, self.fetched, self.time, self.mutations)
        for limits in of_clients:
            limits.set(entity, quotas)
        self.is_active = any(limits.by_entity for limits in of_clients)

    def throttle(
        self, principal: Principal, client_id: str | None, size_bytes: int, mute: Callable[[float], None]
    ) -> RequestThrottle:
        """The throttle of one request that begins now. `mute` stops the reading from the client for some seconds."""
        client = (principal.name, (client_id or "")[:CLIENT_ID_MAX_CHARS])
        return RequestThrottle(self, client, size_bytes, mute)


class RequestThrottle:
    """Charges the cost of one request to its client, and computes the throttle time."""

    __slots__ = (
        "_busy",
        "_client",
        "_delays",
        "_is_exempt",
        "_is_refused",
        "_is_timed",
        "_mute",
        "_quotas",
        "_since",
        "_size_bytes",
        "throttle_ms",
    )

    def __init__(
        self, quotas: ClientQuotas, client: Client, size_bytes: int, mute: Callable[[float], None]
    ) -> None:
        self.throttle_ms = 0
        self._quotas = quotas
        self._delays = quotas.time.delays
        self._client = client
        self._size_bytes = size_bytes
        self._mute = mute
        self._is_exempt = False
        self._is_refused = False
        self._is_timed = False
        self._busy = 0.0
        self._since: float | None = quotas.clock.monotonic()

    # The time of a request counts while it uses the event loop, not while it waits.

    def resume(self) -> None:
        if self._since is None:
            self._since = self._quotas.clock.monotonic()

    def pause(self) -> None:
        if self._since is not None:
            self._busy += self._quotas.clock.monotonic() - self._since
            self._since = None

    # Charges of handlers.

    def exempt(self) -> None:
        """Exempts the request from quotas, because another broker has sent the request."""
        self._is_exempt = True

    def refuse(self) -> None:
        """Charges the request even if it would be exempt from quotas. Only requests of brokers are exempt, and the
        sender of this request does not have the permission of a broker."""
        self._is_refused = True

    def limit_fetch(self, request: FetchRequest) -> FetchRequest:
        """Limits the size of a fetch to the bytes that the quota allows in all of its windows together."""
        quotas = self._quotas
        metered = quotas.fetched.of(self._client, quotas.clock.monotonic())
        if metered is None:
            return request
        most = int(min(metered.limit * quotas.windows.full_seconds, _FETCH_BYTES_MAX))
        if most >= request.max_bytes:
            return request
        return replace(request, max_bytes=most, min_bytes=min(request.min_bytes, most))

    def refuses_fetch(self, size_bytes: int) -> bool:
        """Charges the bytes and the time of a fetch. Returns True if a quota is exceeded, so that the response must be
        sent without records."""
        quotas, now = self._quotas, self._quotas.clock.monotonic()
        metered = quotas.fetched.of(self._client, now)
        if metered is not None:
            metered.meter.record(size_bytes, now)
            self._throttle(quotas.fetched, metered, metered.meter.seconds_over(metered.limit, now))
        self._charge_time()
        if self.throttle_ms and metered is not None:
            metered.meter.record(-size_bytes, now)
        return self.throttle_ms > 0

    def charge_partitions(self, count: int, *, strict: bool) -> None:
        """Charges partitions that are created or deleted.

        If `strict`, raises ThrottlingQuotaExceededException when the quota is already exceeded.
        """
        quotas, now = self._quotas, self._quotas.clock.monotonic()
        metered = quotas.mutations.of(self._client, now)
        if metered is None:
            return
        over = metered.meter.seconds_over(metered.limit, now)
        if strict and over > 0:
            # The time is rounded up, because a retry that came slightly too early would be refused again.
            self._throttle(quotas.mutations, metered, over + 0.0005)
            raise ThrottlingQuotaExceededException
        metered.meter.spend(count, metered.limit, now)
        if not strict:
            self._throttle(quotas.mutations, metered, metered.meter.seconds_over(metered.limit, now))

    # Charges of the dispatch.

    @overload
    def charge(self, api: Api, response: None) -> None: ...

    @overload
    def charge(self, api: Api, response: T) -> T: ...

    def charge(self, api: Api, response: T | None) -> T | None:
        """Charges the remaining cost. If a quota is exceeded, mutes the client and sets the throttle time of the
        response.

        If `response` is None, the request is a Produce without a response. Only its bytes are charged.
        """
        self.resume()
        if self._is_refused or not (self._is_exempt or api.is_exempt_from_quotas):
            if api.key is ApiKey.PRODUCE:
                self._charge_produced()
            if response is not None:
                self._charge_time()
        if not self.throttle_ms:
            return response
        self._mute(self.throttle_ms / 1000)
        self._delays.add(self.throttle_ms / 1000, self._quotas.clock.monotonic())
        if response is None or not hasattr(response, "throttle_time_ms"):
            return response
        throttled: T = replace(response, throttle_time_ms=self.throttle_ms)  # type: ignore[type-var]
        return throttled

    def finish(self) -> None:
        """Charges the time since `charge`, in which the answer was encoded, to the next request."""
        if self._is_refused or not self._is_exempt:
            quotas, now = self._quotas, self._quotas.clock.monotonic()
            metered = quotas.time.of(self._client, now)
            if metered is not None:
                metered.meter.record(self._busy_percent(), now)

    def _charge_produced(self) -> None:
        quotas, now = self._quotas, self._quotas.clock.monotonic()
        metered = quotas.produced.of(self._client, now)
        if metered is not None:
            metered.meter.record(self._size_bytes, now)
            self._throttle(quotas.produced, metered, metered.meter.seconds_over(metered.limit, now))

    def _charge_time(self) -> None:
        if self._is_timed:
            return
        self._is_timed = True
        quotas, now = self._quotas, self._quotas.clock.monotonic()
        metered = quotas.time.of(self._client, now)
        if metered is None:
            return
        metered.meter.record(self._busy_percent(), now)
        # One request throttles its client for at most one window, even if the request is large.
        over = metered.meter.seconds_over(metered.limit, now)
        self._throttle(quotas.time, metered, min(over, quotas.windows.size_seconds))

    def _busy_percent(self) -> float:
        """The time since the last charge, in percent of a second of the event loop."""
        if self._since is not None:
            self.pause()
            self.resume()
        busy, self._busy = self._busy, 0.0
        return busy * 100

    def _throttle(self, limits: Limits[M], metered: Metered[M], seconds: float) -> None:
        if seconds <= 0:
            return
        metered.throttled_ms.add(seconds * 1000)
        throttle_ms = round(min(seconds * 1000, _THROTTLE_MAX_MS))
        if throttle_ms > self.throttle_ms:
            self.throttle_ms, self._delays = throttle_ms, limits.delays
