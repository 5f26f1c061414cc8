"""The traces of a node: the thread that exports them, and the rules for the requests that get spans.

This module is imported only if a key kcli.trace.* asks for traces.
"""

from __future__ import annotations

import asyncio
import os

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.model.java_text import trim
from kcli.runtime.clock import Clock
from kcli.server.metrics.metrics import Metrics
from kcli.server.network.connection import Serve
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.tracing import NEVER, RequestTracer, Rules, traced
from kcli.tracing.settings import TraceSettings, TracingError, settings_of
from kcli.tracing.tracer import export_queue

SERVICE = "kcli-broker"
STOP_MAX_SECONDS = 2.0
"""The longest time for which a stop of the node waits until the collector has the last spans."""


class NodeTraces:
    """Exports the traces of one node, from the start of the node to `stop`."""

    def __init__(self, config: BrokerConfig, clock: Clock, metrics: Metrics) -> None:
        """Starts the export. Raises ConfigError if traces cannot be exported."""
        self._queue = export_queue(_settings(config))
        self._tracer = RequestTracer(
            self._queue,
            _rules(config),
            config.node_id,
            clock.monotonic,
            metrics.exemplars,
            clears_facts=config.metrics_address is None,
        )

    def around(self, dispatch: Dispatch) -> Serve:
        """Returns a function that serves requests with `dispatch` and makes their spans."""
        return traced(dispatch, self._tracer)

    async def stop(self) -> None:
        """Exports the last spans. The wait for the export is in another thread, because the event loop still
        has work.
        """
        await asyncio.to_thread(self._queue.close, STOP_MAX_SECONDS)


def _settings(config: BrokerConfig) -> TraceSettings:
    key = "kcli.trace.endpoint"
    try:
        return settings_of(
            os.environ,
            SERVICE,
            endpoint=trim(config.text(key)) or None,
            attributes=(("service.instance.id", str(config.node_id)),),
        )
    except TracingError as error:
        raise ConfigError(str(error), key=key) from error


def _rules(config: BrokerConfig) -> Rules:
    slow_ms = config.integer("kcli.trace.slow.ms")
    return Rules(
        ratio=config.number("kcli.trace.sample.ratio"),
        slow_seconds=NEVER if slow_ms < 0 else slow_ms / 1000,
        reads_headers=config.boolean("kcli.trace.headers"),
    )
