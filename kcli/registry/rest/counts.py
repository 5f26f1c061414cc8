"""Counts of the requests of the REST API, by resource."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kcli.http.rest.routing import Call, Handler, Reply, Route


@dataclass(slots=True)
class RouteCounts:
    count: int = 0
    errors: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class ApiCounts:
    """`by_route` has a method and a template as its keys, so its size does not depend on the clients."""

    by_route: dict[str, RouteCounts] = field(default_factory=dict)
    last_active: float = 0.0
    """The time of the event loop at which the last request came or was answered."""

    def counted(self, route: Route) -> Handler:
        """The handler of a route, which counts its requests."""
        counts = self.by_route.setdefault(f"{route.method} {route.template}", RouteCounts())

        async def handle(call: Call) -> Reply:
            loop = asyncio.get_running_loop()
            self.last_active = began = loop.time()
            has_failed = True
            try:
                reply = await route.handler(call)
                has_failed = reply.status >= 400
            finally:
                counts.count += 1
                counts.errors += has_failed
                self.last_active = loop.time()
                counts.seconds += self.last_active - began
            return reply

        return handle

    def beans(self) -> Iterator[tuple[str, Mapping[str, float | str]]]:
        totals = self.by_route.values()
        errors = sum(counts.errors for counts in totals)
        prefix = "kafka.schema.registry:type="
        for name, value in (
            ("api-success-count", sum(counts.count for counts in totals) - errors),
            ("api-failure-count", errors),
        ):
            yield prefix + name, {name: value}
        for route, counts in self.by_route.items():
            if counts.count:
                yield (
                    f'{prefix}requests,resource="{route}"',
                    {
                        "request-total": counts.count,
                        "request-error-total": counts.errors,
                        "request-time-seconds-total": counts.seconds,
                    },
                )
