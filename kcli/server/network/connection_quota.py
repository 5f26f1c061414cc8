"""The quota connection_creation_rate (KIP-612), which limits the rate of new connections from an IP address."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator

from kcli.runtime.clock import Clock
from kcli.runtime.threads import LOOKUPS
from kcli.server.network.rates import METERS_MAX, SampledRate, Windows

_log = logging.getLogger("kcli.server.ConnectionQuotas")


class ConnectionQuota:
    """The limits by IP address, and the connection rate of each address with a limit."""

    def __init__(self, windows: Windows, clock: Clock) -> None:
        self._windows = windows
        self._clock = clock
        self._default: float | None = None
        self._limits: dict[str, float] = {}
        self._rates: dict[str, SampledRate] = {}
        self._rates_max = METERS_MAX
        self._hosts: dict[str, float | None] = {}
        self._addresses: dict[str, str] = {}
        self._resolving: dict[asyncio.Task[None], None] = {}

    def set(self, name: str | None, limit: float | None) -> None:
        """Sets a limit, or removes the limit if `limit` is None. `name` is an IP address, or a host name that is
        resolved now. If `name` is None, the limit is the default of all addresses."""
        if name is None:
            self._default = limit
            return
        from kcli.security.java_address import (
            parse_literal,  # imported late, because few brokers have a quota
        )

        try:
            address = parse_literal(name)
        except ValueError as error:
            _log.error("A stored quota is not applied: %s", error)
            return
        if address is not None:
            self._set_address(address, limit)
        else:
            self._hosts[name] = limit
            # The host name is resolved in a task, because this may take long.
            task = asyncio.get_running_loop().create_task(self._resolve(name), name="resolve-quota")
            self._resolving[task] = None
            task.add_done_callback(self._resolving.pop)

    def throttle_seconds(self, host: str) -> float:
        """Counts a new connection, and returns 0. If the connection exceeds the limit, the connection is not counted,
        and the result is the number of seconds after which the caller must close the connection.
        """
        limit = self._limits.get(host, self._default)
        if limit is None:
            return 0.0
        now = self._clock.monotonic()
        rate = self._rates.get(host)
        if rate is None:
            self._keep_bounded(now)
            rate = self._rates[host] = SampledRate(self._windows)
        rate.record(1, now)
        seconds = rate.seconds_over(limit, now)
        if seconds > 0:
            rate.record(-1, now)
        return min(seconds, self._windows.size_seconds)

    def rates(self) -> Iterator[tuple[str, float]]:
        """The connections per second from each address with a limit."""
        now = self._clock.monotonic()
        for host, rate in list(self._rates.items()):
            yield host, rate.per_second(now)

    def _keep_bounded(self, now: float) -> None:
        if len(self._rates) >= self._rates_max:
            self._rates = {host: rate for host, rate in self._rates.items() if not rate.is_idle(now)}
            self._rates_max = max(METERS_MAX, 2 * len(self._rates))

    def _set_address(self, address: str, limit: float | None) -> None:
        if limit is None:
            self._limits.pop(address, None)
        else:
            self._limits[address] = limit

    async def _resolve(self, name: str) -> None:
        try:
            address = await LOOKUPS.run(socket.gethostbyname, name)
        except (OSError, UnicodeError) as error:  # UnicodeError: the text cannot be the name of a host
            _log.warning(
                "The connection quota of %s has no effect, because the host has no address: %s", name, error
            )
            return
        self._set_address(self._addresses.pop(name, address), None)
        self._set_address(address, self._hosts[name])
        self._addresses[name] = address
