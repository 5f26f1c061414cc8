"""Runs a registry until a signal stops it: `kcli schema-registry`.

The exit codes are those of Confluent's registry: 1 after an error, and 128 plus the number of the signal.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from kcli.client.config import ClientConfigError
from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.errors import KafkaError, KcliError
from kcli.registry.assembly import RegistryServer
from kcli.registry.config.settings import registry_config
from kcli.registry.store import CannotStart
from kcli.runtime.event_loop import loop_factory
from kcli.runtime.garbage import GarbagePolicy
from kcli.runtime.network import SystemNetwork
from kcli.security.tls.checks import StoreError
from kcli.server.beans.exposition.program_endpoint import metrics_server
from kcli.server.program import StopSignal, configure_log

_log = logging.getLogger("kcli.registry.SchemaRegistryMain")

FAILED = 1
SIGNALLED = 128


def run(file: str) -> int:
    """Runs a registry with the properties of a file. Returns the exit code."""
    configure_log()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(file))


async def _run(file: str) -> int:
    began = time.monotonic()
    garbage = GarbagePolicy()
    garbage.prepare()
    stop = StopSignal()
    try:
        config = registry_config(load(file))
        for warning in config.warnings:
            _log.warning("%s", warning)
        server = RegistryServer(config, SystemNetwork())
        metrics = metrics_server(config.texts, server.beans)
    except (ConfigError, ClientConfigError, StoreError, OSError) as error:
        _log.error("The registry cannot start: %s", error)
        return FAILED
    stopping = asyncio.create_task(stop.wait())
    starting = asyncio.create_task(server.start())
    try:
        if metrics is not None:
            await metrics.start()
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            seconds = time.monotonic() - began
            _log.info(
                "Server started, listening for requests at %s (after %.1f s)", server.identity.url, seconds
            )
            # A registry of ten thousand schemas would else pause for 0.1 s, again and again.
            garbage.start()
            garbage.watch(lambda: server.rest.counts.last_active)
            await stopping
    except (CannotStart, KafkaError, KcliError, OSError) as error:
        _log.error("The registry cannot start: %s", error)
        return FAILED
    finally:
        stopping.cancel()
        starting.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)
        if metrics is not None:
            await metrics.stop()
        await server.stop()
        _log.info("The registry has stopped")
    return SIGNALLED + stop.number if stop.number is not None else FAILED


if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
