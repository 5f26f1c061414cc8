"""Logs which setting is wrong if the librdkafka client of a tool reaches no broker.

For most wrong settings, such as a missing security.protocol, librdkafka only reports a closed connection.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping

from kcli.cli.waits import watch_servers
from kcli.model.java_text import parse_long, trim
from kcli.rdkafka.objects import ClientError


def explained(
    config: dict[str, object],
    properties: Mapping[str, str],
    *,
    limit_ms: int | None = None,
    block_ms: int | None = None,
) -> dict[str, object]:
    """Returns librdkafka's configuration with a callback that logs the mistake in the client's properties.

    If no server answers, prints a line at a terminal. `limit_ms` is the time after which a consumer ends.
    `block_ms` is a producer's default of max.block.ms.
    """
    watch_servers(properties.get("bootstrap.servers", ""), _limit(properties, limit_ms, block_ms))
    return {**config, "error_cb": Unreachable(properties)}


def _limit(properties: Mapping[str, str], limit_ms: int | None, block_ms: int | None) -> str:
    """Returns a sentence about the longest wait."""
    text = properties.get("max.block.ms")
    if block_ms is not None:
        block_ms = block_ms if text is None else parse_long(trim(text))
        return f"A record waits at most {block_ms / 1000:g} s (max.block.ms)."
    if limit_ms is not None and limit_ms >= 0:
        return f"The command gives up after {limit_ms / 1000:g} s."
    return "The command waits until you stop it with Ctrl-C."


class Unreachable:
    """Checks the bootstrap servers once, in a thread, when librdkafka first reports that all brokers are down."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties
        self.thread: threading.Thread | None = None

    def __call__(self, error: ClientError) -> None:
        """librdkafka calls this method for each of its errors."""
        if error.code() == error._ALL_BROKERS_DOWN and self.thread is None:
            self.thread = threading.Thread(target=self._explain, daemon=True)
            self.thread.start()

    def _explain(self) -> None:
        # Imported late, because most runs need no explanation.
        from kcli.client.config import ClientConfigError, client_config
        from kcli.client.explain import explain
        from kcli.errors import NetworkException
        from kcli.rdkafka.log import logger

        # librdkafka accepts some settings that our client refuses.
        with contextlib.suppress(ClientConfigError):
            config = client_config(self.properties)
            for address in config.servers:
                if hint := explain(address, config.security, NetworkException()):
                    logger().warning("Connection to %s could not be established (%s).", address, hint)
                    return
