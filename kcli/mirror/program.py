"""Runs MirrorMaker until a signal stops it: `kcli mirror-maker`.

The exit codes are Java's. Code 1 means that a worker has failed, code 2 means an error before the start, and code 3
means an error of the start. A signal has the code 128 plus its number.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence

from kcli.client.config import ClientConfigError
from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.errors import KafkaError
from kcli.formats.connect.errors import ConnectException
from kcli.mirror.assembly import Driver, assemble
from kcli.mirror.config.grammar import MirrorConfig, mirror_config
from kcli.mirror.flow_log import add_names
from kcli.runtime.event_loop import loop_factory
from kcli.runtime.garbage import GarbagePolicy
from kcli.security.tls.checks import StoreError
from kcli.server.beans.exposition.program_endpoint import metrics_server
from kcli.server.program import StopSignal, configure_log

_log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorMaker")

WORKER_FAILED, SET_UP_ERROR, START_ERROR = 1, 2, 3
SIGNALLED = 128


def run(file: str, clusters: Sequence[str]) -> int:
    """Runs the flows of a file to `clusters`, by default to every cluster. Returns the exit code."""
    configure_log()
    add_names()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(file, clusters))


async def _run(file: str, clusters: Sequence[str]) -> int:
    garbage = GarbagePolicy()
    garbage.prepare()
    stop = StopSignal()
    _log.info("Kafka MirrorMaker initializing ...")
    try:
        config = mirror_config(load(file))
        for warning in config.warnings:
            _log.warning("%s", warning)
        driver = await _set_up(config, clusters, stop)
    except (ConfigError, ClientConfigError, KafkaError, ConnectException, StoreError, OSError) as error:
        _log.error("Stopping due to error: %s", error)
        return SET_UP_ERROR
    if driver is None:
        assert stop.number is not None, "only a signal interrupts the set-up"
        return SIGNALLED + stop.number
    return await _serve(config, driver, stop, garbage)


async def _set_up(config: MirrorConfig, clusters: Sequence[str], stop: StopSignal) -> Driver | None:
    """Returns None if a signal comes first, because a cluster that is down delays the set-up for a minute."""
    assembling = asyncio.create_task(assemble(config, clusters))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((assembling, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if assembling.done():
        return assembling.result()
    assembling.cancel()
    await asyncio.gather(assembling, return_exceptions=True)
    return None


async def _serve(config: MirrorConfig, driver: Driver, stop: StopSignal, garbage: GarbagePolicy) -> int:
    _log.info("Kafka MirrorMaker starting with %d herders.", len(driver.workers))
    try:
        metrics = metrics_server(config.texts, driver.beans)
        if metrics is not None:
            await metrics.start()
    except (ConfigError, OSError) as error:
        _log.error("Failed to start MirrorMaker: %s", error)
        return START_ERROR
    running = [worker.start() for worker in driver.workers]
    for task in running:
        task.add_done_callback(lambda _: stop.end())
    driver.serve()
    _log.info("Configuring connectors will happen once the worker joins the group as a leader")
    _log.info("Kafka MirrorMaker started")
    garbage.start()
    garbage.watch(lambda: 0.0 if driver.rest is None else driver.rest.last_active)
    await stop.wait()
    _log.info("Kafka MirrorMaker stopping")
    for server in (driver.rest, metrics):
        if server is not None:
            await server.stop()
    for worker in driver.workers:
        worker.stop()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, Exception):
            _log.error("Uncaught exception in herder work thread, exiting: %s", result, exc_info=result)
    _log.info("Kafka MirrorMaker stopped.")
    return SIGNALLED + stop.number if stop.number is not None else WORKER_FAILED


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
