"""Runs a node until a signal stops it: `kcli server-start`, or `python -m kcli.server.main server.properties`.

After a second SIGTERM or SIGINT, the node no longer waits for the controlled shutdown. The node still stops cleanly: it
flushes and closes its logs.
"""

from __future__ import annotations

import sys

from kcli.runtime.hidden_arguments import hide_secrets

if __name__ == "__main__":
    # `--override` may have a password. The other imports take long, and other users can read the list of processes.
    hide_secrets(sys.argv)

import asyncio
import dataclasses
import logging
import signal
from collections.abc import Mapping, Sequence

from kcli.config import environment
from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.environment import JAAS_FILE
from kcli.config.not_built import check_can_serve, start_up_warnings
from kcli.config.properties import load
from kcli.config.start_up import node_config
from kcli.errors import KafkaError, StorageError
from kcli.raft.node import QuorumError
from kcli.runtime.clock import SystemClock
from kcli.runtime.descriptors import raise_limit
from kcli.runtime.disk import SystemDisk
from kcli.runtime.event_loop import loop_factory
from kcli.runtime.garbage import GarbagePolicy
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server import logging as server_logging
from kcli.server.formatting.format import check_new_directories
from kcli.server.logging import LogSettings
from kcli.server.logging.settings import log_settings
from kcli.server.node import Node
from kcli.server.process.watchdog import LoopWatchdog

_log = logging.getLogger("kcli.server.KafkaRaftServer")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
METRICS_LISTENER = "kcli.metrics.listener"
METRICS_USERS, METRICS_PROTOCOL = "kcli.metrics.users", "kcli.metrics.protocol"


def run(config: BrokerConfig, *, is_background: bool = False) -> int:
    """Runs a node until SIGTERM or SIGINT. Returns the exit code.

    Raises ConfigError if the configuration needs a feature that is not built.

    If the environment names a directory for it, the log also goes to files in this directory. A node in the background
    writes nothing to stdout after its start if the log has files.
    """
    settings = log_settings(config, environment.logs_directory())
    leaves_console = _configure_log(settings) and is_background
    if leaves_console:
        _log.info("When the server has started, its log is only in %s", settings.directory)
    _raise_descriptor_limit()
    check_can_serve(config)
    for warning in (
        *environment.warnings(is_node=True),
        *_closed_metrics(config),
        *start_up_warnings(config),
    ):
        _log.warning("%s", warning)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(config, leaves_console=leaves_console))


def _raise_descriptor_limit() -> None:
    """Raises the soft limit of open files to the hard limit, as Kafka does. Each connection and each open file needs a
    descriptor."""
    before, limit = raise_limit()
    changed = f" (raised from {before})" if limit != before else ""
    _log.info("This process may open %d files and sockets%s", limit, changed)


def _configure_log(settings: LogSettings) -> bool:
    """Starts the log. If its files cannot be written, the log goes to stdout only, as in Kafka. Returns whether the log
    has files."""
    try:
        server_logging.configure(settings)
    except OSError as error:
        server_logging.configure(dataclasses.replace(settings, directory=None))
        _log.error("The log cannot be written to files in %s: %s", settings.directory, error.strerror)
        return False
    return settings.directory is not None


async def _serve(config: BrokerConfig, *, leaves_console: bool) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    waiting = loop.create_task(stopping.wait())
    garbage = GarbagePolicy()
    garbage.prepare()
    try:
        check_new_directories(config, SystemDisk())
        node = Node(config, clock=SystemClock(), disk=SystemDisk(), network=SystemNetwork(), rng=SystemRng())
        starting = loop.create_task(node.start())
        await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            _log.info("The server was stopped before it was ready")
            await node.stop()
            return 0
        starting.result()
        garbage.start()
        garbage.watch(lambda: node.sockets.last_active)
    except ConfigError as error:
        _log.critical("Exiting because the server cannot start: %s", config.texts.blamed(error).located())
        return 1
    except (StorageError, QuorumError, KafkaError, OSError) as error:
        _log.critical("Exiting because the server cannot start: %s", error)
        return 1
    except Exception as error:
        # One line, and the traceback at the level DEBUG, because users cannot read a traceback.
        _log.critical(
            "Exiting because the server cannot start with %s", config.texts.source or "it", exc_info=error
        )
        return 1
    if leaves_console:
        server_logging.leave_console()
    watchdog = LoopWatchdog(loop.call_soon_threadsafe)
    watchdog.start()
    await asyncio.wait((waiting, node.halted), return_when=asyncio.FIRST_COMPLETED)
    watchdog.stop()
    waiting.cancel()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, node.stop_waiting)
    halted = node.halted.done()
    await node.stop(clean=not halted)
    return 1 if halted else 0


def configured(path: str, overrides: Mapping[str, str]) -> BrokerConfig:
    """Reads the configuration from a file. `overrides` take precedence. Raises ConfigError and OSError.

    A JAAS file and a port for metrics that Kafka's environment variables name have an effect if the file does not set
    the corresponding keys. The port for metrics is open on every interface, as with Kafka's start script.
    """
    properties = load(path)
    settings = [(JAAS_FILE, environment.jaas_file(), environment.KAFKA_OPTS)]
    if not _unmet_demands({**properties, **overrides}):
        settings.append((METRICS_LISTENER, environment.metrics_address(), environment.JMX_PORT))
    for key, value, variable in settings:
        if value is not None and key not in properties:
            properties.update_from({key: value}, where=f"environment variable {variable}")
    return node_config(properties, overrides)


def _closed_metrics(config: BrokerConfig) -> list[str]:
    """A warning if the metrics endpoint is closed, because its port came without the protection that was demanded."""
    address, needed = environment.metrics_address(), _unmet_demands(config.texts)
    if address is None or METRICS_LISTENER in config.texts or not needed:
        return []
    options = " and ".join((f"{METRICS_LISTENER}={address}", *needed))
    return [f"The port for metrics is not opened, because its options demand a login or TLS. Set {options}."]


def _unmet_demands(texts: Mapping[str, str]) -> list[str]:
    """The keys that protect the metrics endpoint as the options of JMX demand, and that are not set."""
    login, tls = environment.metrics_demands()
    needed = [METRICS_USERS] if login and not texts.get(METRICS_USERS) else []
    if tls and texts.get(METRICS_PROTOCOL) != "HTTPS":
        needed.append(f"{METRICS_PROTOCOL}=HTTPS")
    return needed


def main(arguments: Sequence[str] | None = None) -> int:
    import argparse  # here, because `kcli server-start` does not call this function

    parser = argparse.ArgumentParser(prog="kcli.server.main", description="Runs a broker and controller.")
    parser.add_argument("properties", help="the node's server.properties")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a property over the file's"
    )
    parser.add_argument(
        "--background",
        action="store_true",
        help="write nothing to stdout after the start if the log has files",
    )
    options = parser.parse_args(arguments)
    environment.apply_to_process()
    overrides = dict(item.split("=", 1) for item in options.override)
    try:
        return run(configured(options.properties, overrides), is_background=options.background)
    except (ConfigError, OSError) as error:
        print(error.located() if isinstance(error, ConfigError) else error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
